package server

import (
	"context"

	"berth"
	"berth/op"
)

// Restart implements api.TaskControl: by this machine's agent if the node is
// its own, else by the node's, over the connection that it opened.
func (s *Server) Restart(ctx context.Context, node berth.NodeID, in *op.RestartAlloc) error {
	if s.config.LocalTasks != nil && s.config.LocalNode() == node {
		return s.config.LocalTasks.Restart(ctx, node, in)
	}
	return s.ask(ctx, node, op.AllocRestartRPC, in)
}

// Signal implements api.TaskControl.
func (s *Server) Signal(ctx context.Context, node berth.NodeID, in *op.SignalAlloc) error {
	if s.config.LocalTasks != nil && s.config.LocalNode() == node {
		return s.config.LocalTasks.Signal(ctx, node, in)
	}
	return s.ask(ctx, node, op.AllocSignalRPC, in)
}

// ask calls the agent of a node.
func (s *Server) ask(ctx context.Context, node berth.NodeID, method string, in any) error {
	sess := s.sessions.of(node)
	if sess == nil {
		return berth.Errorf(berth.NotFound, "the agent of node %s is not connected to this server", node)
	}
	return sess.Call(ctx, method, in, nil)
}

package server

import (
	"context"

	"berth"
	"berth/op"
)

// Restart implements api.TaskControl. Tasks of another node are restarted by its
// agent, over the connection that the agent opened.
func (s *Server) Restart(ctx context.Context, node berth.NodeID, in *op.RestartAlloc) error {
	if s.config.LocalTasks != nil && s.config.LocalNode() == node {
		return s.config.LocalTasks.Restart(ctx, node, in)
	}
	_, err := op.Call(ctx, agentOf{s, node}, op.AgentRestartTask, in)
	return err
}

// Signal implements api.TaskControl.
func (s *Server) Signal(ctx context.Context, node berth.NodeID, in *op.SignalAlloc) error {
	if s.config.LocalTasks != nil && s.config.LocalNode() == node {
		return s.config.LocalTasks.Signal(ctx, node, in)
	}
	_, err := op.Call(ctx, agentOf{s, node}, op.AgentSignalTask, in)
	return err
}

package server

import (
	"context"

	"berth"
	"berth/op"
)

// LocalAgent is the agent in this process, as servers call it.
type LocalAgent interface {
	op.Caller
	// Open opens a call in which both ends send messages. It returns once the
	// agent has accepted it.
	Open(ctx context.Context, method string, in any) (op.Duplex, error)
}

// Agent implements api.Agents.
func (s *Server) Agent(node berth.NodeID) op.Caller {
	if s.config.LocalAgent != nil && s.config.LocalNode() == node {
		return s.config.LocalAgent
	}
	return agentOf{s, node}
}

// Open implements api.Agents. An agent elsewhere is called over the connection
// that it opened.
func (s *Server) Open(ctx context.Context, node berth.NodeID, method string, in any) (op.Duplex, error) {
	if s.config.LocalAgent != nil && s.config.LocalNode() == node {
		return s.config.LocalAgent.Open(ctx, method, in)
	}
	st, err := agentOf{s, node}.stream(ctx, method, in)
	if err != nil {
		return nil, err
	}
	return st, nil
}

package server

import (
	"context"

	"berth"
	"berth/internal/api"
	"berth/op"
)

// Checks implements api.CheckReader. Checks of another node come from its agent,
// over the connection that the agent opened.
func (s *Server) Checks(ctx context.Context, node berth.NodeID, alloc string) (map[string]op.CheckStatus, error) {
	if local, ok := s.config.Local.(api.CheckReader); ok && s.config.LocalNode() == node {
		return local.Checks(ctx, node, alloc)
	}
	out, err := op.Call(ctx, agentOf{s, node}, op.AgentChecks, &op.AllocRef{AllocID: alloc})
	if err != nil {
		return nil, err
	}
	if out.Results == nil {
		out.Results = map[string]op.CheckStatus{}
	}
	return out.Results, nil
}

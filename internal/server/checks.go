package server

import (
	"context"

	"berth"
	"berth/internal/api"
	"berth/op"
)

// Checks implements api.CheckReader: as this machine's agent knows it if the
// node is its own, else as the node's does, over the connection that it opened.
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

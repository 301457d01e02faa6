package server

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	"berth"
	"berth/op"
)

// Logs implements api.LogStreamer: from this machine if the node is its own,
// else from the node's agent, over the connection that it opened.
func (s *Server) Logs(ctx context.Context, node berth.NodeID, q *op.LogsQuery, send func(*op.StreamFrame) error) error {
	if s.config.Local != nil && s.config.LocalNode() == node {
		return s.config.Local.Logs(ctx, node, q, send)
	}
	sess := s.sessions.of(node)
	if sess == nil {
		return berth.Errorf(berth.NotFound, "the agent of node %s is not connected to this server", node)
	}
	stream, err := sess.Stream(ctx, op.ReadLogs.RPC, q)
	if err != nil {
		return err
	}
	defer stream.Close()
	for {
		payload, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var frame op.StreamFrame
		if err := json.Unmarshal(payload, &frame); err != nil {
			return err
		}
		if err := send(&frame); err != nil {
			return err
		}
	}
}

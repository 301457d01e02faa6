package server

import (
	"context"
	"encoding/json"

	"berth"
	"berth/op"
)

// Logs implements api.LogStreamer: from this machine if the node is its own,
// else from the node's agent, over the connection that it opened.
func (s *Server) Logs(ctx context.Context, node berth.NodeID, q *op.LogsQuery, send func(*op.StreamFrame) error) error {
	if s.config.Local != nil && s.config.LocalNode() == node {
		return s.config.Local.Logs(ctx, node, q, send)
	}
	stream, err := agentOf{s, node}.stream(ctx, q)
	if err != nil {
		return err
	}
	defer stream.Close()
	return receive(stream, func(payload []byte) error {
		var frame op.StreamFrame
		if err := json.Unmarshal(payload, &frame); err != nil {
			return err
		}
		return send(&frame)
	})
}

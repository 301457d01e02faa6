package server

import (
	"context"
	"encoding/json"

	"berth"
	"berth/op"
)

// Logs implements api.LogStreamer. Logs of another node come from its agent, over
// the connection that the agent opened.
func (s *Server) Logs(ctx context.Context, node berth.NodeID, q *op.LogsQuery, send func(*op.StreamFrame) error) error {
	if s.config.Local != nil && s.config.LocalNode() == node {
		return s.config.Local.Logs(ctx, node, q, send)
	}
	stream, err := agentOf{s, node}.stream(ctx, op.AgentLogs.RPC, q)
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

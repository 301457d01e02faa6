package agent

import (
	"context"
	"errors"

	"berth"
	"berth/op"
)

// Diagnostics looks into the process of the agent.
type Diagnostics interface {
	// Monitor sends the log from now on until ctx ends; nil is a sign of life.
	Monitor(ctx context.Context, q *op.MonitorQuery, send func([]byte) error) error
	// Export sends what is in the log file.
	Export(ctx context.Context, q *op.ExportQuery, send func([]byte) error) error
	// Profile takes a profile.
	Profile(ctx context.Context, q *op.ProfileQuery) (*op.ProfileTaken, error)
	// Host describes the machine.
	Host() *op.AgentHost
}

// errNoDiagnostics answers for an agent that nothing looks into.
var errNoDiagnostics = berth.Errorf(berth.Unavailable, "this agent does not show its log and its process")

// serveDiagnostics answers what servers ask about the process.
func (a *Agent) serveDiagnostics(s *serving) {
	d := a.c.Diagnostics
	lines := func(ctx context.Context, node string, from op.Incoming, run func(func([]byte) error) error) error {
		if err := a.isNode(node); err != nil {
			return err
		}
		if d == nil {
			return errNoDiagnostics
		}
		err := run(func(b []byte) error { return sendJSON(from, &op.StreamFrame{Data: b}) })
		if errors.Is(err, context.Canceled) {
			return nil
		}
		return unlessOver(ctx, err)
	}
	onOpen(s, op.AgentMonitor, func(ctx context.Context, q *op.MonitorQuery, from op.Incoming) error {
		return lines(ctx, q.NodeID, from, func(send func([]byte) error) error { return d.Monitor(ctx, q, send) })
	})
	onOpen(s, op.AgentExport, func(ctx context.Context, q *op.ExportQuery, from op.Incoming) error {
		return lines(ctx, q.NodeID, from, func(send func([]byte) error) error { return d.Export(ctx, q, send) })
	})
	onCall(s, op.AgentProfile, func(ctx context.Context, q *op.ProfileQuery) (*op.ProfileTaken, error) {
		if err := a.isNode(q.NodeID); err != nil {
			return nil, err
		}
		if d == nil {
			return nil, errNoDiagnostics
		}
		return d.Profile(ctx, q)
	})
	onCall(s, op.AgentTells, func(_ context.Context, q *op.HostQuery) (*op.AgentHost, error) {
		if err := a.isNode(q.NodeID); err != nil {
			return nil, err
		}
		if d == nil {
			return nil, errNoDiagnostics
		}
		return d.Host(), nil
	})
}

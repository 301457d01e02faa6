//go:build faults

package api

import (
	"context"

	"berth"
	"berth/internal/failpoint"
	"berth/op"
)

// faultOperator is what the API asks of a server in builds with fault points.
type faultOperator interface {
	// Failpoints returns the points of this server.
	Failpoints() *failpoint.Set
	// ProposeEntry proposes one command as it stands, on the leader.
	ProposeEntry(ctx context.Context, in *op.LogEntry) (index uint64, err error)
}

// failpoints serves the operations by which tests make servers fail.
func (s *Server) failpoints() {
	effect(s, op.WriteFailpoint, func(_ context.Context, _ *Write, in *op.ArmFailpoint) (op.ArmedFailpoints, error) {
		return s.arm(&in.Point)
	})
	act(s, op.WriteFailpointHere, func(_ context.Context, in *op.ArmFailpoint) (op.ArmedFailpoints, error) { return s.arm(&in.Point) })
	read(s, op.ReadFailpoints, func(*Read, *op.Query) (op.ArmedFailpoints, error) { return s.arm(nil) })
	effect(s, op.WriteEntry, func(ctx context.Context, _ *Write, in *op.LogEntry) (out op.EntryMade, err error) {
		o, ok := s.Operator.(faultOperator)
		if !ok {
			return out, errNoOperator
		}
		out.EntryIndex, err = o.ProposeEntry(ctx, in)
		return out, err
	})
}

// arm arms a point of this server, if one is given, and returns all.
func (s *Server) arm(p *failpoint.Point) (out op.ArmedFailpoints, err error) {
	o, ok := s.Operator.(faultOperator)
	if !ok {
		return out, errNoOperator
	}
	set := o.Failpoints()
	if p != nil {
		if err := set.Arm(*p); err != nil {
			return out, berth.Errorf(berth.Invalid, "%v", err)
		}
	}
	out.Failpoints, out.Hanging = append([]failpoint.Point{}, set.Points()...), set.Hanging()
	return out, nil
}

package api

import (
	"context"

	"berth"
	"berth/internal/failpoint"
	"berth/op"
)

// failpoints serves how tests have servers fail on purpose.
func (s *Server) failpoints() {
	effect(s, op.WriteFailpoint, func(_ context.Context, _ *Write, in *op.ArmFailpoint) (op.ArmedFailpoints, error) {
		return s.arm(&in.Point)
	})
	act(s, op.WriteFailpointHere, func(_ context.Context, in *op.ArmFailpoint) (op.ArmedFailpoints, error) { return s.arm(&in.Point) })
	read(s, op.ReadFailpoints, func(*Read, *op.Query) (op.ArmedFailpoints, error) { return s.arm(nil) })
	effect(s, op.WriteEntry, func(ctx context.Context, _ *Write, in *op.LogEntry) (out op.EntryMade, err error) {
		if s.Operator == nil {
			return out, errNoOperator
		}
		out.EntryIndex, err = s.Operator.ProposeEntry(ctx, in)
		return out, err
	})
}

// arm arms a point of this server, if one is given, and returns all.
func (s *Server) arm(p *failpoint.Point) (out op.ArmedFailpoints, err error) {
	if s.Operator == nil {
		return out, errNoOperator
	}
	set, err := s.Operator.Failpoints()
	if err != nil {
		return out, err
	}
	if p != nil {
		if err := set.Arm(*p); err != nil {
			return out, berth.Errorf(berth.Invalid, "%v", err)
		}
	}
	out.Failpoints, out.Hanging = append([]failpoint.Point{}, set.Points()...), set.Hanging()
	return out, nil
}

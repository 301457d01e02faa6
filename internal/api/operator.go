package api

import (
	"berth"
	"berth/internal/state"
	"berth/op"
)

func (s *Server) operator() {
	read(s, op.ReadScheduler, readScheduler)
	write(s, op.WriteScheduler, writeScheduler)
}

func readScheduler(r *Read, _ *op.Query) (op.SchedulerConfig, error) {
	c := r.SchedulerConfig()
	r.At(max(c.ModifyIndex, 1), state.OnTable(state.SchedulerConfigs))
	return op.SchedulerConfig{SchedulerConfig: c}, nil
}

func writeScheduler(_ *Write, in *op.SetScheduler) (Change[op.SchedulerSet], error) {
	c := &state.SetSchedulerConfig{Config: in.SchedulerConfig}
	ch := propose(c, func(*Outcome) op.SchedulerSet { return op.SchedulerSet{Updated: true} })
	if in.CAS != nil {
		c.Enforce, c.Index = true, *in.CAS
		ch.Refused = unlessConflict[op.SchedulerSet]
	}
	return ch, nil
}

// unlessConflict answers a refused check-and-set. A conflict is a valid answer,
// the zero value; any other refusal is an error.
func unlessConflict[Out any](_ *Outcome, err error) (out Out, _ error) {
	if berth.KindOf(err) == berth.Conflict {
		return out, nil
	}
	return out, err
}

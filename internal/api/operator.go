package api

import (
	"berth"
	"berth/internal/state"
	"berth/op"
)

// operator registers the operations on the scheduler's configuration.
func (s *Server) operator() {
	read(s, op.ReadScheduler, readScheduler)
	write(s, op.WriteScheduler, writeScheduler)
}

// readScheduler returns the configuration that schedulers follow.
func readScheduler(r *Read, _ *op.Query) (op.SchedulerConfig, error) {
	c := r.SchedulerConfig()
	r.At(max(c.ModifyIndex, 1), state.OnTable(state.SchedulerConfigs))
	return op.SchedulerConfig{SchedulerConfig: c}, nil
}

// writeScheduler decides the configuration of the schedulers. With CAS it is
// changed only if its index is that one; Updated tells which.
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

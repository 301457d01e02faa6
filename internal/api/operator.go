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

func writeScheduler(w *Write, in *op.SetScheduler) (out op.SchedulerSet, err error) {
	c := &state.SetSchedulerConfig{Config: in.SchedulerConfig}
	if in.CAS != nil {
		c.Enforce, c.Index = true, *in.CAS
	}
	_, err = w.Do(c)
	if c.Enforce && berth.KindOf(err) == berth.Conflict {
		return out, nil
	}
	return op.SchedulerSet{Updated: err == nil}, err
}

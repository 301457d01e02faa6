package api

import (
	"strings"

	"berth/internal/schedule/explain"
	"berth/op"
)

// planJob says what would become of a job if it were registered now. It costs
// a decision, on a snapshot; nothing is written.
func (s *Server) planJob(w *Write, in *op.PlanJob) (op.JobPlanned, error) {
	j, err := s.jobIn(w, in.Job, in.JobID, op.Plan.Need)
	if err != nil {
		return op.JobPlanned{}, err
	}
	d, err := explain.Plan(w.Snapshot, j, w.Now)
	if err != nil {
		return op.JobPlanned{}, err
	}
	out := op.JobPlanned{
		FailedTGAllocs: d.Failed, Changes: d.Changes, Warnings: strings.Join(j.Warnings(), "\n"),
		Annotations: &op.PlanAnnotations{DesiredTGUpdates: d.Desired},
	}
	if d.Old != nil {
		out.JobModifyIndex = d.Old.JobModifyIndex
	}
	if p := j.Periodic; p != nil && p.Enabled {
		if times, err := p.Schedule(); err == nil {
			out.NextPeriodicLaunch = times.Next(w.Now)
		}
	}
	if in.Diff {
		out.Diff = d.Diff()
	}
	for _, a := range d.Evicted {
		out.Annotations.PreemptedAllocs = append(out.Annotations.PreemptedAllocs, allocStub(w.Snapshot, a, false, false))
	}
	r := &Read{Snapshot: w.Snapshot, server: s}
	for _, e := range d.Evals {
		out.CreatedEvals = append(out.CreatedEvals, r.evalView(e))
	}
	w.index = w.Snapshot.Index
	out.Meta = op.Meta{Index: w.index, KnownLeader: true}
	return out, nil
}

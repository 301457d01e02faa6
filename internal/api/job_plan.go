package api

import (
	"slices"
	"strings"

	"berth/internal/cron"
	"berth/internal/schedule/explain"
	"berth/op"
)

// planJob reports what registering a job now would do: it applies the command of
// the registration to a copy of the snapshot, and has the scheduler decide there.
func planJob(w *Write, in *op.PlanJob) (ch Change[op.JobPlanned], err error) {
	c, err := registration(w, in.Job, in.JobID, op.Plan.Need)
	if err != nil {
		return ch, err
	}
	// Nothing of this reaches the log: the copy is thrown away.
	d, err := explain.Plan(w.Snapshot, c, w.Now)
	if err != nil {
		return ch, err
	}
	j := c.Job
	out := op.JobPlanned{
		FailedTGAllocs: d.Failed, Changes: d.Changes, Warnings: joined(warnings(w, j), d.Algorithm),
		Annotations: &op.PlanAnnotations{DesiredTGUpdates: d.Desired},
	}
	if d.Old != nil {
		out.JobModifyIndex = d.Old.JobModifyIndex
	}
	// Validation has accepted the schedule already, so an error here only
	// leaves the time out.
	if p := j.Periodic; p != nil && p.Enabled {
		if times, err := cron.New(p); err == nil {
			out.NextPeriodicLaunch = times.Next(w.Now)
		}
	}
	if in.Diff {
		out.Diff = d.Diff()
	}
	// Victims are shown as they are now: they still run.
	for _, a := range d.Preempted {
		out.Annotations.PreemptedAllocs = append(out.Annotations.PreemptedAllocs, allocStub(w.Snapshot, a, false, false))
	}
	// These evaluations exist in the copy alone. Their IDs mean nothing later.
	r := w.read()
	for _, e := range d.Evals {
		out.CreatedEvals = append(out.CreatedEvals, r.evalView(e))
	}
	out.Meta = op.Meta{Index: w.Index, KnownLeader: true}
	ch = unchanged(out)
	ch.Index = w.Index
	return ch, nil
}

// joined puts texts of several lines together, without those that are empty.
func joined(texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(s string) bool { return s == "" }), "\n")
}

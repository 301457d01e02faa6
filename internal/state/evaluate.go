package state

import (
	"berth"
)

// EvaluateJob raises an evaluation of a job that a user wants looked at again.
// A job that was stopped can be, too: what is left of it is stopped.
type EvaluateJob struct {
	Key  berth.JobKey
	Eval EvalSeed
	// Force places what failed anew at once, also what is past its attempts or
	// waits for its time, of groups that have rescheduling on.
	Force bool
	Now   int64
}

// Apply implements Command.
func (c *EvaluateJob) Apply(tx *Tx) error {
	j := tx.Job(c.Key)
	switch {
	case j == nil:
		return berth.Errorf(berth.NotFound, "job %q not found", c.Key)
	case j.Periodic != nil:
		return berth.Errorf(berth.Invalid, "job %q is periodic: it runs nothing itself, so there is nothing to evaluate", c.Key)
	case !j.Schedulable():
		return berth.Errorf(berth.Invalid, "job %q is parameterized: it runs nothing itself, so there is nothing to evaluate", c.Key)
	}
	if err := tx.unusedEvals(c.Eval.ID); err != nil {
		return err
	}
	if c.Force {
		tx.forceReschedule(j)
	}
	tx.raise(j, c.Eval, c.Now)
	return nil
}

// forceReschedule marks what failed for good of a job and was not replaced. The
// evaluation stops what is marked and places another, which may have to wait for
// room; the mark is never taken away, for nobody looks at what should not run.
func (tx *Tx) forceReschedule(j *berth.Job) {
	if j.Stop {
		return
	}
	var failed []*berth.Alloc
	for a := range tx.AllocsOf(j.Key()) {
		g := j.Group(a.Group.Name)
		if a.Job.UID == j.UID && a.Wanted() && a.Client == berth.ClientFailed && a.Rest().Next.IsZero() &&
			!a.Rest().ForceReschedule && g != nil && g.ReschedulePolicy.Enabled() {
			failed = append(failed, a)
		}
	}
	for _, old := range failed {
		a, more := old.With()
		more.ForceReschedule = true
		tx.changeAlloc(old, a)
	}
}

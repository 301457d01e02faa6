package state

import (
	"cmp"

	"berth"
)

// CreateEvals raises evaluations that no other command raises: for a job that
// a user wants looked at again, say.
type CreateEvals struct {
	ByLeader
	Evals []EvalFor
	Now   int64
}

// EvalFor is an evaluation of a job.
type EvalFor struct {
	EvalSeed
	Key          berth.JobKey
	Left         bool // of a job that is gone it is raised, too, for what that left
	WaitUntil    int64
	PreviousEval berth.EvalID
}

// Apply implements Command. Evaluations of jobs that are gone are left out,
// unless they are for what such a job left, and it left something that runs.
func (c *CreateEvals) Apply(tx *Tx) error {
	ids := make([]berth.EvalID, len(c.Evals))
	for i, s := range c.Evals {
		ids[i] = s.ID
	}
	if err := tx.unusedEvals(ids...); err != nil {
		return err
	}
	for _, s := range c.Evals {
		j := tx.Job(s.Key)
		if j == nil && s.Left {
			j = tx.leftBy(s.Key)
		}
		if j != nil {
			e := newEval(j, s.EvalSeed, c.Now)
			e.WaitUntil, e.PreviousEval = s.WaitUntil, s.PreviousEval
			tx.putEval(nil, e)
		}
	}
	return nil
}

func (c *CreateEvals) needs() int {
	for i := range c.Evals {
		if c.Evals[i].Left {
			return 2
		}
	}
	return 1
}

// leftBy returns the last job of a name that left something which is to run, as
// that was placed; nil if none did. What was left to itself is nobody's.
func (tx *Tx) leftBy(k berth.JobKey) (last *berth.Job) {
	for a := range tx.AllocsOf(k) {
		if a.Live() && !a.Orphaned && (last == nil || cmp.Or(compareIncarnations(last, a.Job), cmp.Compare(last.Version, a.Job.Version)) < 0) {
			last = a.Job
		}
	}
	return last
}

// CancelEvals ends evaluations that have nothing left to do.
type CancelEvals struct {
	ByLeader
	IDs []berth.EvalID
	Why string
	Now int64
}

// Apply implements Command. Those that have ended already are left as they are.
func (c *CancelEvals) Apply(tx *Tx) error {
	for _, id := range c.IDs {
		if e := tx.Eval(id); e != nil && !e.Terminal() {
			tx.cancel(e, c.Why, c.Now)
		}
	}
	return nil
}

// FailEval ends an evaluation that could not be delivered or decided, and
// raises its follow-up, which tries again later.
type FailEval struct {
	ByLeader
	ID       berth.EvalID
	Why      string
	Timeline berth.Timeline
	FollowUp berth.EvalID // zero: none
	Wait     int64        // when the follow-up is due, ns since 1970
	Now      int64
}

// Apply implements Command.
func (c *FailEval) Apply(tx *Tx) error {
	old := tx.Eval(c.ID)
	if old == nil {
		return berth.Errorf(berth.NotFound, "eval not found: %s", c.ID)
	}
	if old.Terminal() {
		return berth.Refusef(berth.CodeAlreadyDone, "evaluation %s is %s", c.ID, old.Status)
	}
	if !c.FollowUp.IsZero() {
		if err := tx.unusedEvals(c.FollowUp); err != nil {
			return err
		}
	}
	e := *old
	e.Status, e.StatusDescription, e.ModifyTime = berth.EvalFailed, c.Why, c.Now
	e.Timeline = c.Timeline
	follow := !c.FollowUp.IsZero() && tx.leaves(&e)
	if follow {
		e.NextEval = c.FollowUp
	}
	tx.putEval(old, &e)
	if follow {
		tx.putEval(nil, &berth.Eval{
			ID: c.FollowUp, Namespace: e.Namespace, JobID: e.JobID, JobUID: e.JobUID, Type: e.Type, Priority: e.Priority,
			TriggeredBy: berth.TriggerFailedFollowUp, Cause: berth.Cause{Kind: berth.CauseEval, ID: e.ID.String()},
			JobModifyIndex: e.JobModifyIndex, PreviousEval: e.ID, Status: berth.EvalPending, WaitUntil: c.Wait,
			CreateTime: c.Now, ModifyTime: c.Now,
		})
	}
	return nil
}

// leaves says whether an evaluation that is given up leaves something to do: a
// job that is wanted, or what runs of one that is not any more. Nobody else
// would look at that until something happens.
func (tx *Tx) leaves(e *berth.Eval) bool {
	if j := tx.Job(e.Key()); j != nil && j.UID == e.JobUID && !j.Stop {
		return true
	}
	for a := range tx.AllocsOf(e.Key()) {
		if a.Ended() || a.Orphaned || a.Job.UID.Index > e.JobUID.Index {
			continue
		}
		if n := tx.Node(a.NodeID); a.Wanted() || silent(n) {
			return true // to be stopped, or lost
		}
	}
	return false
}

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

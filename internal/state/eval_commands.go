package state

import (
	"cmp"

	"berth"
)

// CreateEvals creates evaluations that no other command creates, for example
// when a user asks for one.
type CreateEvals struct {
	ByLeader
	Evals []EvalFor
	Now   int64
}

// EvalFor is an evaluation of a job.
type EvalFor struct {
	EvalSeed
	Key          berth.JobKey
	Left         bool         // also create it for a deleted job, for the allocations that it left
	WaitUntil    int64        // ns since 1970; 0: it is due at once
	PreviousEval berth.EvalID // zero: none
}

// Apply implements Command. Evaluations of deleted jobs are left out, unless
// they are for allocations that such a job left, and one of these still runs.
func (c *CreateEvals) Apply(tx *Tx) error {
	ids := make([]berth.EvalID, len(c.Evals))
	for i, s := range c.Evals {
		ids[i] = s.ID
	}
	if err := tx.unusedEvals(ids...); err != nil {
		return err
	}
	// A job that is gone meanwhile needs no evaluation, unless it left
	// allocations.
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

// needs implements needer: the field Left came with log version 2.
func (c *CreateEvals) needs() int {
	for i := range c.Evals {
		if c.Evals[i].Left {
			return 2
		}
	}
	return 1
}

// leftBy returns the last job of a name that left an allocation which should
// run, in the version that was placed, or nil. Orphaned allocations do not
// count.
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
	Why string       // for people
	By  berth.EvalID // the evaluation that does their work; zero if none does, or not every server knows the field
	Now int64
}

// Apply implements Command. Those that have ended already stay as they are.
func (c *CancelEvals) Apply(tx *Tx) error {
	for _, id := range c.IDs {
		if e := tx.Eval(id); e != nil && !e.Terminal() {
			if c.By.IsZero() {
				tx.cancel(e, c.Why, c.Now)
			} else {
				tx.supersede(e, c.By, c.Now)
			}
		}
	}
	return nil
}

// needs implements needer: the field By came with log version 3.
func (c *CancelEvals) needs() int {
	if c.By.IsZero() {
		return 1
	}
	return lineageSince
}

// FailEval ends an evaluation that could not be delivered or decided, and
// creates its follow-up, which tries again later.
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
	// A follow-up only makes sense if the job has something left to decide.
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

// leaves reports whether an evaluation that is given up leaves work behind: a
// job that should run, or allocations of one that should not. Nothing else
// would look at that until something happens.
func (tx *Tx) leaves(e *berth.Eval) bool {
	if j := tx.Job(e.Key()); j != nil && j.UID == e.JobUID && !j.Stop {
		return true
	}
	for a := range tx.AllocsOf(e.Key()) {
		if a.Ended() || a.Orphaned || a.Job.UID.Index > e.JobUID.Index {
			continue
		}
		if n := tx.Node(a.NodeID); a.Wanted() || mayBeLost(n) {
			return true // to be stopped or marked lost
		}
	}
	return false
}

// EvaluateJob creates an evaluation of a job at a user's request. It also works
// for a stopped job: what is left of it is stopped.
type EvaluateJob struct {
	Key  berth.JobKey
	Eval EvalSeed
	// Force replaces failed allocations at once, even those that have no
	// attempts left or wait for their delay, in groups that have rescheduling
	// enabled.
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
		return berth.Errorf(berth.Invalid, "job %q is periodic and runs nothing itself, so there is nothing to evaluate", c.Key)
	case !j.Schedulable():
		return berth.Errorf(berth.Invalid, "job %q is parameterized and runs nothing itself, so there is nothing to evaluate", c.Key)
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

// forceReschedule marks the job's failed allocations that were not replaced.
// The evaluation stops a marked allocation and places another, which may have
// to wait for capacity. The mark stays: it means nothing for an allocation that
// should not run.
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

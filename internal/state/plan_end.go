package state

import (
	"berth"
)

// checkEnd refuses an end that would use an ID twice, or leave a blocked
// evaluation that has no reason or is the job's second.
func (c *ApplyPlan) checkEnd(tx *Tx, eval *berth.Eval) error {
	end := c.End
	if end == nil {
		return nil
	}
	switch end.Status {
	case berth.EvalComplete, berth.EvalFailed, berth.EvalCanceled:
	case berth.EvalBlocked:
		if eval.Status != berth.EvalBlocked || end.Blocked != nil {
			return berth.Errorf(berth.Invalid, "plan: evaluation %s is %s, so it cannot stay blocked", c.Eval, eval.Status)
		}
		if len(end.Failed) == 0 && eval.TriggeredBy != berth.TriggerMaxPlanAttempts {
			return berth.Errorf(berth.Invalid, "plan: evaluation %s stays blocked without a reason", c.Eval)
		}
	default:
		return berth.Errorf(berth.Invalid, "plan: an evaluation cannot end with status %q", end.Status)
	}
	// A blocked evaluation is woken by what it lacks, so something must be
	// lacking.
	if b := end.Blocked; b != nil && len(end.Failed) == 0 && b.TriggeredBy != berth.TriggerMaxPlanAttempts {
		return berth.Errorf(berth.Invalid, "plan: evaluation %s would be blocked without a reason", b.ID)
	}
	if err := checkNodeWaits(eval, end); err != nil {
		return err
	}
	// The IDs of the evaluations to create must be free.
	ids := make([]berth.EvalID, 0, 1+len(end.Later))
	for _, n := range end.news() {
		ids = append(ids, n.ID)
	}
	return tx.unusedEvals(ids...)
}

// end ends an evaluation and creates those that follow it.
func (tx *Tx) end(old *berth.Eval, job *berth.Job, end *EvalEnd, now int64) {
	e := *old
	e.Status, e.StatusDescription, e.Failure, e.ModifyTime = end.Status, end.Description, end.Failure, now
	if e.Status == berth.EvalCanceled && tx.LogVersion >= quarantineSince { // it decided nothing
		e.Timeline = end.Timeline
		tx.putEval(old, &e)
		return
	}
	e.FailedTGAllocs, e.QueuedAllocations, e.Missed = end.Failed, end.Queued, nil
	e.SnapshotIndex, e.Timeline, e.QuotaLimitReached = end.SnapshotIndex, end.Timeline, end.Missed.QuotaReached()
	live := job != nil && job.UID == e.JobUID && !job.Stop
	if live && tx.KeepsLineage() { // clients go from an evaluation to the deployment they wait for
		if d := tx.deploymentOf(job); d != nil {
			e.DeploymentID = d.ID
		}
	}
	news := end.news()
	switch {
	case !live: // nothing waits for capacity any more, and nothing is retried
		news = nil
		if e.Status == berth.EvalBlocked {
			e.Status, e.StatusDescription = berth.EvalCanceled, "the job was stopped"
		}
	case e.Status == berth.EvalBlocked:
		e.Missed = end.Missed
	case end.Blocked != nil:
		e.BlockedEval = end.Blocked.ID
	}
	for _, n := range news {
		if n.TriggeredBy == berth.TriggerRollingUpdate || n.TriggeredBy == berth.TriggerFailedFollowUp {
			e.NextEval = n.ID
		}
	}
	if live && job.PerNode() {
		tx.waitOnNodes(old, &e, job, end, now)
	} else if tx.putEval(old, &e); live {
		tx.setQueued(job, end.Queued)
		// A job has at most one blocked evaluation: the result of this one is
		// newer than that of any other.
		for _, b := range tx.blockedOf(job) {
			if b.ID != e.ID {
				tx.supersede(b, e.ID, now)
			}
		}
	}
	for _, n := range news {
		next := &berth.Eval{
			ID: n.ID, Namespace: e.Namespace, JobID: e.JobID, JobUID: e.JobUID, Type: e.Type, Priority: e.Priority,
			TriggeredBy: n.TriggeredBy, Cause: berth.Cause{Kind: berth.CauseEval, ID: e.ID.String()},
			JobModifyIndex: e.JobModifyIndex, PreviousEval: e.ID, Status: berth.EvalPending, WaitUntil: n.WaitUntil,
			CreateTime: now, ModifyTime: now,
		}
		if end.Blocked != nil && n.ID == end.Blocked.ID {
			next.Status, next.Missed = berth.EvalBlocked, end.Missed
			next.FailedTGAllocs, next.QueuedAllocations = end.Failed, end.Queued
			next.QuotaLimitReached = end.Missed.QuotaReached()
			next.SnapshotIndex, next.DeploymentID = end.SnapshotIndex, tx.deploymentOfEval(&e)
		}
		tx.putEval(nil, next)
	}
}

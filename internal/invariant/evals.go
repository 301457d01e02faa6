package invariant

import "berth"

// evals checks I-01 (legal statuses), I-04 (one blocked evaluation per job,
// with a reason), I-06 (causes, and pointers between evaluations in both
// directions) and I-07 (one follow-up).
func (c *checker) evals() {
	blocked := map[string]berth.EvalID{}
	followed := map[berth.EvalID]berth.EvalID{}
	for e := range c.Evals() {
		switch e.Status {
		case berth.EvalPending, berth.EvalComplete, berth.EvalFailed, berth.EvalCanceled:
		case berth.EvalBlocked:
			// An earlier job of that name may still have one of its own.
			k := e.Key().String() + e.JobUID.Text('j')
			if berth.PerNode(e.Type) { // one blocked evaluation per node
				k += e.NodeID.String()
			}
			if other, ok := blocked[k]; ok {
				c.addf("I-04", "job %s has the blocked evaluations %s and %s", e.Key(), other, e.ID)
			}
			blocked[k] = e.ID
			if len(e.FailedTGAllocs) == 0 && e.TriggeredBy != berth.TriggerMaxPlanAttempts {
				c.addf("I-04", "blocked evaluation %s has no reason", e.ID)
			}
			if j := c.Job(e.Key()); j == nil || j.UID != e.JobUID || j.Stop {
				c.addf("I-04", "evaluation %s is blocked, but job %s is stopped or deleted", e.ID, e.Key())
			}
		default:
			c.addf("I-01", "evaluation %s has the status %q", e.ID, e.Status)
		}
		if e.Cause.Kind == "" {
			c.addf("I-06", "evaluation %s has no cause", e.ID)
		}
		c.follows(e, e.NextEval, "NextEval")
		c.follows(e, e.BlockedEval, "BlockedEval")
		c.succession(e)
		c.descent(e)
		if e.TriggeredBy == berth.TriggerFailedFollowUp && !e.PreviousEval.IsZero() {
			if other, ok := followed[e.PreviousEval]; ok {
				c.addf("I-07", "evaluation %s has the follow-ups %s and %s", e.PreviousEval, other, e.ID)
			}
			followed[e.PreviousEval] = e.ID
		}
		if d := e.DeploymentID; !d.IsZero() && c.Deployment(d) == nil && c.lives(e.Key(), e.JobUID) {
			c.addf("I-11", "evaluation %s belongs to deployment %s, which does not exist", e.ID, d)
		}
	}
}

// descent checks that the history of an evaluation can be followed back to the
// evaluation before it, as long as that exists, and never in a circle.
func (c *checker) descent(e *berth.Eval) {
	if descends(e) && e.PreviousEval.IsZero() {
		c.addf("I-06", "evaluation %s was raised by %s but follows none", e.ID, e.TriggeredBy)
	}
	if e.Cause.Kind == berth.CauseEval && e.Cause.ID != e.PreviousEval.String() {
		c.addf("I-06", "evaluation %s is caused by %s but follows %s", e.ID, e.Cause.ID, e.PreviousEval)
	}
	p := c.Eval(e.PreviousEval)
	switch {
	case p == nil:
	case p.CreateIndex >= e.CreateIndex:
		c.addf("I-06", "evaluation %s follows %s, which is younger", e.ID, p.ID)
	case p.Key() != e.Key():
		c.addf("I-06", "evaluation %s of job %s follows %s of job %s", e.ID, e.Key(), p.ID, p.Key())
	case descends(e) && berth.PerNode(e.Type) && !e.NodeID.IsZero() && e.TriggeredBy == berth.TriggerQueuedAllocs:
		if p.BlockedEval.IsZero() { // it points to one of the evaluations created together with this one
			c.addf("I-06", "evaluation %s follows %s, which does not point to a blocked evaluation", e.ID, p.ID)
		}
	case descends(e) && p.NextEval != e.ID && p.BlockedEval != e.ID:
		c.addf("I-06", "evaluation %s follows %s, which does not point to it", e.ID, p.ID)
	}
}

// succession checks who does the work of an evaluation that was superseded: a
// younger or older evaluation of its job, which may be deleted by now.
func (c *checker) succession(e *berth.Eval) {
	if e.SupersededBy.IsZero() {
		return
	}
	switch by := c.Eval(e.SupersededBy); {
	case e.Status != berth.EvalCanceled:
		c.addf("I-06", "evaluation %s is %s, but superseded by %s", e.ID, e.Status, e.SupersededBy)
	case e.SupersededBy == e.ID:
		c.addf("I-06", "evaluation %s is superseded by itself", e.ID)
	case by != nil && by.Key() != e.Key():
		c.addf("I-06", "evaluation %s of job %s is superseded by %s of job %s", e.ID, e.Key(), by.ID, by.Key())
	}
}

// follows checks that the evaluation that e points to exists, points back and
// belongs to the same job.
func (c *checker) follows(e *berth.Eval, to berth.EvalID, pointer string) {
	if to.IsZero() {
		return
	}
	next := c.Eval(to)
	switch {
	case next == nil:
		c.addf("I-06", "%s of evaluation %s points to %s, which does not exist", pointer, e.ID, to)
	case next.PreviousEval != e.ID:
		c.addf("I-06", "%s of evaluation %s points to %s, which follows %s", pointer, e.ID, to, next.PreviousEval)
	case next.Key() != e.Key():
		c.addf("I-06", "%s of evaluation %s leads from job %s to %s", pointer, e.ID, e.Key(), next.Key())
	}
}

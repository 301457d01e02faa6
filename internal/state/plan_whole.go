package state

import (
	"berth"
)

// fitsWhole says whether every placement of a plan fits. It tries the plan on
// a state of its own, so that of a job whose plans are made whole or not at all
// nothing is changed if one does not: then Refused says which, nothing was
// stopped or carried over, and the evaluation is decided anew.
//
// That is what all_at_once asks for: no part of a plan that met a node which is
// fuller than it thought. An instance for which there is no room anywhere is
// not in the plan and waits, as of every job.
func (c *ApplyPlan) fitsWhole(tx *Tx, job *berth.Job) bool {
	trial := Begin(tx.Snapshot)
	trial.by = tx.by
	c.change(trial, job)
	return len(c.Refused) == 0
}

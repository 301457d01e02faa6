package state

import (
	"berth"
)

// StopAlloc stops an allocation and creates the evaluation that replaces it.
// One that has ended, or is to stop anyway, stays as it is; its job gets the
// evaluation all the same. An orphan is stopped by the command itself, without
// an evaluation: no job would replace it.
type StopAlloc struct {
	ID              berth.AllocID
	NoShutdownDelay bool // its agent skips the shutdown delays
	Eval            EvalSeed
	Now             int64
}

// Apply implements Command.
func (c *StopAlloc) Apply(tx *Tx) error {
	old := tx.Alloc(c.ID)
	if old == nil {
		return berth.Errorf(berth.NotFound, "alloc not found: %s", c.ID)
	}
	if old.Orphaned {
		tx.stopOrphan(old, berth.StopOrphan, c.NoShutdownDelay, c.Now)
		return nil
	}
	j := tx.Job(old.Key())
	if j == nil || j.UID != old.Job.UID {
		return berth.Errorf(berth.Conflict, "allocation %s belongs to a deleted job, so nothing would replace it", c.ID)
	}
	if err := tx.unusedEvals(c.Eval.ID); err != nil {
		return err
	}
	// The scheduler places a replacement and stops it then.
	if old.Live() && !j.Stop {
		a, more := old.With()
		more.Relocate = true
		if j.Type == berth.TypeStream { // whether it is launched again is decided when it has stopped
			a.Desired, more.StopReason, more.DesiredDescription = berth.DesiredStop, berth.StopWanted, berth.StopWanted.String()
			a.ModifyTime, a.AllocModifyIndex = c.Now, tx.Index
		}
		more.NoShutdownDelay = more.NoShutdownDelay || c.NoShutdownDelay
		tx.changeAlloc(old, a)
	}
	tx.raise(j, c.Eval, c.Now)
	return nil
}

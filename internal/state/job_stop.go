package state

import (
	"berth"
)

// StopJob stops a job and creates the evaluation that stops its allocations.
type StopJob struct {
	Key   berth.JobKey
	UID   berth.UID // if set, only this incarnation
	Purge bool      // also delete the job; DeleteJob in the background has more options
	// NoShutdownDelay tells agents to skip the shutdown delays.
	NoShutdownDelay bool
	Eval            EvalSeed
	Now             int64
}

// Apply implements Command.
func (c *StopJob) Apply(tx *Tx) error {
	if c.Purge {
		return (&DeleteJob{
			Key: c.Key, UID: c.UID, Policy: berth.Background, Intent: berth.IntentUser, NoShutdownDelay: c.NoShutdownDelay, Eval: c.Eval, Now: c.Now,
		}).Apply(tx)
	}
	old, err := tx.incarnation(c.Key, c.UID)
	if err != nil {
		return err
	}
	if err := tx.unusedSeed(c.Eval); err != nil {
		return err
	}
	j := tx.ended(old, c.NoShutdownDelay, c.Now)
	// A stop of a stopped job still moves its index: its watchers wake.
	if j == old {
		same := *old
		same.ModifyIndex, same.JobModifyIndex = tx.Index, tx.Index
		j = &same
	}
	tx.putJob(old, j)
	if j.Type == berth.TypeStream {
		tx.stopStream(j)
	}
	if !c.Eval.ID.IsZero() {
		tx.raise(j, c.Eval, c.Now)
	}
	return nil
}

package state

import (
	"iter"
	"time"

	"berth"
)

// PeriodicSince returns the periodic jobs that changed, or whose launch record
// did, after an index, oldest change first.
func (s *Snapshot) PeriodicSince(index uint64) iter.Seq2[*berth.Job, *Summary] {
	return func(yield func(*berth.Job, *Summary) bool) {
		for _, slot := range s.jobs.kin.periodic.From(index+1, 0) {
			if !yield(s.jobs.vec.Get(slot), s.jobs.summaries.Get(slot)) {
				return
			}
		}
	}
}

// LaunchPeriodic launches a child of a periodic job for a time at which it is
// due, with its evaluation and the record of the launch. If the job prohibits
// overlap and a child has not ended, only the record is made.
type LaunchPeriodic struct {
	ByLeader
	Key   berth.JobKey
	UID   berth.UID
	Due   int64 // ns since 1970; of a forced launch: when it was requested
	Force bool  // a user wants it now, whether or not it is due or running
	Eval  EvalSeed
	Now   int64
}

// Apply implements Command.
func (c *LaunchPeriodic) Apply(tx *Tx) error {
	j := tx.Job(c.Key)
	if err := c.check(tx, j); err != nil {
		return err
	}
	s := tx.Summary(c.Key)
	id := berth.PeriodicID(j.ID, time.Unix(0, c.Due))
	there := tx.Job(berth.JobKey{Namespace: j.Namespace, ID: id}) != nil
	overlaps := !c.Force && j.Periodic.ProhibitOverlap && s.Children.Alive() > 0
	// Without a launch, the time still counts as done.
	switch {
	case there && c.Force:
		return berth.Refusef(berth.CodeAlreadyDone, "there is a job %q", id)
	case there: // forced in the same second, or launched for an earlier job of the name
		// A forced launch leaves the schedule as it is.
		tx.launched(j, func(l *Launch) { l.Due = c.Due })
		return nil
	case overlaps:
		tx.launched(j, func(l *Launch) {
			l.Due, l.Skipped = c.Due, c.Due
			l.Skips++
		})
		return nil
	}
	tx.launched(j, func(l *Launch) {
		if !c.Force {
			l.Due = c.Due
		}
		l.Child, l.Index = id, tx.Index
	})
	tx.newChild(j, id, c.Eval, c.Now, nil)
	return nil
}

// check returns why the job must not be launched now. A launch for a time that
// was launched before is refused, so that a new leader repeats none.
func (c *LaunchPeriodic) check(tx *Tx, j *berth.Job) error {
	switch {
	case j == nil:
		return berth.Errorf(berth.NotFound, "job %q not found", c.Key)
	case !c.UID.IsZero() && c.UID != j.UID:
		return berth.Refusef(berth.CodeUIDMismatch, "job %q is %s now, not %s", c.Key, j.UID.Text('j'), c.UID.Text('j'))
	case j.Periodic == nil:
		return berth.Errorf(berth.Invalid, "job %q is not periodic", c.Key)
	case j.Stop:
		return berth.Errorf(berth.Invalid, "job %q was stopped, so it launches nothing", c.Key)
	case !j.Periodic.Enabled:
		return berth.Errorf(berth.Invalid, "job %q is periodic but not enabled, so it launches nothing", c.Key)
	case c.Due > c.Now:
		return berth.Errorf(berth.Invalid, "job %q is due at %s, which is in the future", c.Key, stamp(c.Due))
	}
	if l := tx.Summary(c.Key).Launch; !c.Force && l != nil && c.Due <= max(l.From, l.Due) && !l.Ahead(c.Now) {
		return berth.Refusef(berth.CodeAlreadyDone, "job %q is launched for times after %s only", c.Key, stamp(max(l.From, l.Due)))
	}
	return tx.unusedEvals(c.Eval.ID)
}

// stamp returns a time, in nanoseconds since 1970, for an error message.
func stamp(ns int64) string { return time.Unix(0, ns).UTC().Format(time.RFC3339) }

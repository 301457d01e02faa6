package state

import (
	"iter"
	"time"

	"berth"
)

// Launch is what is known of the launches of a periodic job: which of the times
// at which it was due were decided. It makes a launch a matter of the log, not
// of who leads.
type Launch struct {
	From    int64       // ns since 1970: times count from then, which is when somebody last said them
	Due     int64       // the last time that was decided, 0 if none was
	Child   berth.JobID // of the last launch, forced ones included
	Index   uint64      // of the last launch
	Skipped int64       // the last time at which nothing was launched, because a child was not over
	Skips   uint64      // how often that was
	Changed uint64      // index of the last change of the job or of this
}

// Base is the time after which the job can be due.
func (l *Launch) Base() time.Time { return time.Unix(0, max(l.From, l.Due)) }

// WrongClock is how far ahead of the clock the last launch must lie for its
// clock to have been wrong, and not this one: a day, and an hour for those that
// are set to another zone by hand.
const WrongClock = 25 * time.Hour

// Ahead says whether the last launch was decided by a clock that was wrong, so
// that times count from now again. A clock that was put back by less launches
// nothing until it has caught up, so nothing is launched twice.
func (l *Launch) Ahead(now int64) bool { return max(l.From, l.Due) > now+int64(WrongClock) }

// PeriodicSince returns the periodic jobs that changed, or whose launches did,
// after an index, oldest change first.
func (s *Snapshot) PeriodicSince(index uint64) iter.Seq2[*berth.Job, *Summary] {
	return func(yield func(*berth.Job, *Summary) bool) {
		for _, slot := range s.jobs.kin.periodic.From(index+1, 0) {
			if !yield(s.jobs.vec.Get(slot), s.jobs.summaries.Get(slot)) {
				return
			}
		}
	}
}

// launched changes what is known of a job's launches.
func (tx *Tx) launched(j *berth.Job, change func(*Launch)) {
	slot, ok := tx.jobs.byKey.First(jobKey(j.Key()))
	if !ok {
		return
	}
	tx.count(j.Key(), j.UID, func(s *Summary) {
		l := &Launch{}
		if s.Launch != nil {
			*l = *s.Launch
			tx.jobs.kin.periodic.Remove(tx.edit, l.Changed, slot)
		}
		change(l)
		l.Changed = tx.Index
		tx.jobs.kin.periodic.Add(tx.edit, l.Changed, slot)
		s.Launch = l
	})
}

// reschedulePeriodic notes that a periodic job was put. Times count from now
// if they are other times, or the job was stopped or disabled until now.
func (tx *Tx) reschedulePeriodic(old, j *berth.Job) {
	anew := old == nil || old.Stop || old.Periodic == nil || !old.Periodic.Enabled || !sameTimes(old.Periodic, j.Periodic)
	tx.launched(j, func(l *Launch) {
		if anew {
			l.From = j.SubmitTime
		}
	})
}

func sameTimes(a, b *berth.PeriodicConfig) bool {
	x, y := a.Crons(), b.Crons()
	if a.TimeZone != b.TimeZone || len(x) != len(y) {
		return false
	}
	for i := range x {
		if x[i] != y[i] {
			return false
		}
	}
	return true
}

// LaunchPeriodic launches a child of a periodic job for a time at which it is
// due, with the evaluation that looks at it and the record that it was. If the
// job prohibits overlap and a child is not over, the record alone is made.
type LaunchPeriodic struct {
	ByLeader
	Key   berth.JobKey
	UID   berth.UID
	Due   int64 // ns since 1970; of a forced launch: when it was wanted
	Force bool  // a user wants it now, whatever is due and runs
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
	switch {
	case there && c.Force:
		return berth.Errorf(berth.Conflict, "already-done: there is a job %q", id)
	case there: // forced in the same second, or launched for an earlier job of the name
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
	tx.beget(j, id, c.Eval, c.Now, nil)
	return nil
}

func (c *LaunchPeriodic) check(tx *Tx, j *berth.Job) error {
	switch {
	case j == nil:
		return berth.Errorf(berth.NotFound, "job %q not found", c.Key)
	case !c.UID.IsZero() && c.UID != j.UID:
		return berth.Errorf(berth.Conflict, "uid-mismatch: job %q is %s now, not %s", c.Key, j.UID.Text('j'), c.UID.Text('j'))
	case j.Periodic == nil:
		return berth.Errorf(berth.Invalid, "job %q is not periodic", c.Key)
	case j.Stop:
		return berth.Errorf(berth.Invalid, "job %q was stopped, so it launches nothing", c.Key)
	case !j.Periodic.Enabled:
		return berth.Errorf(berth.Invalid, "job %q is periodic, but not enabled, so it launches nothing", c.Key)
	case c.Due > c.Now:
		return berth.Errorf(berth.Invalid, "job %q is due at %s, which is yet to come", c.Key, stamp(c.Due))
	}
	if l := tx.Summary(c.Key).Launch; !c.Force && l != nil && c.Due <= max(l.From, l.Due) && !l.Ahead(c.Now) {
		return berth.Errorf(berth.Conflict, "already-done: job %q is launched for times after %s only", c.Key, stamp(max(l.From, l.Due)))
	}
	return tx.unusedEvals(c.Eval.ID)
}

func stamp(ns int64) string { return time.Unix(0, ns).UTC().Format(time.RFC3339) }

package state

import (
	"cmp"
	"iter"
	"slices"

	"berth"
)

// ChildrenOf returns the children of a job, in no particular order, including
// those of earlier jobs with the same name.
func (s *Snapshot) ChildrenOf(parent berth.JobKey) iter.Seq[*berth.Job] {
	return of(&s.jobs.rows, &s.jobs.kin.children, keyHash(parent), func(j *berth.Job) bool {
		return j.ParentID == parent.ID && j.Namespace == parent.Namespace
	})
}

// ChildrenOfIncarnation returns the children of one incarnation of a job, oldest
// first. Children of an earlier job with that name are not among them.
func (s *Snapshot) ChildrenOfIncarnation(parent berth.JobKey, uid berth.UID) (out []*berth.Job) {
	for j := range s.ChildrenOf(parent) {
		if uid.Index < j.UID.Index {
			out = append(out, j)
		}
	}
	slices.SortFunc(out, func(a, b *berth.Job) int {
		return cmp.Or(cmp.Compare(a.UID.Index, b.UID.Index), cmp.Compare(a.UID.Ordinal, b.UID.Ordinal))
	})
	return out
}

// ChildByToken returns the child that was dispatched with an idempotency token,
// or nil.
func (s *Snapshot) ChildByToken(parent berth.JobKey, token string) *berth.Job {
	_, j := find(&s.jobs.rows, &s.jobs.kin.tokens, tokenHash(parent, token), func(j *berth.Job) bool {
		return parentOf(j) == parent && j.DispatchIdempotencyToken == token
	})
	return j
}

// relate indexes a job that is new or was loaded, with its counts.
func (tx *Tx) relate(j *berth.Job, slot uint32, s *Summary) {
	f := &tx.jobs.kin
	if j.ParentID != "" {
		f.children.Add(tx.edit, keyHash(parentOf(j)), slot)
		if j.DispatchIdempotencyToken != "" {
			f.tokens.Add(tx.edit, tokenHash(parentOf(j), j.DispatchIdempotencyToken), slot)
		}
	}
	if j.Periodic != nil && s.Launch != nil {
		f.periodic.Add(tx.edit, s.Launch.Changed, slot)
	}
}

// unrelate undoes relate.
func (tx *Tx) unrelate(j *berth.Job, slot uint32, s *Summary) {
	f := &tx.jobs.kin
	if j.ParentID != "" {
		f.children.Remove(tx.edit, keyHash(parentOf(j)), slot)
		if j.DispatchIdempotencyToken != "" {
			f.tokens.Remove(tx.edit, tokenHash(parentOf(j), j.DispatchIdempotencyToken), slot)
		}
		if s.As != notCounted {
			tx.count(parentOf(j), s.In, func(p *Summary) { *p.Children.of(s.As)-- })
		}
	}
	if j.Periodic != nil && s.Launch != nil {
		f.periodic.Remove(tx.edit, s.Launch.Changed, slot)
	}
}

// updateRelatives updates what depends on parents and children after a job was
// stored.
func (tx *Tx) updateRelatives(old, j *berth.Job) {
	if j.ParentID != "" {
		tx.count(j.Key(), j.UID, func(*Summary) {}) // its parent counts it when the command ends
	}
	if j.Periodic != nil {
		tx.reschedulePeriodic(old, j)
	}
	if old == nil && j.Begets() {
		for child := range tx.ChildrenOf(j.Key()) { // of an earlier job with this name
			tx.count(child.Key(), child.UID, func(*Summary) {})
		}
	}
}

// countChild updates the counts of a job's parent. The counts of the job itself
// are being changed by the command.
func (tx *Tx) countChild(slot uint32) {
	j := tx.jobs.vec.Get(slot)
	if j == nil || j.ParentID == "" {
		return
	}
	s := tx.counting[slot]
	as := childStatusOf(s, j)
	parent := tx.Job(parentOf(j))
	// The parent may be gone, or come back as another incarnation, which has
	// counted nothing yet.
	if parent == nil {
		s.In, s.As = berth.UID{}, notCounted
		return
	}
	if s.In == parent.UID && s.As == as {
		return
	}
	was := s.As
	if s.In != parent.UID {
		was = notCounted
	}
	// Move the child from its old counter to the new one.
	tx.count(parent.Key(), parent.UID, func(p *Summary) {
		if was != notCounted {
			*p.Children.of(was)--
		}
		*p.Children.of(as)++
	})
	s.In, s.As = parent.UID, as
}

// lineage gives a job that is registered the parent and child fields of the job
// that it replaces. It refuses a change of kind, because children rely on it.
func lineage(old, j *berth.Job) error {
	j.ParentID, j.Dispatched, j.DispatchIdempotencyToken, j.Payload = "", false, "", nil
	if old == nil {
		return nil
	}
	kind := func(j *berth.Job) string {
		// Children depend on what their parent is, so its kind stays.
		switch {
		case j.Dispatched:
			return "dispatched"
		case j.ParameterizedJob != nil:
			return "parameterized"
		case j.Periodic != nil:
			return "periodic"
		}
		return "neither periodic nor parameterized"
	}
	switch {
	case old.Dispatched:
		return berth.Errorf(berth.Invalid, "job %q was dispatched and cannot be changed; dispatch another", old.Key())
	case kind(old) != kind(j):
		return berth.Errorf(berth.Invalid, "job %q is %s and cannot become %s; purge it first", old.Key(), kind(old), kind(j))
	}
	j.ParentID = old.ParentID
	return nil
}

// launched changes the launch record of a job.
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

// reschedulePeriodic notes that a periodic job was stored. If its times
// changed, or the job was stopped or disabled until now, launches are due from
// now on.
func (tx *Tx) reschedulePeriodic(old, j *berth.Job) {
	restart := old == nil || old.Stop || old.Periodic == nil || !old.Periodic.Enabled || !sameTimes(old.Periodic, j.Periodic)
	tx.launched(j, func(l *Launch) {
		if restart {
			l.From = j.SubmitTime
		}
	})
}

// sameTimes reports whether two schedules launch at the same times, as they are
// written: the same time zone and crons in the same order.
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

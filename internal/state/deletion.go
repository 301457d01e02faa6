package state

import (
	"iter"

	"berth"
)

// Deletion returns the deletion mark of a job, or nil if it is not being
// deleted.
func (s *Snapshot) Deletion(k berth.JobKey) *JobDeletion {
	if s.deletions.count == 0 {
		return nil
	}
	if slot, ok := s.deletions.byKey.First(jobKey(k)); ok {
		return s.deletions.vec.Get(slot)
	}
	return nil
}

// Deletions returns the marks of all jobs that are being deleted, in order of
// namespace and ID.
func (s *Snapshot) Deletions() iter.Seq[*JobDeletion] {
	return rowsOf(&s.deletions.rows, s.deletions.byKey.All())
}

// Blocking returns how many allocations hold a job that is deleted in the
// foreground: those that have not been confirmed to have ended and whose node
// is not lost.
func (s *Snapshot) Blocking(k berth.JobKey, uid berth.UID) (n int) {
	sum := s.Summary(k)
	if sum == nil || sum.UID != uid {
		return 0
	}
	for i := range sum.Groups {
		g := &sum.Groups[i]
		n += g.Starting + g.Running + g.Unknown
	}
	return n
}

// mark stores a mark, replacing the one that the job has.
func (tx *Tx) mark(d *JobDeletion) {
	tx.trace(d.Key)
	t := &tx.deletions
	if slot, ok := t.byKey.First(jobKey(d.Key)); ok {
		t.set(tx, slot, d)
		return
	}
	t.byKey.Add(tx.edit, jobKey(d.Key), t.insert(tx, d))
}

// dropMark removes the deletion mark of a job that is gone or replaced. Without
// a mark it does nothing.
func (tx *Tx) dropMark(k berth.JobKey) {
	t := &tx.deletions
	if t.count == 0 {
		return
	}
	if slot, ok := t.byKey.First(jobKey(k)); ok {
		t.byKey.Remove(tx.edit, jobKey(k), slot)
		t.remove(tx, slot)
	}
}

// unmarked refuses changes to a job that is being deleted.
func (tx *Tx) unmarked(k berth.JobKey) error {
	if d := tx.Deletion(k); d != nil {
		return deleting(d)
	}
	return nil
}

// deleting returns the refusal for a change of a job that is being deleted.
func deleting(d *JobDeletion) error {
	return berth.Refusef(berth.CodeDeleting, "job %q, %s, is still being deleted (since index %d); try again when it is gone",
		d.Key, d.UID.Text('j'), d.Deletion.RequestIndex)
}

package state

import (
	"iter"

	"berth"
)

// Deletion returns the mark of a job that is being deleted, nil if it is not.
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
// foreground: those whose end was not confirmed, and whose node is not lost.
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

// mark stores a mark, instead of the one that the job has.
func (tx *Tx) mark(d *JobDeletion) {
	tx.trace(d.Key)
	t := &tx.deletions
	if slot, ok := t.byKey.First(jobKey(d.Key)); ok {
		t.set(tx, slot, d)
		return
	}
	t.byKey.Add(tx.edit, jobKey(d.Key), t.insert(tx, d))
}

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

// unmarked refuses what a job that is being deleted cannot have any more.
func (tx *Tx) unmarked(k berth.JobKey) error {
	if d := tx.Deletion(k); d != nil {
		return deleting(d)
	}
	return nil
}

func deleting(d *JobDeletion) error {
	return berth.Refusef(berth.CodeDeleting, "job %q, %s, is being deleted since index %d and has not gone yet; try again when it has",
		d.Key, d.UID.Text('j'), d.Deletion.RequestIndex)
}

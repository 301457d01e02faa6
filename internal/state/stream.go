package state

import (
	"iter"
	"math"
	"slices"

	"berth"
)

// gone stands for the last change of a job that is gone. Changes are no longer
// recorded for it, so it counts as changed at all times.
const gone = math.MaxUint64

// touch records that a row changed.
func (t *streamTable) touch(tx *Tx, slot uint32, at uint64) {
	tx.trace(t.vec.Get(slot).Key)
	was := t.at.Get(slot)
	if was == at || was == gone && at != 0 {
		return
	}
	if was != 0 {
		t.touched.Remove(tx.edit, was, slot)
	}
	if at != 0 {
		t.touched.Add(tx.edit, at, slot)
	}
	t.at.Set(tx.edit, slot, at)
}

// touchStream records a change of a job's incarnation or of what it owns.
func (tx *Tx) touchStream(uid berth.UID) {
	if slot, row := tx.streams.find(uid); row != nil {
		tx.streams.touch(tx, slot, tx.Index)
	}
}

// StreamJobsSince returns the submissions that changed after an index, or whose
// jobs, resources or evaluations did, and those whose jobs are gone. The oldest
// is first.
func (s *Snapshot) StreamJobsSince(index uint64) []*berth.StreamJob {
	return slices.SortedFunc(rowsOf(&s.streams.rows, s.streams.touched.From(index+1, 0)), oldestStream)
}

// StreamJob returns the submission of a stream job's incarnation, or nil.
func (s *Snapshot) StreamJob(uid berth.UID) *berth.StreamJob {
	_, row := s.streams.find(uid)
	return row
}

// find returns the row of a stream job and its slot, or nil.
func (t *streamTable) find(uid berth.UID) (slot uint32, row *berth.StreamJob) {
	if t.count == 0 {
		return 0, nil
	}
	return find(&t.rows, &t.byUID, uid.Index, func(r *berth.StreamJob) bool { return r.UID == uid })
}

// StreamOf returns the submission of the existing stream job with a name, or
// nil.
func (s *Snapshot) StreamOf(k berth.JobKey) *berth.StreamJob {
	if s.streams.count == 0 {
		return nil
	}
	if j := s.Job(k); j != nil && j.Type == berth.TypeStream {
		return s.StreamJob(j.UID)
	}
	return nil
}

// StreamJobs returns the submissions of all incarnations of stream jobs that
// exist or still own something, oldest first.
func (s *Snapshot) StreamJobs() iter.Seq[*berth.StreamJob] {
	return settled(rowsOf(&s.streams.rows, s.streams.byUID.All()),
		func(r *berth.StreamJob) uint64 { return r.UID.Index }, oldestStream)
}

// oldestStream orders stream jobs by age, the oldest first.
func oldestStream(a, b *berth.StreamJob) int { return compareUIDs(a.UID, b.UID) }

// LastStreamID returns the number given to the stream job that was planned
// last, or 0 if there was none.
func (s *Snapshot) LastStreamID() uint64 { return s.streamIDs }

// PlannedJob returns the version of a stream job that its plan is for. That
// version is placed: a newer one waits until this one is complete. Without a
// plan it is the newest. It is nil if the job is gone.
func (s *Snapshot) PlannedJob(row *berth.StreamJob) *berth.Job {
	j := s.Job(row.Key)
	if j == nil || j.UID != row.UID {
		return nil
	}
	if row.Plan != nil && row.Version != j.Version {
		if v := s.JobVersion(row.Key, row.Version); v != nil && v.UID == row.UID {
			return v
		}
	}
	return j
}

// AliveStream reports whether resources may be created for an incarnation of a
// stream job: it exists, is not being deleted, and was neither stopped nor
// given up.
func (s *Snapshot) AliveStream(row *berth.StreamJob) bool {
	_, _, err := s.alive(row.Key, row.UID)
	return err == nil
}

// alive returns an incarnation of a stream job, or refuses to create anything
// for it.
func (s *Snapshot) alive(k berth.JobKey, uid berth.UID) (*berth.Job, *berth.StreamJob, error) {
	j, row := s.Job(k), s.StreamJob(uid)
	switch {
	case j == nil || j.UID != uid || row == nil:
		return nil, nil, berth.Refusef(berth.CodeOwnerMissing, "job %q, %s, is not there any more", k, uid.Text('j'))
	case s.Deletion(k) != nil:
		return nil, nil, berth.Refusef(berth.CodeOwnerDeleting, "job %q, %s, is being deleted since index %d", k, uid.Text('j'), s.Deletion(k).Deletion.RequestIndex)
	case row.Phase == berth.PhaseFailed || row.Phase == berth.PhaseStopped || j.Stop:
		return nil, nil, berth.Refusef(berth.CodeOwnerDeleting, "job %q, %s, is %s, and what it owns is removed", k, uid.Text('j'), row.Phase)
	}
	return j, row, nil
}

// putStream stores a submission. old is the row it replaces, or nil.
func (tx *Tx) putStream(old, row *berth.StreamJob) {
	t := &tx.streams
	row.ModifyIndex = tx.Index
	if old == nil {
		row.CreateIndex = tx.Index
		slot := t.insert(tx, row)
		t.byUID.Add(tx.edit, row.UID.Index, slot)
		t.touch(tx, slot, tx.Index)
	} else {
		slot, _ := t.find(row.UID)
		t.set(tx, slot, row)
		t.touch(tx, slot, tx.Index)
	}
	tx.note(Streams, anyOrNil(old), row)
}

// removeStream removes the row of a stream job from its table and indexes. What
// the job owns stays.
func (tx *Tx) removeStream(row *berth.StreamJob) {
	t := &tx.streams
	slot, _ := t.find(row.UID)
	t.byUID.Remove(tx.edit, row.UID.Index, slot)
	t.touch(tx, slot, 0)
	t.remove(tx, slot)
	tx.note(Streams, row, nil)
}

// beginStream creates the submission of a new incarnation of a stream job.
func (tx *Tx) beginStream(j *berth.Job, retries int, r berth.Recovery) {
	tx.putStream(nil, &berth.StreamJob{Key: j.Key(), UID: j.UID, Phase: berth.PhaseSubmission, Retries: retries, Recovery: r})
}

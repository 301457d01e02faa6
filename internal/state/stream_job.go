package state

import (
	"slices"

	"berth"
)

// startsOver reports whether a job that is being deleted can be registered: the
// registration becomes its successor.
func (tx *Tx) startsOver(old, j *berth.Job) bool {
	return old != nil && j.Type == berth.TypeStream && tx.Deletion(old.Key()).hasSuccessor()
}

// stopStream records that a user stopped a stream job. If it was to start over,
// it no longer is.
func (tx *Tx) stopStream(j *berth.Job) {
	if d := tx.Deletion(j.Key()); d != nil && d.hasSuccessor() {
		tx.dropMark(j.Key())
	}
	row := tx.StreamJob(j.UID)
	if row == nil || row.Phase == berth.PhaseStopped {
		return
	}
	n := *row
	n.Phase, n.Deadline = berth.PhaseStopped, 0
	tx.givenUp(j, &n, row)
}

// orphanResources orphans what a stream job owns.
func (tx *Tx) orphanResources(j *berth.Job) {
	if j.Type != berth.TypeStream {
		return
	}
	for _, r := range slices.Collect(tx.ResourcesOf(j.UID, "")) {
		n := *r
		n.Owner = berth.UID{}
		tx.putResource(r, &n)
	}
}

// revertable refuses to revert a stream job to a version in which it was
// stopped, or to any version while it is stopped: it must be registered
// instead.
func (tx *Tx) revertable(cur, to *berth.Job) error {
	if _, _, err := tx.alive(cur.Key(), cur.UID); err != nil {
		return err
	}
	if to.Stop {
		return berth.Errorf(berth.Invalid, "JobVersion: version %d of job %q is a stopped one; to stop the job, use stop", to.Version, cur.Key())
	}
	return nil
}

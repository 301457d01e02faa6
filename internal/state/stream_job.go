package state

import (
	"slices"

	"berth"
)

// beginsAnew says whether a job, marked as it is, can be registered: what is
// registered follows it.
func (tx *Tx) beginsAnew(old, j *berth.Job) bool {
	return old != nil && j.Type == berth.TypeStream && tx.Deletion(old.Key()).begins()
}

// stopStream notes that a user stopped a stream job. One that is to begin anew
// does not, then.
func (tx *Tx) stopStream(j *berth.Job) {
	if d := tx.Deletion(j.Key()); d != nil && d.begins() {
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

// orphanResources leaves what a stream job owns to itself.
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

// revertable refuses to give a stream job back a version in which it was
// stopped, or any if it does not run: then it is registered.
func (tx *Tx) revertable(cur, to *berth.Job) error {
	if _, _, err := tx.alive(cur.Key(), cur.UID); err != nil {
		return err
	}
	if to.Stop {
		return berth.Errorf(berth.Invalid, "JobVersion: in version %d job %q was stopped; stop it to stop it", to.Version, cur.Key())
	}
	return nil
}

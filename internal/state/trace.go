package state

import (
	"berth"
)

// placeOf returns where a key is traced. Keys may share a place: then a change
// of one counts for the other too.
func placeOf(hash uint64) uint32 { return uint32((hash ^ hash>>32) % tracePlaces) }

// note records that the key with a hash changes at the transaction's index.
func (t *traces) note(tx *Tx, hash uint64) { t.at.Set(tx.edit, placeOf(hash), tx.Index) }

// last returns an index since which the key did not change, at least 1. It may
// be too late, never too early: what was not traced counts as changed at
// t.since.
func (t *traces) last(hash uint64) uint64 { return max(t.at.Get(placeOf(hash)), t.since, 1) }

// trace records a change of the stream jobs of a name.
func (tx *Tx) trace(k berth.JobKey) { tx.traces.note(tx, keyHash(k)) }

// LastOfStreams returns an index since which nothing happened to the stream
// jobs of a name, existing or gone, to their resources, orphans included, or to
// their allocations. It can be later than the last change.
func (s *Snapshot) LastOfStreams(k berth.JobKey) uint64 { return s.traces.last(keyHash(k)) }

// LastOfRoutes returns an index since which the exports and imports of a
// namespace, and the jobs that take part, are unchanged. It can be later than
// the last change.
func (s *Snapshot) LastOfRoutes(namespace string) uint64 { return s.traces.last(routesHash(namespace)) }

// reroutes returns the namespace whose routes a change may affect: an export or
// import is added, removed or changed, or its job starts or stops to take part.
func (ch *Change) reroutes() (namespace string, may bool) {
	row := ch.New
	if row == nil {
		row = ch.Old
	}
	switch v := row.(type) {
	case *berth.Object:
		return v.Job.Namespace, v.Kind == berth.KindExport || v.Kind == berth.KindImport
	case *berth.StreamJob:
		// A parked job's exports and imports take no part.
		was, _ := ch.Old.(*berth.StreamJob)
		is, _ := ch.New.(*berth.StreamJob)
		return v.Key.Namespace, was != nil && is != nil && parked(was) != parked(is)
	case *berth.Job:
		was, _ := ch.Old.(*berth.Job)
		is, _ := ch.New.(*berth.Job)
		return v.Namespace, v.Type == berth.TypeStream && was != nil && (is == nil || is.Stop != was.Stop)
	}
	return "", false
}

// parked reports whether a job owns nothing because it was stopped or given up.
func parked(row *berth.StreamJob) bool {
	return row.Phase == berth.PhaseFailed || row.Phase == berth.PhaseStopped
}

// note records a change for those who follow commits.
func (tx *Tx) note(t Table, old, new any) {
	tx.changes = append(tx.changes, Change{t, tx.by, tx.Index, old, new})
	if t == Resources || t == Streams || t == Jobs {
		if space, may := tx.changes[len(tx.changes)-1].reroutes(); may {
			tx.traces.note(tx, routesHash(space))
		}
	}
}

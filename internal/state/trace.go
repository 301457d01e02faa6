package state

import (
	"berth"
	"berth/internal/cow"
)

// traces say when something last happened to the stream jobs of a name, and when
// the routes of a namespace may last have changed. Rows tell that of themselves
// while they are there; what goes leaves nothing but the index of its table,
// which others raise as well.
//
// They are this server's alone. Names share places, so that there is an end to
// them, and a server that begins with a saved state knows no more than that
// nothing in it is newer: what is told may be later than it was, never earlier.
type traces struct {
	at    cow.Vec[uint64]
	since uint64 // nothing is told to be older
}

// tracePlaces is how many places there are: so few names meet in one that it
// does not matter, and 32 KiB is what all of them take.
const tracePlaces = 1 << 12

func placeOf(hash uint64) uint32 { return uint32((hash ^ hash>>32) % tracePlaces) }

func (t *traces) note(tx *Tx, hash uint64) { t.at.Set(tx.edit, placeOf(hash), tx.Index) }

func (t *traces) last(hash uint64) uint64 { return max(t.at.Get(placeOf(hash)), t.since, 1) }

// trace notes that something happened to the stream jobs of a name.
func (tx *Tx) trace(k berth.JobKey) { tx.traces.note(tx, keyHash(k)) }

// LastOfStreams returns the index since which nothing happened to the stream jobs
// of a name, whether they are there or gone, to what they own or left to itself,
// or to their allocations. It can be later than the last change.
func (s *Snapshot) LastOfStreams(k berth.JobKey) uint64 { return s.traces.last(keyHash(k)) }

// LastOfRoutes returns the index since which the exports and imports of a
// namespace are the same, and those jobs take part that did. It can be later than
// the last change.
func (s *Snapshot) LastOfRoutes(namespace string) uint64 { return s.traces.last(routesHash(namespace)) }

func routesHash(namespace string) uint64 { return hash("routes", namespace) }

// reroutes returns the namespace whose routes a change may change: an export or
// import comes, goes or is another one, or its job ceases to take part, or begins
// to.
func (ch *Change) reroutes() (namespace string, may bool) {
	row := ch.New
	if row == nil {
		row = ch.Old
	}
	switch v := row.(type) {
	case *berth.Resource:
		return v.Job.Namespace, v.Kind == berth.KindExport || v.Kind == berth.KindImport
	case *berth.StreamJob:
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

// parked says whether a job keeps nothing because it was stopped or given up.
func parked(row *berth.StreamJob) bool {
	return row.Phase == berth.PhaseFailed || row.Phase == berth.PhaseStopped
}

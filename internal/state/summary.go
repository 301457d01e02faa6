package state

import (
	"maps"
	"slices"

	"berth"
)

// Summary is what is counted of one incarnation of a job, kept by delta: how
// its allocations fare, and how many of its evaluations are open. The job's
// status follows from it.
type Summary struct {
	Key     berth.JobKey
	UID     berth.UID
	Groups  []GroupCount // in order of first appearance
	Live    int          // allocations that should run and have not ended
	Open    int          // evaluations pending or blocked
	Created uint64
	Changed uint64 // index of the last change of a count
	Allocs  uint64 // index of the last change of any of its allocations
	Evals   uint64 // index of the last change of any of its evaluations
	GivenUp bool   // of a stream job: its submission was given up

	Children Children    // of a job that begets them
	Launch   *Launch     // of a periodic job
	In       berth.UID   // of a child: the parent that counts it,
	As       childStatus // and as what
}

// GroupCount counts a group's allocations by how they fare.
type GroupCount struct {
	Group    string
	Queued   int
	Complete int
	Failed   int
	Running  int
	Starting int
	Lost     int
	Unknown  int
}

// Of returns the count of allocations that fare so.
func (g *GroupCount) Of(c berth.ClientStatus) *int {
	switch c {
	case berth.ClientRunning:
		return &g.Running
	case berth.ClientComplete:
		return &g.Complete
	case berth.ClientFailed:
		return &g.Failed
	case berth.ClientLost:
		return &g.Lost
	case berth.ClientUnknown:
		return &g.Unknown
	}
	return &g.Starting
}

// Status returns the status of a job with these counts, and why.
func (s *Summary) Status(j *berth.Job) (status, why string) {
	switch {
	case s.Live > 0:
		return berth.JobRunning, ""
	case s.Open > 0 && !j.Stop, j.Type == berth.TypeStream && !j.Stop && !s.GivenUp:
		return berth.JobPending, ""
	case (!j.Schedulable() || j.Type == berth.TypeSystem) && !j.Stop:
		return berth.JobRunning, "" // until it is stopped: what comes tomorrow is its business, too
	}
	return berth.JobDead, ""
}

// Summary returns the counts of the job, or nil.
func (s *Snapshot) Summary(k berth.JobKey) *Summary {
	if slot, ok := s.jobs.byKey.First(jobKey(k)); ok {
		return s.jobs.summaries.Get(slot)
	}
	return nil
}

// count changes the summary of a job's incarnation, if it is still there. The
// summaries that a command changes are copied once and stored when it ends.
func (tx *Tx) count(k berth.JobKey, uid berth.UID, change func(*Summary)) {
	slot, ok := tx.jobs.byKey.First(jobKey(k))
	if !ok {
		return
	}
	s := tx.counting[slot]
	if s == nil {
		old := tx.jobs.summaries.Get(slot)
		if old == nil {
			return
		}
		c := *old
		c.Groups = slices.Clone(old.Groups)
		s = &c
		if tx.counting == nil {
			tx.counting = map[uint32]*Summary{}
		}
	}
	if s.UID == uid {
		tx.counting[slot] = s
		change(s)
	}
}

// storeCounts ends the counting of a command.
func (tx *Tx) storeCounts() {
	for _, slot := range slices.Sorted(maps.Keys(tx.counting)) {
		tx.countChild(slot) // which may add the counts of its parent
	}
	for _, slot := range slices.Sorted(maps.Keys(tx.counting)) {
		s := tx.counting[slot]
		s.Changed = tx.Index
		tx.note(Summaries, tx.jobs.summaries.Get(slot), s)
		freeze(s)
		tx.jobs.summaries.Set(tx.edit, slot, s)
		tx.jobs.summaryChanged = tx.Index
		tx.touchStream(s.UID)
	}
	clear(tx.counting)
}

// group returns the counts of a group.
func (s *Summary) group(name string) *GroupCount {
	for i := range s.Groups {
		if s.Groups[i].Group == name {
			return &s.Groups[i]
		}
	}
	s.Groups = append(s.Groups, GroupCount{Group: name})
	return &s.Groups[len(s.Groups)-1]
}

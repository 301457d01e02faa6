package state

import (
	"iter"
	"maps"

	"berth"
)

// Limits of scaling events.
const (
	ScalingEventsKept = 20       // of each group, the newest
	MaxScalingMessage = 4 << 10  // bytes
	MaxScalingMeta    = 16 << 10 // bytes, as JSON
)

// noScaling stands for a job without scaling events. It must not change.
var noScaling ScalingEvents

// ScalingEvents returns the scaling events of a job, which must not be changed.
func (s *Snapshot) ScalingEvents(k berth.JobKey) *ScalingEvents {
	if slot, ok := s.jobs.byKey.First(jobKey(k)); ok {
		if e := s.jobs.scalings.Get(slot); e != nil {
			return e
		}
	}
	return &noScaling
}

// ScaledJobs returns the jobs that are not stopped and have a scaling policy,
// in order of namespace and ID.
func (s *Snapshot) ScaledJobs() iter.Seq[*berth.Job] {
	return rowsOf(&s.jobs.rows, s.jobs.scaled.All())
}

// listScaled updates the list of jobs with policies. old is the row that j
// replaces, or nil; j is nil if the job is removed.
func (tx *Tx) listScaled(old, j *berth.Job, slot uint32) {
	was, is := old != nil && !old.Stop && old.Scaled(), j != nil && !j.Stop && j.Scaled()
	switch {
	case is && !was:
		tx.jobs.scaled.Add(tx.edit, jobKey(j.Key()), slot)
	case was && !is:
		tx.jobs.scaled.Remove(tx.edit, jobKey(old.Key()), slot)
	}
}

// addScalingEvent stores an event of a group. Events of groups that the job no
// longer has are dropped.
func (tx *Tx) addScalingEvent(j *berth.Job, group string, e berth.ScalingEvent) {
	slot, _ := tx.jobs.byKey.First(jobKey(j.Key()))
	s := &ScalingEvents{Groups: maps.Clone(tx.ScalingEvents(j.Key()).Groups), ModifyIndex: tx.Index}
	if s.Groups == nil {
		s.Groups = map[string][]berth.ScalingEvent{}
	}
	maps.DeleteFunc(s.Groups, func(name string, _ []berth.ScalingEvent) bool { return j.Group(name) == nil })
	list := append([]berth.ScalingEvent{e}, s.Groups[group]...)
	s.Groups[group] = list[:min(len(list), ScalingEventsKept)]
	freeze(s)
	tx.jobs.scalings.Set(tx.edit, slot, s)
	tx.count(j.Key(), j.UID, func(*Summary) {}) // so that those who watch the job see it
}

package state

import (
	"slices"

	"berth"
)

// Summary returns the counts of the job, or nil.
func (s *Snapshot) Summary(k berth.JobKey) *Summary {
	if slot, ok := s.jobs.byKey.First(jobKey(k)); ok {
		return s.jobs.summaries.Get(slot)
	}
	return nil
}

// count changes the summary of a job's incarnation if it still exists. The
// summaries that a command changes are copied once and stored when it ends.
func (tx *Tx) count(k berth.JobKey, uid berth.UID, change func(*Summary)) {
	slot, ok := tx.jobs.byKey.First(jobKey(k))
	if !ok {
		return
	}
	// Many changes of a command to one summary make one copy.
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
	// Rows of an earlier incarnation do not count.
	if s.UID == uid {
		tx.counting[slot] = s
		change(s)
	}
}

// setQueued records how many instances of each group wait for placement.
func (tx *Tx) setQueued(job *berth.Job, queued map[string]int) {
	tx.count(job.Key(), job.UID, func(s *Summary) {
		for i := range s.Groups {
			s.Groups[i].Queued = 0
		}
		for _, g := range job.TaskGroups {
			if n := queued[g.Name]; n > 0 || len(queued) > 0 {
				s.group(g.Name).Queued = n
			}
		}
	})
}

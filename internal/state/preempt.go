package state

import (
	"fmt"

	"berth"
	"berth/internal/fit"
)

// PriorityGap is how far the priority of a preempted allocation's job lies
// below that of the one that preempts it, at least.
const PriorityGap = 10

// Evictable returns why a job cannot preempt an allocation, "" if it can.
func (s *Snapshot) Evictable(a *berth.Alloc, by *berth.Job) string {
	switch {
	case !a.Live():
		return "it does not run"
	case a.Orphaned:
		return "it was left to itself, so nothing would replace it"
	case a.Job.Priority > by.Priority-PriorityGap:
		return fmt.Sprintf("its job has the priority %d; allowed is at most %d", a.Job.Priority, by.Priority-PriorityGap)
	case a.Key() == by.Key():
		return "it is of the same job"
	case len(s.preempted(a)) > 0:
		return "it waits for others to end"
	}
	return ""
}

// preempted returns what was preempted for an allocation and has not ended.
func (s *Snapshot) preempted(a *berth.Alloc) (out []*berth.Alloc) {
	for _, id := range a.Rest().Evicted {
		if v := s.Alloc(id); v != nil && v.Occupies() {
			out = append(out, v)
		}
	}
	return out
}

// familyOf returns the family of an allocation, not ok if it has none, as most.
func (s *Snapshot) familyOf(a *berth.Alloc) (f fit.Family, ok bool) {
	if a.More == nil || a.More.EvictedBy.IsZero() && len(a.More.Evicted) == 0 {
		return f, false
	}
	f.Head = a
	if id := a.More.EvictedBy; !id.IsZero() {
		if f.Head = s.Alloc(id); f.Head == nil {
			return f, false
		}
	}
	for _, id := range f.Head.Rest().Evicted {
		if v := s.Alloc(id); v != nil {
			f.Preempted = append(f.Preempted, v)
		}
	}
	return f, true
}

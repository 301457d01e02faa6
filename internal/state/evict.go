package state

import (
	"fmt"

	"berth"
)

// An allocation can take the room of less urgent ones of its node. These are
// evicted: they hold their room until their end is confirmed, like all that
// are stopped, and the one that evicts them does not start before. Until then
// they are a family, which together holds what they need and what it needs,
// but what both need only once. So a node is never overcommitted, and what the
// evicted give up beyond that comes free when they have ended.

// PriorityGap is how far the priority of an evicted allocation's job lies below
// that of the one that evicts it, at least.
const PriorityGap = 10

// Evictable returns why a job cannot evict an allocation, "" if it can.
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
	case len(s.evicted(a)) > 0:
		return "it waits for others to end"
	}
	return ""
}

// evicted returns what made room for an allocation and has not ended.
func (s *Snapshot) evicted(a *berth.Alloc) (out []*berth.Alloc) {
	for _, id := range a.Rest().Evicted {
		if v := s.Alloc(id); v != nil && v.Occupies() {
			out = append(out, v)
		}
	}
	return out
}

// Without returns a copy of a line as if allocations of the node had ended.
func (u *Usage) Without(gone ...*berth.Alloc) *Usage {
	line, edit := *u, NewEdit()
	for _, a := range gone {
		w := WantOf(a.Group)
		line.Release(edit, &w, a.Grant())
	}
	return &line
}

// PlaceOver does what Place does, with the room of allocations that are evicted
// for it.
func (u *Usage) PlaceOver(edit uint64, w *Want, at uint32, evicted []*berth.Alloc) berth.Grant {
	g := u.Without(evicted...).Place(NewEdit(), w, at)
	u.ClaimOver(edit, w, g, evicted)
	return g
}

// ClaimOver does what Claim does, with the room of allocations that are evicted
// for it and have not ended.
func (u *Usage) ClaimOver(edit uint64, w *Want, g berth.Grant, evicted []*berth.Alloc) {
	once := u.shared(w, g, evicted)
	u.Claim(edit, w, g)
	u.shift(once, -1)
}

// shared returns what an allocation and those evicted for it both hold of a
// line on which the latter are claimed.
func (u *Usage) shared(w *Want, g berth.Grant, evicted []*berth.Alloc) berth.Ask {
	if len(evicted) == 0 {
		return berth.Ask{}
	}
	without := u.Without(evicted...)
	with := *without
	with.Claim(NewEdit(), w, g)
	theirs, its := u.Used.Sub(without.Used), with.Used.Sub(without.Used)
	return berth.Ask{
		CPU: min(theirs.CPU, its.CPU), MemoryMB: min(theirs.MemoryMB, its.MemoryMB), DiskMB: min(theirs.DiskMB, its.DiskMB),
	}
}

// shift moves what is used by what allocations share.
func (u *Usage) shift(by berth.Ask, sign int64) {
	u.Used.CPU += sign * by.CPU
	u.Used.MemoryMB += sign * by.MemoryMB
	u.Used.DiskMB += sign * by.DiskMB
	u.weigh()
}

// family is an allocation and those that it evicted.
type family struct {
	head    *berth.Alloc // nil if it is gone
	evicted []*berth.Alloc
}

// familyOf returns the family of an allocation, not ok if it has none: most.
func (s *Snapshot) familyOf(a *berth.Alloc) (f family, ok bool) {
	if a.More == nil || a.More.EvictedBy.IsZero() && len(a.More.Evicted) == 0 {
		return f, false
	}
	f.head = a
	if id := a.More.EvictedBy; !id.IsZero() {
		if f.head = s.Alloc(id); f.head == nil {
			return f, false
		}
	}
	for _, id := range f.head.Rest().Evicted {
		if v := s.Alloc(id); v != nil {
			f.evicted = append(f.evicted, v)
		}
	}
	return f, true
}

// as returns the family with a member as it was.
func (f family) as(old *berth.Alloc) family {
	g := family{head: f.head}
	if old.ID == f.head.ID {
		g.head = old
	}
	for _, v := range f.evicted {
		if v.ID == old.ID {
			v = old
		}
		g.evicted = append(g.evicted, v)
	}
	return g
}

// claim takes what the family holds out of a line.
func (f family) claim(edit uint64, u *Usage) {
	held := f.holding()
	for _, v := range held {
		w := WantOf(v.Group)
		u.Claim(edit, &w, v.Grant())
	}
	if f.head.Occupies() {
		w := WantOf(f.head.Group)
		u.ClaimOver(edit, &w, f.head.Grant(), held)
	}
}

// release gives back what claim took.
func (f family) release(edit uint64, u *Usage) {
	held := f.holding()
	if f.head.Occupies() {
		w := WantOf(f.head.Group)
		u.Release(edit, &w, f.head.Grant())
		for _, v := range held { // what both hold by name is theirs still
			w := WantOf(v.Group)
			u.Release(edit, &w, v.Grant())
			u.Claim(edit, &w, v.Grant())
		}
		w = WantOf(f.head.Group)
		u.shift(u.shared(&w, f.head.Grant(), held), 1)
	}
	for _, v := range held {
		w := WantOf(v.Group)
		u.Release(edit, &w, v.Grant())
	}
}

// holding returns the evicted that have not ended.
func (f family) holding() (out []*berth.Alloc) {
	for _, v := range f.evicted {
		if v.Occupies() {
			out = append(out, v)
		}
	}
	return out
}

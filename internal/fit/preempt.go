package fit

import (
	"berth"
)

// An allocation can take the capacity of less urgent ones of its node. These
// are preempted: they hold their capacity until their end is confirmed, like
// all that are stopped, and the one that preempts them does not start before.
// Until then they are a family, which together holds what they need and what it
// needs, but what both need only once. So a node is never overcommitted, and
// what the preempted give up beyond that comes free when they have ended.

// Without returns a copy of a usage as if allocations of the node had ended.
func (u *Usage) Without(gone ...*berth.Alloc) *Draft {
	d := u.Draft()
	for _, a := range gone {
		r := RequestOf(a.Group)
		d.Release(&r, a.Grant())
	}
	return d
}

// ClaimOver does what Claim does, with the capacity of allocations that are
// preempted for it and have not ended.
func (by *Writer) ClaimOver(u *Usage, r *Request, g berth.Grant, preempted []*berth.Alloc) {
	once := u.sharedBy(r, g, preempted)
	by.Claim(u, r, g)
	u.shift(once, -1)
}

// sharedBy returns what an allocation and those preempted for it both hold of a
// usage on which the latter are claimed.
func (u *Usage) sharedBy(r *Request, g berth.Grant, preempted []*berth.Alloc) berth.Ask {
	if len(preempted) == 0 {
		return berth.Ask{}
	}
	without := u.Without(preempted...)
	with := without.Draft()
	with.Claim(r, g)
	theirs, its := u.Used.Sub(without.Used), with.Used.Sub(without.Used)
	return berth.Ask{
		CPU: min(theirs.CPU, its.CPU), MemoryMB: min(theirs.MemoryMB, its.MemoryMB), DiskMB: min(theirs.DiskMB, its.DiskMB),
	}
}

// shift adds what allocations share to what is used, or with -1 takes it away.
func (u *Usage) shift(ask berth.Ask, sign int64) {
	u.Used.CPU += sign * ask.CPU
	u.Used.MemoryMB += sign * ask.MemoryMB
	u.Used.DiskMB += sign * ask.DiskMB
	u.updatePowers()
}

// Family is an allocation and those that it preempted.
type Family struct {
	Head      *berth.Alloc // that preempted the others
	Preempted []*berth.Alloc
}

// With returns the family with one member replaced by another version of it.
func (f Family) With(member *berth.Alloc) Family {
	g := Family{Head: f.Head}
	if member.ID == f.Head.ID {
		g.Head = member
	}
	for _, v := range f.Preempted {
		if v.ID == member.ID {
			v = member
		}
		g.Preempted = append(g.Preempted, v)
	}
	return g
}

// ClaimFamily takes what a family holds out of u.
func (by *Writer) ClaimFamily(u *Usage, f Family) {
	held := f.holding()
	for _, v := range held {
		r := RequestOf(v.Group)
		by.Claim(u, &r, v.Grant())
	}
	if f.Head.Occupies() {
		r := RequestOf(f.Head.Group)
		by.ClaimOver(u, &r, f.Head.Grant(), held)
	}
}

// ReleaseFamily gives back what ClaimFamily took.
func (by *Writer) ReleaseFamily(u *Usage, f Family) {
	held := f.holding()
	if f.Head.Occupies() {
		head := RequestOf(f.Head.Group)
		by.Release(u, &head, f.Head.Grant())
		for _, v := range held { // what both hold by name is still theirs
			r := RequestOf(v.Group)
			by.Release(u, &r, v.Grant())
			by.Claim(u, &r, v.Grant())
		}
		u.shift(u.sharedBy(&head, f.Head.Grant(), held), 1)
	}
	for _, v := range held {
		r := RequestOf(v.Group)
		by.Release(u, &r, v.Grant())
	}
}

// holding returns the preempted that have not ended.
func (f Family) holding() (out []*berth.Alloc) {
	for _, v := range f.Preempted {
		if v.Occupies() {
			out = append(out, v)
		}
	}
	return out
}

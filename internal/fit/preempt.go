package fit

import (
	"berth"
)

// An allocation can preempt less urgent ones on its node. The victims are
// stopped like any others: they hold their capacity until their end is
// confirmed, and the preempting allocation does not start before. Until then
// they form a family. Capacity that both sides need is counted once, so the
// node is never overcommitted, and what the victims hold beyond that becomes
// free when they have ended.

// Without returns a copy of a usage as if allocations of the node had ended.
func (u *Usage) Without(gone ...*berth.Alloc) *Draft {
	d := u.Draft()
	for _, a := range gone {
		r := RequestOf(a.Group)
		d.Release(&r, a.Grant())
	}
	return d
}

// ClaimOver is like Claim, reusing the capacity of preempted allocations that
// have not ended.
func (by *Writer) ClaimOver(u *Usage, r *Request, g berth.Grant, preempted []*berth.Alloc) {
	once := u.sharedBy(r, g, preempted)
	by.Claim(u, r, g)
	u.shift(once, -1)
}

// sharedBy returns the capacity that both an allocation and its victims hold.
// The victims must be claimed in u.
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

// shift adds shared capacity to what is used or, with -1, subtracts it.
func (u *Usage) shift(ask berth.Ask, sign int64) {
	u.Used.CPU += sign * ask.CPU
	u.Used.MemoryMB += sign * ask.MemoryMB
	u.Used.DiskMB += sign * ask.DiskMB
	u.updatePowers()
}

// Family is an allocation and its victims.
type Family struct {
	Head      *berth.Alloc // the one that preempted the others
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

// ClaimFamily claims what a family holds.
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

// ReleaseFamily releases what ClaimFamily claimed.
func (by *Writer) ReleaseFamily(u *Usage, f Family) {
	held := f.holding()
	if f.Head.Occupies() {
		head := RequestOf(f.Head.Group)
		by.Release(u, &head, f.Head.Grant())
		for _, v := range held { // the victims still hold named resources that both hold
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

// holding returns the victims that have not ended.
func (f Family) holding() (out []*berth.Alloc) {
	for _, v := range f.Preempted {
		if v.Occupies() {
			out = append(out, v)
		}
	}
	return out
}

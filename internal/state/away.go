package state

import (
	"berth"
)

// A client that may be away is disconnected when it is not heard, and what it
// runs for groups that wait for it is unknown: it is taken to run, and keeps its
// room, until its agent says how it fares or its time is up. Unknown is the one
// status that a scheduler gives and an agent takes back.

// silent says whether what runs on a node may be taken for lost; nil is a node
// that was forgotten.
func silent(n *berth.Node) bool {
	return n == nil || n.Status == berth.NodeDown || n.Status == berth.NodeDisconnected
}

// away notes that it is not known how an allocation fares. What has ended, is
// to end or is unknown already is left as it is, and so is everything on a node
// that is not disconnected: the plan did not know that it is heard again, or
// given up.
func (tx *Tx) away(s berth.AllocStop, now int64) {
	old := tx.Alloc(s.ID)
	if old == nil || !old.Live() || old.Orphaned || old.Client == berth.ClientUnknown {
		return
	}
	if n := tx.Node(old.NodeID); n == nil || n.Status != berth.NodeDisconnected {
		return
	}
	a, more := old.With()
	// Its agent must see it, so that it says anew how the allocation fares.
	a.ModifyTime, a.AllocModifyIndex = now, tx.Index
	a.Client, more.ClientDescription, more.UnknownSince = berth.ClientUnknown, s.Description, now
	tx.changeAlloc(old, a)
}

// unknowns are the instances of a job whose allocation is unknown and was not
// replaced; nil for most jobs.
type unknowns map[instance]berth.AllocID

// add notes an unknown allocation. What replaced one holds the name for it.
func (u *unknowns) add(i instance, a *berth.Alloc) {
	if !a.Rest().Next.IsZero() {
		return
	}
	if *u == nil {
		*u = unknowns{}
	}
	(*u)[i] = a.ID
}

// holds says whether an unknown allocation keeps the name of an instance from
// one that is to replace previous: only what stands in for it may share it.
func (u unknowns) holds(i instance, previous berth.AllocID) bool {
	id, ok := u[i]
	return ok && id != previous
}

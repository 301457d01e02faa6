package state

import (
	"berth"
	"berth/internal/fit"
)

// newAlloc stores a new allocation, which asks for r, on the node with the
// given number.
func (tx *Tx) newAlloc(a *berth.Alloc, node uint32, r *fit.Request) {
	a.ModifyIndex = tx.Index
	tx.allocs.link(tx, a)
	u := tx.nodes.usage.Edit(tx.edit, node)
	u.Changed, u.Touched = tx.Index, tx.Index
	if len(a.Rest().Evicted) > 0 {
		tx.fit.ClaimOver(u, r, a.Grant(), tx.preempted(a))
	} else {
		tx.fit.Claim(u, r, a.Grant())
	}
	tx.countAlloc(nil, a)
	tx.countQuota(nil, a)
	tx.note(Allocs, nil, a)
}

// changeAlloc replaces the row of an allocation. Its identity, node and name
// stay the same.
func (tx *Tx) changeAlloc(old, a *berth.Alloc) {
	t := &tx.allocs
	a.ModifyIndex = tx.Index
	slot, _ := t.find(a.ID)
	t.set(tx, slot, a)
	if old.EvalID != a.EvalID {
		was, _ := old.EvalID.Words()
		now, _ := a.EvalID.Words()
		t.byEval.Remove(tx.edit, was, slot)
		t.byEval.Add(tx.edit, now, slot)
	}
	if n := tx.Node(a.NodeID); n != nil { // a node that was deleted has no usage row
		tx.account(old, a, tx.nodes.usage.Edit(tx.edit, n.Number))
	}
	tx.countAlloc(old, a)
	tx.countQuota(old, a)
	tx.note(Allocs, old, a)
	if tx.services.count > 0 && a.Ended() && !old.Ended() {
		tx.endServices(tx.ServicesOf(a.ID))
	}
	if a.Ended() != old.Ended() {
		tx.followClaims(tx.ClaimsOfAlloc(a.ID))
	}
}

// account changes the usage of a node from what old holds to what a holds.
func (tx *Tx) account(old, a *berth.Alloc, u *fit.Usage) {
	u.Touched = tx.Index
	if a.AllocModifyIndex == tx.Index {
		u.Changed = tx.Index
	}
	// The usage only changes when capacity is taken, freed or asked for
	// differently.
	held, holds := old.Occupies(), a.Occupies()
	if held == holds && old.Group == a.Group {
		return
	}
	// An allocation and its victims share capacity until these have ended.
	if f, ok := tx.familyOf(a); ok {
		tx.fit.ReleaseFamily(u, f.With(old))
		tx.fit.ClaimFamily(u, f)
		return
	}
	// Release before claiming: both may have the same ports.
	if held && (!holds || old.Group != a.Group) {
		r := fit.RequestOf(old.Group)
		tx.fit.Release(u, &r, old.Grant())
	}
	if holds && (!held || old.Group != a.Group) {
		r := fit.RequestOf(a.Group)
		tx.fit.Claim(u, &r, a.Grant())
	}
}

// countAlloc changes the job's counts from old, nil for a new allocation, to a.
func (tx *Tx) countAlloc(old, a *berth.Alloc) {
	if a.Rest().PE != nil {
		tx.trace(a.Key())
	}
	tx.count(a.Key(), a.Job.UID, func(s *Summary) {
		g := s.group(a.Group.Name)
		if old != nil {
			*g.Of(old.Client)--
			s.Live -= sign(old.Live())
		}
		*g.Of(a.Client)++
		s.Live += sign(a.Live())
		s.Allocs = tx.Index
	})
}

// A client that may disconnect is marked disconnected when its heartbeats stop.
// Its allocations of groups that allow that become unknown: they are assumed to
// run, and keep their capacity, until the agent reports their state or their
// time is up. Unknown is the only status that a scheduler sets and an agent
// replaces.

// mayBeLost reports whether allocations on a node may be considered lost. nil
// is a node that was deleted.
func mayBeLost(n *berth.Node) bool {
	return n == nil || n.Status == berth.NodeDown || n.Status == berth.NodeDisconnected
}

// markUnknown marks an allocation as unknown. It leaves alone what has ended,
// is to be stopped or is unknown already, and everything on a node that is not
// disconnected: the plan did not know that the node has reconnected or is down.
func (tx *Tx) markUnknown(s berth.AllocStop, now int64) {
	old := tx.Alloc(s.ID)
	if old == nil || !old.Live() || old.Orphaned || old.Client == berth.ClientUnknown {
		return
	}
	if n := tx.Node(old.NodeID); n == nil || n.Status != berth.NodeDisconnected {
		return
	}
	a, more := old.With()
	// The agent must see the change, so that it reports the allocation again.
	a.ModifyTime, a.AllocModifyIndex = now, tx.Index
	a.Client, more.ClientDescription, more.UnknownSince = berth.ClientUnknown, s.Description(), now
	tx.changeAlloc(old, a)
}

// removeAlloc deletes an allocation that has ended. It then holds nothing of
// its node.
func (tx *Tx) removeAlloc(a *berth.Alloc) {
	t := &tx.allocs
	slot, _ := t.find(a.ID)
	id, _ := a.ID.Words()
	on, _ := a.NodeID.Words()
	by, _ := a.EvalID.Words()
	t.byID.Remove(tx.edit, id, slot)
	t.byTime.Remove(tx.edit, a.CreateIndex, slot)
	t.byNode.Remove(tx.edit, on, slot)
	t.byJob.Remove(tx.edit, keyHash(a.Key()), slot)
	t.byEval.Remove(tx.edit, by, slot)
	t.remove(tx, slot)
	if n := tx.Node(a.NodeID); n != nil { // the agent must see that it is gone
		u := tx.nodes.usage.Edit(tx.edit, n.Number)
		u.Changed, u.Touched = tx.Index, tx.Index
	}
	tx.count(a.Key(), a.Job.UID, func(s *Summary) {
		*s.group(a.Group.Name).Of(a.Client)--
		s.Allocs = tx.Index
	})
	if tx.streams.count > 0 || a.Rest().PE != nil {
		tx.trace(a.Key())
	}
	tx.note(Allocs, a, nil)
}

// preempted returns the allocations that were preempted for a and have not
// ended.
func (s *Snapshot) preempted(a *berth.Alloc) (out []*berth.Alloc) {
	for _, id := range a.Rest().Evicted {
		if v := s.Alloc(id); v != nil && v.Occupies() {
			out = append(out, v)
		}
	}
	return out
}

// familyOf returns the family of an allocation. ok is false if it has none, as
// for most.
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

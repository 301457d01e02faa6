package state

import (
	"iter"

	"berth"
	"berth/internal/cow"
	"berth/internal/fit"
)

// allocTable holds the allocations: there can be millions, so an index is a
// word and a slot per row.
type allocTable struct {
	rows[berth.Alloc]
	byID   cow.Tree[uint64] // first half of the ID
	byTime cow.Tree[uint64] // CreateIndex
	byNode cow.Tree[uint64] // first half of the node's ID
	byJob  cow.Tree[uint64] // hash of the job's key
	byEval cow.Tree[uint64] // first half of the evaluation's ID
}

func (t *allocTable) find(id berth.AllocID) (slot uint32, a *berth.Alloc) {
	hi, _ := id.Words()
	return find(&t.rows, &t.byID, hi, func(a *berth.Alloc) bool { return a.ID == id })
}

// Alloc returns the allocation, or nil.
func (s *Snapshot) Alloc(id berth.AllocID) *berth.Alloc {
	_, a := s.allocs.find(id)
	return a
}

// Allocs returns all allocations, oldest first.
func (s *Snapshot) Allocs() iter.Seq[*berth.Alloc] {
	return rowsOf(&s.allocs.rows, s.allocs.byTime.All())
}

// AllocsBack returns all allocations, newest first.
func (s *Snapshot) AllocsBack() iter.Seq[*berth.Alloc] {
	return rowsOf(&s.allocs.rows, s.allocs.byTime.Back())
}

// AllocsFrom returns the allocations whose IDs have the prefix, in order.
func (s *Snapshot) AllocsFrom(p berth.IDPrefix) iter.Seq[*berth.Alloc] {
	return withPrefix(p, &s.allocs.byID, s.allocs.vec.Get, func(a *berth.Alloc) [16]byte { return a.ID })
}

// AllocsOn returns the allocations of a node, in no order.
func (s *Snapshot) AllocsOn(id berth.NodeID) iter.Seq[*berth.Alloc] {
	hi, _ := id.Words()
	return of(&s.allocs.rows, &s.allocs.byNode, hi, func(a *berth.Alloc) bool { return a.NodeID == id })
}

// AllocsOf returns the allocations of a job, those of earlier jobs of the same
// name included, in no order.
func (s *Snapshot) AllocsOf(k berth.JobKey) iter.Seq[*berth.Alloc] {
	return of(&s.allocs.rows, &s.allocs.byJob, keyHash(k), func(a *berth.Alloc) bool { return a.Key() == k })
}

// AllocsBy returns the allocations that an evaluation placed or last updated,
// in no order.
func (s *Snapshot) AllocsBy(id berth.EvalID) iter.Seq[*berth.Alloc] {
	hi, _ := id.Words()
	return of(&s.allocs.rows, &s.allocs.byEval, hi, func(a *berth.Alloc) bool { return a.EvalID == id })
}

// newAlloc stores a new allocation, which asks for r, on the node with that
// number.
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
	tx.note(Allocs, nil, a)
}

// link stores a new row with its indexes.
func (t *allocTable) link(tx *Tx, a *berth.Alloc) {
	slot := t.insert(tx, a)
	id, _ := a.ID.Words()
	on, _ := a.NodeID.Words()
	by, _ := a.EvalID.Words()
	t.byID.Add(tx.edit, id, slot)
	t.byTime.Add(tx.edit, a.CreateIndex, slot)
	t.byNode.Add(tx.edit, on, slot)
	t.byJob.Add(tx.edit, keyHash(a.Key()), slot)
	t.byEval.Add(tx.edit, by, slot)
}

// changeAlloc replaces the row of an allocation; what identifies it, its node
// and its name stay.
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
	if n := tx.Node(a.NodeID); n != nil { // a node that was forgotten has no line
		tx.account(old, a, tx.nodes.usage.Edit(tx.edit, n.Number))
	}
	tx.countAlloc(old, a)
	tx.note(Allocs, old, a)
	if tx.services.count > 0 && a.Ended() && !old.Ended() {
		tx.endServices(tx.ServicesOf(a.ID))
	}
}

// account moves the usage of a node from what old holds to what a does.
func (tx *Tx) account(old, a *berth.Alloc, u *fit.Usage) {
	u.Touched = tx.Index
	if a.AllocModifyIndex == tx.Index {
		u.Changed = tx.Index
	}
	held, holds := old.Occupies(), a.Occupies()
	if held == holds && old.Group == a.Group {
		return
	}
	if f, ok := tx.familyOf(a); ok {
		tx.fit.ReleaseFamily(u, f.With(old))
		tx.fit.ClaimFamily(u, f)
		return
	}
	if held && (!holds || old.Group != a.Group) {
		r := fit.RequestOf(old.Group)
		tx.fit.Release(u, &r, old.Grant())
	}
	if holds && (!held || old.Group != a.Group) {
		r := fit.RequestOf(a.Group)
		tx.fit.Claim(u, &r, a.Grant())
	}
}

// countAlloc moves the counts of the job from old, nil for a new allocation,
// to a.
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

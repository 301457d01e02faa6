package state

import (
	"iter"

	"berth"
)

// find returns an allocation and its slot, or nil.
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

// AllocsOn returns the allocations of a node, in no particular order.
func (s *Snapshot) AllocsOn(id berth.NodeID) iter.Seq[*berth.Alloc] {
	hi, _ := id.Words()
	return of(&s.allocs.rows, &s.allocs.byNode, hi, func(a *berth.Alloc) bool { return a.NodeID == id })
}

// AllocsOf returns the allocations of a job, including those of earlier jobs
// with the same name, in no particular order.
func (s *Snapshot) AllocsOf(k berth.JobKey) iter.Seq[*berth.Alloc] {
	return of(&s.allocs.rows, &s.allocs.byJob, keyHash(k), func(a *berth.Alloc) bool { return a.Key() == k })
}

// AllocsBy returns the allocations that an evaluation placed or last updated,
// in no particular order.
func (s *Snapshot) AllocsBy(id berth.EvalID) iter.Seq[*berth.Alloc] {
	hi, _ := id.Words()
	return of(&s.allocs.rows, &s.allocs.byEval, hi, func(a *berth.Alloc) bool { return a.EvalID == id })
}

// link stores a new row and adds it to the indexes.
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

package state

import (
	"bytes"
	"iter"
	"math"
	"slices"
	"strings"

	"berth"
	"berth/internal/cow"
)

// A Range is a part of a table that is read in order of ID: the rows whose IDs
// have the prefix, from one ID on. The zero Range is the whole table.
type Range[T any] struct {
	Prefix berth.IDPrefix
	From   berth.ID[T] // begin here, whether the row exists or not; zero: at the end that Back implies
	Back   bool        // in descending order
}

// JobRow is a job with its counts.
type JobRow struct {
	Job     *berth.Job
	Summary *Summary
}

// JobRange is a part of the job table in order of namespace and ID.
type JobRange struct {
	Namespace string // * is all
	Prefix    string // of the IDs
	From      berth.JobKey
	Back      bool // in descending order
}

// JobRows returns the jobs of a range. Finding the first costs the same wherever
// the range begins.
func (s *Snapshot) JobRows(r JobRange) iter.Seq[JobRow] {
	t := &s.jobs
	// With all namespaces the prefix of IDs is not one of keys, and is
	// compared row by row.
	prefix := ""
	if r.Namespace != berth.AllNamespaces {
		prefix = r.Namespace + "\x00" + r.Prefix
	}
	pairs := t.byKey.From(prefix, 0)
	switch from := jobKey(r.From); {
	// No key holds the byte 0xff, so this is after all keys with the prefix.
	case r.Back && (r.From == berth.JobKey{} || from > prefix+"\xff"):
		pairs = t.byKey.BackFrom(prefix+"\xff", 0)
	case r.Back:
		pairs = t.byKey.BackFrom(from, math.MaxUint32)
	case from > prefix:
		pairs = t.byKey.From(from, 0)
	}
	return func(yield func(JobRow) bool) {
		for key, slot := range pairs {
			if !strings.HasPrefix(key, prefix) {
				return
			}
			j := t.vec.Get(slot)
			if strings.HasPrefix(string(j.ID), r.Prefix) && !yield(JobRow{j, t.summaries.Get(slot)}) {
				return
			}
		}
	}
}

// AllocRange returns the allocations of a range in order of ID.
func (s *Snapshot) AllocRange(r Range[berth.Alloc]) iter.Seq[*berth.Alloc] {
	return inOrder(r, &s.allocs.byID, s.allocs.vec.Get, func(a *berth.Alloc) berth.AllocID { return a.ID })
}

// EvalRange returns the evaluations of a range in order of ID.
func (s *Snapshot) EvalRange(r Range[berth.Eval]) iter.Seq[*berth.Eval] {
	return inOrder(r, &s.evals.byID, s.evals.vec.Get, func(e *berth.Eval) berth.EvalID { return e.ID })
}

// DeploymentRange returns the deployments of a range in order of ID.
func (s *Snapshot) DeploymentRange(r Range[berth.Deployment]) iter.Seq[*berth.Deployment] {
	return inOrder(r, &s.deployments.byID, s.deployments.vec.Get, func(d *berth.Deployment) berth.DeploymentID { return d.ID })
}

// NodeRange returns the nodes of a range in order of ID.
func (s *Snapshot) NodeRange(r Range[berth.Node]) iter.Seq[*berth.Node] {
	return inOrder(r, &s.nodes.byID, func(n uint32) *berth.Node { return s.nodes.rows.Get(n) }, func(n *berth.Node) berth.NodeID { return n.ID })
}

// inOrder returns the rows of a range. The index knows the first halves of IDs
// only, so rows that share one are sorted here.
func inOrder[T any](r Range[T], ix *cow.Tree[uint64], get func(uint32) *T, id func(*T) berth.ID[T]) iter.Seq[*T] {
	low, high := berth.ID[T](r.Prefix.Lowest()), berth.ID[T](r.Prefix.Highest())
	switch {
	case r.From.IsZero():
	case r.Back && bytes.Compare(r.From[:], high[:]) < 0:
		high = r.From
	case !r.Back && bytes.Compare(r.From[:], low[:]) > 0:
		low = r.From
	}
	pairs := ix.From(halfOf(low), 0)
	if r.Back {
		pairs = ix.BackFrom(halfOf(high), math.MaxUint32)
	}
	compare := func(a, b *T) int {
		x, y := id(a), id(b)
		if r.Back {
			x, y = y, x
		}
		return bytes.Compare(x[:], y[:])
	}
	within := func(v *T) bool {
		at := id(v)
		return bytes.Compare(at[:], low[:]) >= 0 && bytes.Compare(at[:], high[:]) <= 0
	}
	return func(yield func(*T) bool) {
		var alike []*T // rows whose IDs share the first half
		flush := func() bool {
			if len(alike) > 1 {
				slices.SortFunc(alike, compare)
			}
			for _, v := range alike {
				if within(v) && !yield(v) {
					return false
				}
			}
			alike = alike[:0]
			return true
		}
		var half uint64
		for at, slot := range pairs {
			if at < halfOf(low) || at > halfOf(high) {
				break
			}
			if at != half && !flush() {
				return
			}
			half = at
			alike = append(alike, get(slot))
		}
		flush()
	}
}

// AllocsByTime returns all allocations, oldest first, or newest first if back.
// It begins with the allocation that has the ID if that was created at the
// index; otherwise with the first one created there. Index 0 is the beginning.
func (s *Snapshot) AllocsByTime(index uint64, id berth.AllocID, back bool) iter.Seq[*berth.Alloc] {
	slot, a := s.allocs.find(id)
	return rowsOf(&s.allocs.rows, byTime(&s.allocs.byTime, index, slot, a != nil && a.CreateIndex == index, back))
}

// EvalsByTime is AllocsByTime for evaluations.
func (s *Snapshot) EvalsByTime(index uint64, id berth.EvalID, back bool) iter.Seq[*berth.Eval] {
	slot, e := s.evals.find(id)
	return rowsOf(&s.evals.rows, byTime(&s.evals.byTime, index, slot, e != nil && e.CreateIndex == index, back))
}

// byTime returns the pairs of an index by creation from a row on: from the one
// in the slot if it is known, otherwise from all that were created at the index.
func byTime(ix *cow.Tree[uint64], index uint64, slot uint32, known, back bool) iter.Seq2[uint64, uint32] {
	switch {
	case index == 0 && back:
		return ix.Back()
	case index == 0:
		return ix.All()
	case back && !known:
		return ix.BackFrom(index, math.MaxUint32)
	case back:
		return ix.BackFrom(index, slot)
	case !known:
		slot = 0
	}
	return ix.From(index, slot)
}

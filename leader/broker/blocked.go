package broker

import (
	"maps"
	"slices"

	"berth"
)

// Blocked holds evaluations that wait for room, and says which of them a
// change can help. It is plain data, used by one goroutine at a time.
type Blocked struct {
	evals map[berth.EvalID]*berth.Eval
	// freed is, by class of node, the newest index at which one of its nodes
	// came, changed or got room. An evaluation that was decided on an older
	// state missed that, and does not wait at all.
	freed map[string]uint64
	any   uint64 // the newest of them
}

// NewBlocked returns an empty set.
func NewBlocked() *Blocked {
	return &Blocked{evals: map[berth.EvalID]*berth.Eval{}, freed: map[string]uint64{}}
}

// Add makes an evaluation wait. It returns false, and does not keep it, if what
// it waits for happened since the state that it was decided on.
func (b *Blocked) Add(e *berth.Eval) bool {
	if b.missedSomething(e) {
		delete(b.evals, e.ID)
		return false
	}
	b.evals[e.ID] = e
	return true
}

func (b *Blocked) missedSomething(e *berth.Eval) bool {
	if b.any <= e.SnapshotIndex {
		return false
	}
	for class, index := range b.freed {
		if index > e.SnapshotIndex && helps(e, class) {
			return true
		}
	}
	return false
}

// helps says whether room on a node of the class could help an evaluation:
// unless it saw nodes of that class and none met its conditions.
func helps(e *berth.Eval, class string) bool {
	m := e.Missed
	if m == nil || m.Escaped {
		return true
	}
	ok, seen := m.Classes[class]
	return ok || !seen
}

// Remove forgets an evaluation.
func (b *Blocked) Remove(id berth.EvalID) { delete(b.evals, id) }

// Freed notes that a node of the class came, changed or got room at an index,
// and returns the evaluations that this can help; they wait no longer.
func (b *Blocked) Freed(class string, index uint64) (out []*berth.Eval) {
	b.freed[class] = index
	b.any = max(b.any, index)
	for _, e := range b.evals {
		if helps(e, class) {
			out = append(out, e)
			delete(b.evals, e.ID)
		}
	}
	return out
}

// Len returns how many evaluations wait.
func (b *Blocked) Len() int { return len(b.evals) }

// Classes returns the classes that were ever freed; for tests.
func (b *Blocked) Classes() []string { return slices.Sorted(maps.Keys(b.freed)) }

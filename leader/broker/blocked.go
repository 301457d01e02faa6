package broker

import (
	"time"

	"berth"
	"berth/state"
)

// Blocked holds evaluations that wait for Room, and says which of them a
// change can help. It is plain data, used by one goroutine at a time.
type Blocked struct {
	evals map[berth.EvalID]*berth.Eval
	// freed is, by class of node, the newest index at which one of its nodes
	// got room, for each kind of room. An evaluation that was decided on an
	// older state missed that, and does not wait at all.
	freed map[string]*[roomKinds]uint64
	any   uint64 // the newest of them
	floor uint64 // of classes that are not among them any more
	// due is when those are tried again of which nobody knows what would help:
	// their plans were refused, so there may be room as it is.
	due map[berth.EvalID]time.Time
}

// Room is what a change gives, a bit for each kind.
type Room uint8

const (
	RoomCPU Room = 1 << iota
	RoomMemory
	RoomDisk
	RoomPorts
	RoomNode // a node came or changed: it may meet conditions that none met
	RoomAll  = 1<<roomKinds - 1

	roomKinds = 5
)

// roomOf is what an allocation that ends gives back.
func roomOf(a *berth.Alloc) (r Room) {
	w := state.WantOf(a.Group)
	for _, x := range []struct {
		has  bool
		kind Room
	}{
		{w.Ask.CPU > 0, RoomCPU}, {w.Ask.MemoryMB > 0, RoomMemory}, {w.Ask.DiskMB > 0, RoomDisk}, {len(w.Static) > 0 || len(a.Ports) > 0, RoomPorts},
	} {
		if x.has {
			r |= x.kind
		}
	}
	return r
}

// wanted is the room that an evaluation waits for.
func wanted(m *berth.Missed) Room {
	r := RoomNode
	for _, d := range m.Dimensions {
		switch d {
		case state.DimCPU:
			r |= RoomCPU
		case state.DimMemory:
			r |= RoomMemory
		case state.DimDisk:
			r |= RoomDisk
		default:
			r |= RoomPorts
		}
	}
	return r
}

// classesKept bounds the classes that are remembered: nodes that change make
// new ones.
const classesKept = 4096

// NewBlocked returns an empty set.
func NewBlocked() *Blocked {
	return &Blocked{evals: map[berth.EvalID]*berth.Eval{}, freed: map[string]*[roomKinds]uint64{}, due: map[berth.EvalID]time.Time{}}
}

// Add makes an evaluation wait. It returns false, and does not keep it, if what
// it waits for happened since the state that it was decided on. One of which
// nobody knows what would help is due again at the given time at the latest.
func (b *Blocked) Add(e *berth.Eval, again time.Time) bool {
	b.Remove(e.ID)
	if b.missedSomething(e) {
		return false
	}
	b.evals[e.ID] = e
	if m := e.Missed; m == nil || m.Escaped && len(m.Classes) == 0 {
		b.due[e.ID] = again
	}
	return true
}

func (b *Blocked) missedSomething(e *berth.Eval) bool {
	if b.any <= e.SnapshotIndex {
		return false
	}
	if b.floor > e.SnapshotIndex {
		return true
	}
	for class, at := range b.freed {
		var since Room
		for kind, index := range at {
			if index > e.SnapshotIndex {
				since |= 1 << kind
			}
		}
		if since != 0 && helps(e, class, since) {
			return true
		}
	}
	return false
}

// helps says whether Room on a node of the class could help an evaluation: not
// if it saw nodes of that class and none met its conditions, nor if it is room
// of which there was enough.
func helps(e *berth.Eval, class string, r Room) bool {
	m := e.Missed
	if m == nil || m.Escaped {
		return true
	}
	ok, seen := m.Classes[class]
	return (ok || !seen) && wanted(m)&r != 0
}

// Remove forgets an evaluation.
func (b *Blocked) Remove(id berth.EvalID) {
	delete(b.evals, id)
	delete(b.due, id)
}

// Freed notes that a node of the class got room at an index, and returns the
// evaluations that this can help; they wait no longer.
func (b *Blocked) Freed(class string, r Room, index uint64) (out []*berth.Eval) {
	if len(b.freed) >= classesKept {
		clear(b.freed)
		b.floor = b.any
	}
	at := b.freed[class]
	if at == nil {
		at = new([roomKinds]uint64)
		b.freed[class] = at
	}
	for kind := range at {
		if r&(1<<kind) != 0 {
			at[kind] = max(at[kind], index)
		}
	}
	b.any = max(b.any, index)
	for _, e := range b.evals {
		if helps(e, class, r) {
			out = append(out, e)
			b.Remove(e.ID)
		}
	}
	return out
}

// Due returns the evaluations whose time has come, which wait no longer, and
// when the next one's comes, zero if there is none.
func (b *Blocked) Due(now time.Time) (out []*berth.Eval, again time.Time) {
	for id, at := range b.due {
		switch {
		case !at.After(now):
			out = append(out, b.evals[id])
			b.Remove(id)
		case again.IsZero() || at.Before(again):
			again = at
		}
	}
	return out, again
}

// Len returns how many evaluations wait.
func (b *Blocked) Len() int { return len(b.evals) }

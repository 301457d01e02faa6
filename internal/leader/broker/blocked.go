package broker

import (
	"strings"
	"time"

	"berth"
	"berth/internal/fit"
)

// Blocked holds evaluations that wait for Room, and says which of them a
// change can help. It is plain data, used by one goroutine at a time.
type Blocked struct {
	evals map[berth.EvalID]*berth.Eval // those that any node can help
	freed freed[string]                // by class of node
	// due is when those are tried again of which nobody knows what would help:
	// their plans were refused, so there may be room as it is.
	due map[berth.EvalID]time.Time
	on  onNodes
}

// onNodes are the evaluations that wait for one node each: what a job lacks
// that runs on every node. Room elsewhere is nothing to them. There can be as
// many as nodes, so whatever happens on one looks at its own alone.
type onNodes struct {
	evals  map[berth.EvalID]*berth.Eval
	byNode map[berth.NodeID]map[berth.EvalID]*berth.Eval
	freed  freed[berth.NodeID]
}

// Room is what a change gives, a bit for each kind.
type Room uint8

const (
	RoomCPU Room = 1 << iota
	RoomMemory
	RoomDisk
	RoomPorts
	RoomCores
	RoomDevices
	RoomNode // a node came or changed: it may meet conditions that none met
	RoomPool // an exclusive host pool does not keep a node from others any more
	RoomAll  = 1<<roomKinds - 1

	roomKinds = 8
)

// roomOf is what an allocation that ends gives back.
func roomOf(a *berth.Alloc) (r Room) {
	w := fit.RequestOf(a.Group)
	g := a.Grant()
	for _, x := range []struct {
		has  bool
		kind Room
	}{
		{w.Ask.CPU > 0, RoomCPU}, {w.Ask.MemoryMB > 0, RoomMemory}, {w.Ask.DiskMB > 0, RoomDisk}, {w.HasPorts(), RoomPorts},
		{len(g.Cores) > 0, RoomCores | RoomCPU}, {len(g.Devices) > 0, RoomDevices},
	} {
		if x.has {
			r |= x.kind
		}
	}
	return r
}

// wanted is the room that an evaluation waits for.
func wanted(m *berth.Missed) Room {
	r := RoomNode | RoomPool
	for _, d := range m.Dimensions {
		switch {
		case d == fit.DimCPU:
			r |= RoomCPU
		case d == fit.DimMemory:
			r |= RoomMemory
		case d == fit.DimDisk:
			r |= RoomDisk
		case strings.HasPrefix(d, fit.DimCores):
			r |= RoomCores
		case strings.HasPrefix(d, fit.DimDevices):
			r |= RoomDevices
		default:
			r |= RoomPorts
		}
	}
	return r
}

// NewBlocked returns an empty set.
func NewBlocked() *Blocked {
	return &Blocked{
		evals: map[berth.EvalID]*berth.Eval{}, freed: remember[string](classesKept), due: map[berth.EvalID]time.Time{},
		on: onNodes{
			evals: map[berth.EvalID]*berth.Eval{}, byNode: map[berth.NodeID]map[berth.EvalID]*berth.Eval{},
			freed: remember[berth.NodeID](nodesKept),
		},
	}
}

// Add makes an evaluation wait. It returns false, and does not keep it, if what
// it waits for happened since the state that it was decided on. One of which
// nobody knows what would help is due again at the given time at the latest.
func (b *Blocked) Add(e *berth.Eval, again time.Time) bool {
	b.Remove(e.ID)
	if b.missedSomething(e) {
		return false
	}
	b.Keep(e)
	if m := e.Missed; m == nil || m.Escaped && len(m.Classes) == 0 {
		b.due[e.ID] = again
	}
	return true
}

// Keep makes an evaluation wait, whatever happened since it was decided.
func (b *Blocked) Keep(e *berth.Eval) {
	if e.NodeID.IsZero() {
		b.evals[e.ID] = e
		return
	}
	b.on.evals[e.ID] = e
	if b.on.byNode[e.NodeID] == nil {
		b.on.byNode[e.NodeID] = map[berth.EvalID]*berth.Eval{}
	}
	b.on.byNode[e.NodeID][e.ID] = e
}

func (b *Blocked) missedSomething(e *berth.Eval) bool {
	if !e.NodeID.IsZero() {
		return b.on.missed(e, e.SnapshotIndex)
	}
	if sure, all := b.freed.since(e.SnapshotIndex); sure {
		return all
	}
	for class, at := range b.freed.at {
		if r := at.since(e.SnapshotIndex); r != 0 && helps(e, class, r) {
			return true
		}
	}
	return false
}

// missedSince says whether one that waits for a node missed something there
// since a state.
func (b *Blocked) missedSince(id berth.EvalID, index uint64) bool {
	e := b.on.evals[id]
	return e != nil && b.on.missed(e, index)
}

// missed says whether what an evaluation waits for happened on its node since a
// state.
func (o *onNodes) missed(e *berth.Eval, index uint64) bool {
	if sure, all := o.freed.since(index); sure {
		return all
	}
	r := o.freed.at[e.NodeID].since(index)
	return r != 0 && helpsOn(e, r)
}

// helpsOn says whether room on the node that an evaluation waits for can help.
func helpsOn(e *berth.Eval, r Room) bool {
	return e.Missed == nil || e.Missed.Escaped || wanted(e.Missed)&r != 0
}

// helps says whether Room on a node of the class could help an evaluation: not
// if it saw nodes of that class and none met its conditions, nor if it is room
// of which there was enough.
func helps(e *berth.Eval, class string, r Room) bool {
	if e.Type != berth.TypeStream { // nobody else minds pools
		if r &^= RoomPool; r == 0 {
			return false
		}
	}
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
	if e := b.on.evals[id]; e != nil {
		delete(b.on.evals, id)
		if delete(b.on.byNode[e.NodeID], id); len(b.on.byNode[e.NodeID]) == 0 {
			delete(b.on.byNode, e.NodeID)
		}
	}
}

// Freed notes that a node of the class got room at an index, and returns the
// evaluations that this can help; they wait no longer.
func (b *Blocked) Freed(class string, r Room, index uint64) (out []*berth.Eval) {
	b.freed.note(class, r, index)
	for _, e := range b.evals {
		if helps(e, class, r) {
			out = append(out, e)
			b.Remove(e.ID)
		}
	}
	return out
}

// FreedOn notes that a node got room at an index, and returns the evaluations
// that wait for that node and that this can help; they wait no longer. Without
// it what waits for nodes is not woken, so it is for clusters with jobs that run
// on every node.
func (b *Blocked) FreedOn(node berth.NodeID, r Room, index uint64) (out []*berth.Eval) {
	b.on.freed.note(node, r, index)
	for _, e := range b.on.byNode[node] {
		if helpsOn(e, r) {
			out = append(out, e)
		}
	}
	for _, e := range out {
		b.Remove(e.ID)
	}
	return out
}

// FreedAll notes that there can be room anywhere, and returns all that waits for
// room; nothing does any more.
func (b *Blocked) FreedAll(index uint64) (out []*berth.Eval) {
	b.freed.everywhere(index)
	b.on.freed.everywhere(index)
	for _, list := range []map[berth.EvalID]*berth.Eval{b.evals, b.on.evals} {
		for _, e := range list {
			out = append(out, e)
		}
	}
	for _, e := range out {
		b.Remove(e.ID)
	}
	return out
}

// Due returns the evaluations whose time has come, which wait no longer, and
// when the next one's comes, zero if there is none.
func (b *Blocked) Due(now time.Time) (out []*berth.Eval, again time.Time) {
	for id, at := range b.due {
		switch {
		case !at.After(now):
			e := b.evals[id]
			if e == nil {
				e = b.on.evals[id]
			}
			out = append(out, e)
			b.Remove(id)
		case again.IsZero() || at.Before(again):
			again = at
		}
	}
	return out, again
}

// Len returns how many evaluations wait.
func (b *Blocked) Len() int { return len(b.evals) + len(b.on.evals) }

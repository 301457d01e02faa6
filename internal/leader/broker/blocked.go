package broker

import (
	"iter"
	"time"

	"berth"
	"berth/internal/fit"
	"berth/internal/state"
)

// Blocked holds evaluations that wait for capacity and knows which of them a
// change can help. It is plain data, used by one goroutine at a time.
type Blocked struct {
	evals  map[berth.EvalID]*berth.Eval // evaluations that any node can help
	shapes shapes                       // the same by what would help them
	freed  freed[string]                // by node class
	// due is when to retry evaluations for which it is not known what would
	// help. Their plans were refused, so there may be capacity already.
	due map[berth.EvalID]time.Time
	on  onNodes
	// quotas has those, of all the above, that wait for one.
	quotas quotaWaits
}

// onNodes holds the evaluations that each wait for one node: the missing
// instances of jobs that run on every node. Capacity elsewhere does not help
// them. There can be as many as nodes, so a change on one node looks only at
// that node's evaluations.
type onNodes struct {
	evals  map[berth.EvalID]*berth.Eval
	byNode map[berth.NodeID]map[berth.EvalID]*berth.Eval
	freed  freed[berth.NodeID]
}

// Capacity is the capacity that a change frees, one bit for each kind.
type Capacity uint8

const (
	CapacityCPU Capacity = 1 << iota
	CapacityMemory
	CapacityDisk
	CapacityPorts
	CapacityCores
	CapacityDevices
	CapacityNode // a node came or changed: it may meet constraints that no node met before
	CapacityPool // an exclusive host pool no longer reserves a node
	CapacityAll  = 1<<capacityKinds - 1

	capacityKinds = 8
)

// capacityOf returns the capacity that an allocation frees when it ends.
func capacityOf(a *berth.Alloc) (r Capacity) {
	w := fit.RequestOf(a.Group)
	g := a.Grant()
	if len(a.Group.Volumes) > 0 { // of one that has a single writer, the next may write
		r = CapacityNode
	}
	for _, x := range []struct {
		has  bool
		kind Capacity
	}{
		{w.Ask.CPU > 0, CapacityCPU}, {w.Ask.MemoryMB > 0, CapacityMemory}, {w.Ask.DiskMB > 0, CapacityDisk}, {w.HasPorts(), CapacityPorts},
		{len(g.Cores) > 0, CapacityCores | CapacityCPU}, {len(g.Devices) > 0, CapacityDevices},
	} {
		if x.has {
			r |= x.kind
		}
	}
	return r
}

// lacking returns the kinds of capacity that an evaluation waits for.
func lacking(m *berth.Missed) Capacity {
	r := CapacityNode | CapacityPool
	for _, d := range m.Dimensions {
		switch fit.ParseDimension(d).Kind {
		case fit.CPU:
			r |= CapacityCPU
		case fit.Memory, fit.Allocs: // each allocation that ends frees memory
			r |= CapacityMemory
		case fit.Disk:
			r |= CapacityDisk
		case fit.Cores, fit.NUMACores:
			r |= CapacityCores
		case fit.Devices:
			r |= CapacityDevices
		case fit.DynamicPorts, fit.StaticPort, fit.HostNetwork:
			r |= CapacityPorts
		case fit.UnknownKind: // of a newer build
			r |= CapacityAll
		}
	}
	return r
}

// NewBlocked returns an empty set.
func NewBlocked() *Blocked {
	return &Blocked{
		quotas: newQuotaWaits(),
		evals:  map[berth.EvalID]*berth.Eval{}, shapes: newShapes(), freed: remember[string](classesKept), due: map[berth.EvalID]time.Time{},
		on: onNodes{
			evals: map[berth.EvalID]*berth.Eval{}, byNode: map[berth.NodeID]map[berth.EvalID]*berth.Eval{},
			freed: remember[berth.NodeID](nodesKept),
		},
	}
}

// Add makes an evaluation wait. It returns false and does not keep the
// evaluation if what it waits for has happened since the state it was decided
// on. An evaluation for which it is not known what would help is due at the
// given time at the latest.
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

// Keep makes an evaluation wait, whatever has happened since it was decided.
func (b *Blocked) Keep(e *berth.Eval) {
	b.quotas.add(e)
	if e.NodeID.IsZero() {
		b.evals[e.ID] = e
		if !waitsForQuotaOnly(e) {
			b.shapes.add(e)
		}
		return
	}
	b.on.evals[e.ID] = e
	if b.on.byNode[e.NodeID] == nil {
		b.on.byNode[e.NodeID] = map[berth.EvalID]*berth.Eval{}
	}
	b.on.byNode[e.NodeID][e.ID] = e
}

// missedSomething reports whether capacity that could help e was freed after
// the state that e was decided on. If too much was freed to remember, it
// returns true: one evaluation too many is harmless, one too few never runs.
func (b *Blocked) missedSomething(e *berth.Eval) bool {
	if waitsForQuotaOnly(e) {
		return false // room that returned is offered to it
	}
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

// missedSince reports whether the evaluation waits for a node and something
// that helps it happened there after the given index.
func (b *Blocked) missedSince(id berth.EvalID, index uint64) bool {
	e := b.on.evals[id]
	return e != nil && b.on.missed(e, index)
}

// missed reports whether something that helps an evaluation happened on its
// node after the given index.
func (o *onNodes) missed(e *berth.Eval, index uint64) bool {
	if sure, all := o.freed.since(index); sure {
		return all
	}
	r := o.freed.at[e.NodeID].since(index)
	return r != 0 && helpsOn(e, r)
}

// waitsForQuotaOnly reports whether no node can help an evaluation.
func waitsForQuotaOnly(e *berth.Eval) bool { return e.Missed != nil && e.Missed.QuotaOnly }

// helpsOn reports whether capacity of kinds r on its node can help an evaluation.
func helpsOn(e *berth.Eval, r Capacity) bool {
	return e.Missed == nil || e.Missed.Escaped || !e.Missed.QuotaOnly && lacking(e.Missed)&r != 0
}

// helps reports whether capacity of kinds r on a node of the class can help an
// evaluation. It cannot if the evaluation saw nodes of that class and none was
// feasible, or if there was enough capacity of those kinds already.
func helps(e *berth.Eval, class string, r Capacity) bool {
	return mayUse(e, class, r) && (e.Missed == nil || e.Missed.Escaped || lacking(e.Missed)&r != 0)
}

// mayUse reports whether an evaluation could use capacity on a node of the
// class, if there is enough of it: it has not found the class infeasible.
func mayUse(e *berth.Eval, class string, r Capacity) bool {
	if e.Type != berth.TypeStream { // pools matter only to stream jobs
		if r &^= CapacityPool; r == 0 {
			return false
		}
	}
	m := e.Missed
	if m == nil || m.Escaped {
		return true
	}
	if m.QuotaOnly {
		return false
	}
	ok, seen := m.Classes[class]
	return ok || !seen
}

// Remove forgets an evaluation.
func (b *Blocked) Remove(id berth.EvalID) {
	if e := b.evals[id]; e != nil {
		b.quotas.remove(e)
		delete(b.evals, id)
		b.shapes.remove(id)
	}
	delete(b.due, id)
	if e := b.on.evals[id]; e != nil {
		b.quotas.remove(e)
		delete(b.on.evals, id)
		if delete(b.on.byNode[e.NodeID], id); len(b.on.byNode[e.NodeID]) == 0 {
			delete(b.on.byNode, e.NodeID)
		}
	}
}

// Note records that a node of the class got capacity at an index, for the
// evaluations that were decided before. Those that wait are not woken.
func (b *Blocked) Note(class string, r Capacity, index uint64) { b.freed.note(class, r, index) }

// HelpedOf removes and returns those of some evaluations that wait, and that
// capacity of kinds r on a node of the class can help.
func (b *Blocked) HelpedOf(list iter.Seq[*berth.Eval], class string, r Capacity) (out []*berth.Eval) {
	for x := range list {
		if e := b.evals[x.ID]; e != nil && helps(e, class, r) {
			out = append(out, e)
			b.Remove(e.ID)
		}
	}
	return out
}

// Freed records that a node of the class got capacity at an index. It removes
// and returns all evaluations that this can help. That can be many: capacity
// that only few can use is offered in rounds, see offer.
func (b *Blocked) Freed(class string, r Capacity, index uint64) (out []*berth.Eval) {
	b.freed.note(class, r, index)
	for _, e := range b.evals {
		if helps(e, class, r) {
			out = append(out, e)
			b.Remove(e.ID)
		}
	}
	return out
}

// FreedOn records that a node got capacity at an index. It removes and returns
// the evaluations that wait for that node and that this can help. Nothing else
// wakes evaluations that wait for one node, so it must be called in clusters
// with jobs that run on every node.
func (b *Blocked) FreedOn(node berth.NodeID, r Capacity, index uint64) (out []*berth.Eval) {
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

// FreedAll records that there may be capacity anywhere. It removes and returns
// all evaluations that wait.
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

// FreedVolume records that a CSI volume may be had, wherever its plugin runs. It
// removes and returns the evaluations of jobs with such volumes.
func (b *Blocked) FreedVolume(s *state.Snapshot) (out []*berth.Eval) {
	b.freed.everywhere(s.Index)
	b.on.freed.everywhere(s.Index)
	for _, list := range []map[berth.EvalID]*berth.Eval{b.evals, b.on.evals} {
		for _, e := range list {
			if j := s.Job(e.Key()); j != nil && state.UsesCSI(j) {
				out = append(out, e)
			}
		}
	}
	for _, e := range out {
		b.Remove(e.ID)
	}
	return out
}

// Due removes and returns the evaluations whose time has come. again is when
// the next one is due, zero if there is none.
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

// Len returns the number of evaluations that wait.
func (b *Blocked) Len() int { return len(b.evals) + len(b.on.evals) }

package broker

import (
	"berth"
	"berth/internal/diff"
	"berth/internal/state"
	"maps"
	"time"
)

// freed remembers for each K when it last got capacity of each kind. An
// evaluation that was decided on an older state missed that and does not wait
// at all.
type freed[K comparable] struct {
	at    map[K]*capacityAt
	most  int    // entries in at
	any   uint64 // the newest index ever recorded
	floor uint64 // the newest index that may have been dropped from at
}

// capacityAt holds the newest index at which capacity of each kind came free.
type capacityAt [capacityKinds]uint64

// The number of classes and nodes that are remembered. Nodes that change make
// new classes.
const (
	classesKept = 4096
	nodesKept   = 1 << 16
)

// remember returns a freed that keeps at most most keys.
func remember[K comparable](most int) freed[K] { return freed[K]{at: map[K]*capacityAt{}, most: most} }

// note records that k got capacity at an index.
func (f *freed[K]) note(k K, r Capacity, index uint64) {
	if len(f.at) >= f.most {
		clear(f.at)
		f.floor = f.any
	}
	at := f.at[k]
	if at == nil {
		at = new(capacityAt)
		f.at[k] = at
	}
	for kind := range at {
		if r&(1<<kind) != 0 {
			at[kind] = max(at[kind], index)
		}
	}
	f.any = max(f.any, index)
}

// everywhere records that there may be capacity anywhere.
func (f *freed[K]) everywhere(index uint64) {
	clear(f.at)
	f.any, f.floor = max(f.any, index), max(f.floor, index)
}

// since reports whether capacity came free after an index, if that is sure
// without a look at each entry: either nowhere, or possibly everywhere.
func (f *freed[K]) since(index uint64) (sure, all bool) {
	return f.any <= index || f.floor > index, f.any > index
}

// since returns the kinds of capacity that came free after an index.
func (at *capacityAt) since(index uint64) (r Capacity) {
	if at == nil {
		return 0
	}
	for kind, when := range at {
		if when > index {
			r |= 1 << kind
		}
	}
	return r
}

// freed wakes, or offers to, those that capacity on a node can help. The capacity
// came with a change of the node or of an allocation. b.mu is held.
func (b *Broker) freed(s *state.Snapshot, c *state.Change, n *berth.Node, r Capacity, now time.Time) {
	// Evaluations of jobs that run on every node wait for one node each.
	if s.AnyPerNode() {
		b.addAll(s, b.blocked.FreedOn(n.ID, r, s.Index), now)
	}
	if !n.Ready() { // it cannot be used, but what happened on it may be waited for
		b.addAll(s, b.blocked.Freed(n.Class, r, s.Index), now)
		return
	}
	b.blocked.Note(n.Class, r, s.Index)
	b.offers.make(n, r, s.Index)
	// A job that waited for its own allocation may now preempt others elsewhere,
	// and one whose allocation is on a node that changed may keep it.
	if a, ok := c.Old.(*berth.Alloc); ok {
		b.addAll(s, b.blocked.HelpedOf(s.OpenEvalsOf(a.Key(), berth.EvalBlocked), n.Class, r), now)
	} else if b.blocked.Len() > 0 {
		for a := range s.AllocsOn(n.ID) {
			b.addAll(s, b.blocked.HelpedOf(s.OpenEvalsOf(a.Key(), berth.EvalBlocked), n.Class, r), now)
		}
	}
}

// sameForScheduling reports whether everything that placement looks at is the
// same for both versions of a node: its class, its own attributes, its capacity,
// its ports and its volumes.
func sameForScheduling(a, b *berth.Node) bool {
	return a.Class == b.Class && a.Name == b.Name &&
		maps.Equal(a.Attributes, b.Attributes) && maps.Equal(a.Meta, b.Meta) && maps.Equal(a.HostNetworks, b.HostNetworks) && maps.Equal(a.HostVolumes, b.HostVolumes) &&
		samePlugins(a.CSINodePlugins, b.CSINodePlugins) && samePlugins(a.CSIControllerPlugins, b.CSIControllerPlugins) &&
		(a.NodeResources == b.NodeResources || diff.Equal(*a.NodeResources, *b.NodeResources)) &&
		(a.ReservedResources == b.ReservedResources || diff.Equal(a.ReservedResources, b.ReservedResources))
}

// samePlugins reports whether CSI plugins are as healthy and reach as much as
// before.
func samePlugins(a, b map[string]*berth.CSIInfo) bool {
	return maps.EqualFunc(a, b, func(x, y *berth.CSIInfo) bool {
		return x.Healthy == y.Healthy && (x.NodeInfo == y.NodeInfo || diff.Equal(x.NodeInfo, y.NodeInfo))
	})
}

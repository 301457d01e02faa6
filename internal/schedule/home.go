package schedule

import (
	"slices"

	"berth"
	"berth/internal/schedule/place"
	"berth/internal/schedule/reconcile"
)

// homes exchanges the instances of placements, so that those keep a place at
// home whose predecessor runs there and may be spared. An instance is at home on
// the node of its predecessor and, less so, on nodes that share with it what no
// further instance may take: a value that distinct_property limits.
type homes struct {
	*sparing
	placements []berth.Placement
	stay       map[berth.AllocID]bool
	of         map[name]reconcile.Missing
	on         map[berth.NodeID][]int                           // places in placements
	with       map[place.Apart][]int                            // likewise, of what is full
	full       func(group int, node berth.NodeID) []place.Apart // see Placer.Full
}

// keepHome gives a place on a node to the instance whose predecessor runs there
// and may be spared, rather than to another of its group. So what has no place
// has its predecessors on the nodes that lack room, and sparing them takes room
// from nobody else. Nor does the other stand beside a predecessor that is spared,
// which distinct_hosts and distinct_property may forbid. An instance that had an
// allocation and has none keeps its place, unless the two cannot stand side by
// side. The placements of p are changed in place. What is in stay runs for p, and
// needs no place.
func (s *sparing) keepHome(placements []berth.Placement, p *place.Placer, stay map[berth.AllocID]bool) {
	h := &homes{sparing: s, placements: placements, stay: stay, of: map[name]reconcile.Missing{}}
	placed := map[name]bool{}
	for _, x := range placements {
		if !x.Canary {
			placed[name{x.Group, int(x.Index)}] = true
		}
	}
	var without []reconcile.Missing
	for _, m := range s.missing {
		if m.Canary {
			continue
		}
		n := name{m.Group, int(m.Index)}
		h.of[n] = m
		if s.maySpare(m) && !stay[m.Previous.ID] && !placed[n] {
			without = append(without, m)
		}
	}
	if len(without) == 0 {
		return
	}
	h.find(p)
	// Who loses its place may get one at home instead. This ends, because only
	// those lose a place to whom it is less of a home.
	for i := 0; i < len(without); i++ {
		if o, ok := h.bring(without[i]); ok && s.maySpare(o) {
			without = append(without, o)
		}
	}
}

// find notes where the placements are, but for those of canaries.
func (h *homes) find(p *place.Placer) {
	h.on, h.with, h.full = map[berth.NodeID][]int{}, map[place.Apart][]int{}, p.Full()
	for i, x := range h.placements {
		if x.Canary {
			continue
		}
		h.on[x.NodeID] = append(h.on[x.NodeID], i)
		for _, k := range h.full(x.Group, x.NodeID) {
			h.with[k] = append(h.with[k], i)
		}
	}
}

// bring gives m a place at home, if another instance may lose it. It returns the
// other.
func (h *homes) bring(m reconcile.Missing) (o reconcile.Missing, ok bool) {
	if at := slices.IndexFunc(h.on[m.Previous.NodeID], func(i int) bool { return h.mayLose(i, m, onNode) }); at >= 0 {
		return h.exchange(h.on[m.Previous.NodeID][at], m), true
	}
	for _, k := range h.blocks(m) {
		list := h.with[k]
		for len(list) > 0 && h.home(list[0]) >= sameValue { // nobody else gets it
			list = list[1:]
		}
		h.with[k] = list
		if at := slices.IndexFunc(list, func(i int) bool { return h.mayLose(i, m, sameValue) }); at >= 0 {
			return h.exchange(list[at], m), true
		}
	}
	return o, false
}

// blocks returns what is full and keeps an allocation from staying that m would
// replace.
func (h *homes) blocks(m reconcile.Missing) []place.Apart {
	if h.stay[m.Previous.ID] { // it counts already
		return nil
	}
	return h.full(m.Group, m.Previous.NodeID)
}

// exchange gives a placement to m and returns the instance that had it.
func (h *homes) exchange(i int, m reconcile.Missing) reconcile.Missing {
	x := &h.placements[i]
	o := h.instance(i)
	x.Index, x.Previous, x.Resched = m.Index, m.Previous.ID, m.Failed
	return o
}

// instance returns the instance that has a placement.
func (h *homes) instance(i int) reconcile.Missing {
	x := &h.placements[i]
	return h.of[name{x.Group, int(x.Index)}]
}

// mayLose reports whether the instance that has a placement may lose it to m,
// which is that much at home there.
func (h *homes) mayLose(i int, m reconcile.Missing, near nearness) bool {
	o := h.instance(i)
	return len(h.placements[i].Evict) == 0 && (!owed(o) || len(h.blocks(m)) > 0) && alike(m, o) && h.home(i) < near
}

// nearness is how much an instance is at home on a node.
type nearness uint8

const (
	elsewhere nearness = iota
	sameValue          // its predecessor runs on a node that shares what is full
	onNode             // its predecessor runs there
)

// home returns how much the instance that has a placement is at home there. What
// replaces nothing that may be spared is at home nowhere.
func (h *homes) home(i int) nearness {
	o, node := h.instance(i), h.placements[i].NodeID
	switch {
	case !h.maySpare(o):
		return elsewhere
	case o.Previous.NodeID == node:
		return onNode
	}
	there := h.full(o.Group, node)
	if slices.ContainsFunc(h.blocks(o), func(k place.Apart) bool { return slices.Contains(there, k) }) {
		return sameValue
	}
	return elsewhere
}

package schedule

import (
	"slices"

	"berth"
	"berth/internal/schedule/place"
	"berth/internal/schedule/reconcile"
)

// spare removes from the plan the stops of allocations whose replacement would
// find no place even after everything that leaves has ended: the old version
// running is better than nothing running. Where the end of the old allocation
// frees the capacity, it is stopped and the new one waits. missing holds all
// instances that needed a place; the plan holds those that got one. It reports
// whether any allocation was spared.
func (d *decider) spare(p *place.Placer, missing []reconcile.Missing) bool {
	// Only allocations that stop to be replaced can be spared.
	stops := replaced(d.plan.Stop)
	d.keepHosts(d.plan.Place, missing, stops)
	failed := unplaced(missing, d.plan.Place)
	if len(stops) == 0 || len(failed) == 0 {
		return false
	}
	// Once everything that stops has gone, would the instances find a place?
	p.Vacate()
	later := slices.Clone(d.plan.Place)
	for rest := failed; len(rest) > 0; {
		n := 1
		for n < len(rest) && alike(rest[n], rest[0]) {
			n++
		}
		found := d.placeAlike(p, rest[:n]).Placed
		d.keepHosts(found, rest[:n], stops)
		later = append(later, found...)
		rest = rest[n:]
	}
	// The predecessors of those that would not are spared, unless another would
	// lose its place to them.
	var spared []berth.AllocID
	mayStay := p.MayStay(later)
	for _, m := range unplaced(failed, later) {
		if m.Previous != nil && stops[m.Previous.ID] && m.Previous.Live() && mayStay(m.Previous) {
			spared = append(spared, m.Previous.ID)
		}
	}
	if len(spared) == 0 {
		return false
	}
	d.plan.Stop = slices.DeleteFunc(slices.Clone(d.plan.Stop), func(s berth.AllocStop) bool { return slices.Contains(spared, s.ID) })
	return true
}

// unplaced returns the missing instances without a placement, but for canaries,
// which replace nothing.
func unplaced(missing []reconcile.Missing, placements []berth.Placement) []reconcile.Missing {
	placed := map[[2]int]bool{}
	for _, x := range placements {
		placed[[2]int{x.Group, int(x.Index)}] = true
	}
	return slices.DeleteFunc(slices.Clone(missing), func(m reconcile.Missing) bool {
		return m.Canary || placed[[2]int{m.Group, int(m.Index)}]
	})
}

// replaced returns the allocations that stop to be replaced.
func replaced(stops []berth.AllocStop) map[berth.AllocID]bool {
	out := map[berth.AllocID]bool{}
	for _, s := range stops {
		if s.StopReason == berth.StopReplaced {
			out[s.ID] = true
		}
	}
	return out
}

// keepHosts gives a place on a node to the instance whose predecessor runs there
// and must stop, rather than to another of its group: the other would stand
// beside that predecessor if it is spared, which distinct_hosts forbids. The
// placements are changed in place.
func (d *decider) keepHosts(placements []berth.Placement, missing []reconcile.Missing, stops map[berth.AllocID]bool) {
	if len(stops) == 0 {
		return
	}
	type name struct{ group, index int }
	of, placed, on := map[name]reconcile.Missing{}, map[name]bool{}, map[berth.NodeID][]int{}
	for _, m := range missing {
		of[name{m.Group, int(m.Index)}] = m
	}
	for i, x := range placements {
		placed[name{x.Group, int(x.Index)}] = true
		on[x.NodeID] = append(on[x.NodeID], i)
	}
	home := func(m reconcile.Missing, node berth.NodeID) bool {
		return m.Previous != nil && m.Previous.NodeID == node && stops[m.Previous.ID] && m.Previous.Live()
	}
	for _, m := range missing {
		if placed[name{m.Group, int(m.Index)}] || m.Canary || m.Previous == nil {
			continue
		}
		for _, i := range on[m.Previous.NodeID] {
			x := &placements[i]
			if o := of[name{x.Group, int(x.Index)}]; len(x.Evict) == 0 && home(m, x.NodeID) && !home(o, x.NodeID) && alike(m, o) {
				x.Index, x.Previous, x.Resched = m.Index, m.Previous.ID, m.Failed
				break
			}
		}
	}
}

// stopReplaced stops the spared allocations whose replacements found a place
// after all. stops is the plan's original list of stops, in its order.
func (d *decider) stopReplaced(stops []berth.AllocStop) {
	stays := map[berth.AllocID]bool{}
	for _, s := range stops {
		stays[s.ID] = true
	}
	for _, s := range d.plan.Stop {
		delete(stays, s.ID)
	}
	for _, x := range d.plan.Place {
		delete(stays, x.Previous)
	}
	d.plan.Stop = slices.DeleteFunc(slices.Clone(stops), func(s berth.AllocStop) bool { return stays[s.ID] })
}

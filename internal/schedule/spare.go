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
	stops := map[berth.AllocID]int{}
	for i, s := range d.plan.Stop {
		if s.StopReason == berth.StopReplaced {
			stops[s.ID] = i
		}
	}
	placed := map[[2]int]bool{}
	for _, x := range d.plan.Place {
		placed[[2]int{x.Group, int(x.Index)}] = true
	}
	// What found no place, except canaries, which replace nothing.
	failed := slices.DeleteFunc(slices.Clone(missing), func(m reconcile.Missing) bool {
		return m.Canary || placed[[2]int{m.Group, int(m.Index)}]
	})
	if len(stops) == 0 || len(failed) == 0 {
		return false
	}
	// Once everything that stops has gone, would the instances find a place?
	// The predecessors of those that would not are spared.
	p.Vacate()
	var spared []berth.AllocID
	for len(failed) > 0 {
		n := 1
		for n < len(failed) && alike(failed[n], failed[0]) {
			n++
		}
		out := d.placeAlike(p, failed[:n])
		for _, m := range failed[len(out.Placed):n] {
			if m.Previous == nil {
				continue
			}
			if _, ok := stops[m.Previous.ID]; ok && m.Previous.Live() {
				spared = append(spared, m.Previous.ID)
			}
		}
		failed = failed[n:]
	}
	if len(spared) == 0 {
		return false
	}
	d.plan.Stop = slices.DeleteFunc(slices.Clone(d.plan.Stop), func(s berth.AllocStop) bool { return slices.Contains(spared, s.ID) })
	return true
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

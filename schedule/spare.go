package schedule

import (
	"slices"

	"berth"
	"berth/schedule/place"
	"berth/schedule/reconcile"
)

// spare lets run what the plan would stop for a new version that has no place
// even when all that leaves has ended: better the old version than none. Where
// the end of the old makes the room it is stopped, and the new waits for that.
// missing is all that wanted a place; those that got one are in the plan.
func (d *decider) spare(p *place.Placer, missing []reconcile.Missing) {
	stops := map[berth.AllocID]int{}
	for i, s := range d.plan.Stop {
		if s.Description == berth.StopReplaced {
			stops[s.ID] = i
		}
	}
	placed := map[[2]int]bool{}
	for _, x := range d.plan.Place {
		placed[[2]int{x.Group, int(x.Index)}] = true
	}
	failed := slices.DeleteFunc(slices.Clone(missing), func(m reconcile.Missing) bool {
		return m.Canary || placed[[2]int{m.Group, int(m.Index)}]
	})
	if len(stops) == 0 || len(failed) == 0 {
		return
	}
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
	d.plan.Stop = slices.DeleteFunc(d.plan.Stop, func(s berth.AllocStop) bool { return slices.Contains(spared, s.ID) })
}

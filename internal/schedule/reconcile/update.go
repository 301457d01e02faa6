package reconcile

import (
	"cmp"
	"math"
	"slices"

	"berth"
)

// update replaces allocations of an old version, and failed ones whose name the
// new version needs: all at once, or as many as the deployment allows. The
// least useful ones go first.
func (g *group) update() {
	var olds []*slot
	for i := range g.slots {
		if g.slots[i].old != nil {
			olds = append(olds, &g.slots[i])
		}
	}
	// Without a deployment everything is replaced at once.
	room := math.MaxInt
	switch {
	case len(g.waits) > 0:
		room = 0
	case g.roll.stepwise:
		g.addCanaries()
		room = g.replaceable()
		slices.SortStableFunc(olds, func(a, b *slot) int { return cmp.Compare(usefulness(a.old), usefulness(b.old)) })
	}
	for i, s := range olds {
		if i < room {
			g.replaceOld(s)
		} else {
			s.keep, s.old = s.old, nil
		}
	}
}

// usefulness ranks how much is lost with an allocation.
func usefulness(a *berth.Alloc) int {
	switch {
	case a.Ended():
		return 0
	case a.Client != berth.ClientRunning:
		return 1
	}
	if s := a.Rest().DeploymentStatus; s != nil && s.Healthy != nil && !*s.Healthy {
		return 2
	}
	return 3
}

// replaceable returns how many allocations of the old version can be replaced
// now: at most max_parallel of the new version may be unhealthy at a time.
func (g *group) replaceable() int {
	if g.roll.keepsOld() {
		return 0
	}
	n := g.spec.Update.MaxParallel
	for i := range g.slots {
		switch s := &g.slots[i]; {
		case s.old != nil || s.done:
		case s.keep == nil, s.update, g.member(s.keep) && !g.healthy(s.keep):
			n-- // it is placed or updated now, or is not healthy yet
		}
	}
	return max(0, n)
}

// replaceOld replaces an allocation by one of the newest version.
func (g *group) replaceOld(s *slot) {
	a := s.old
	g.stop(a, s.why, berth.ClientPending)
	g.replace(s, a)
	s.old = nil
	g.counts.Replace++
}

// addCanaries adds the canaries that the deployment lacks. They take the names
// of instances that must be replaced, the lowest first, and then other names.
func (g *group) addCanaries() {
	if g.roll.held || g.roll.canaries == 0 {
		return
	}
	taken := map[uint32]bool{}
	for _, s := range g.canaries {
		if s.keep != nil || s.placeNow {
			taken[s.index] = true
		}
	}
	// Canaries that are gone give their index back.
	g.canaries = slices.DeleteFunc(g.canaries, func(s slot) bool { return s.keep == nil && !s.placeNow })
	for _, old := range []bool{true, false} {
		for i := range g.slots {
			s := &g.slots[i]
			if len(taken) >= g.roll.canaries {
				break
			}
			if taken[s.index] || (s.old != nil) != old {
				continue
			}
			taken[s.index] = true
			g.canaries = append(g.canaries, slot{index: s.index, canary: true, placeNow: true, replacement: Missing{Group: g.index, Index: s.index, Canary: true}})
		}
	}
	slices.SortFunc(g.canaries, func(a, b slot) int { return cmp.Compare(a.index, b.index) })
}

// place adds the names that need a place and counts what happens to the others.
func (g *group) place() {
	for i := range g.slots {
		g.placeSlot(&g.slots[i])
	}
	for i := range g.canaries {
		g.placeSlot(&g.canaries[i])
	}
}

// placeSlot counts what happens to an instance and asks for an allocation if it
// needs one.
func (g *group) placeSlot(s *slot) {
	c := g.counts
	switch {
	case s.update:
		c.Update++
	case s.delayed:
		c.Later++
	case s.keep != nil || s.done:
		c.Ignore++
	case s.placeNow:
		g.addMissing(s.replacement)
	case len(g.waits) > 0: // what it had is replaced at any time, what is new waits
		c.Later++
	case s.canary || g.roll.keepsOld() && (s.last == nil || g.forgotten(s.last)): // a new name waits until the new version may be placed
	case g.roll.keepsOld():
		g.replace(s, s.last) // the current version stays
		g.addMissing(s.replacement)
	default:
		g.addMissing(Missing{Group: g.index, Index: s.index})
	}
}

// forgotten reports whether the version of an allocation that was stopped is not
// current any more: the job did not want the allocation, and nothing of the
// group has an older version than the newest. So the name is like a new one.
func (g *group) forgotten(a *berth.Alloc) bool {
	switch a.Rest().StopReason {
	case berth.StopJobEnded, berth.StopSurplus, berth.StopGroupGone:
	default:
		return false
	}
	return !slices.ContainsFunc(g.allocs, func(a *berth.Alloc) bool {
		return a.Job.Version != g.Job.Version && (a.Wanted() || awaitsReplacement(a))
	})
}

// addMissing asks for an allocation, which the placer is to find a node for.
func (g *group) addMissing(m Missing) {
	g.Missing = append(g.Missing, m)
	g.counts.Place++
	if m.Canary {
		g.counts.Canary++
	}
}

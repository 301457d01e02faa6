package schedule

import (
	"maps"
	"slices"

	"berth"
	"berth/internal/schedule/place"
	"berth/internal/schedule/reconcile"
)

// sparing decides which allocations of a plan need not stop after all: the old
// version running is better than nothing running. An allocation stops to be
// replaced only if its replacement has a place, now or once everything that
// stops has ended. What is spared keeps its capacity, which others may then
// lack, so the search goes on until nothing more is spared, or after mostSpares
// attempts.
//
// An allocation that is in the way of a placement (distinct_hosts,
// distinct_property) stops in any case.
type sparing struct {
	*decider
	missing  []reconcile.Missing    // all instances that need a place
	stops    []berth.AllocStop      // what the plan would stop if nothing were spared
	may      map[berth.AllocID]bool // those of them that stop to be replaced
	stay     map[berth.AllocID]bool // those of them that the plan spares
	attempts int                    // calls of spare
}

// The search for what to spare ends after a few steps also in large jobs; then
// everything is spared that may stay.
const (
	exactRounds = 3 // after that many, all of the job on a node that lacks room is spared
	mostRounds  = 6 // after that many, all that has no place now
	mostSpares  = 4 // after that many attempts to place, likewise
)

// newSparing begins with a plan that spares nothing.
func (d *decider) newSparing(missing []reconcile.Missing) *sparing {
	return &sparing{decider: d, missing: missing, stops: d.plan.Stop}
}

// replaced returns the allocations that stop to be replaced: because their tasks
// changed, or because the newest version may not run on their node. What runs
// goes on where it is until there is a place that meets the conditions.
func replaced(stops []berth.AllocStop) map[berth.AllocID]bool {
	out := map[berth.AllocID]bool{}
	for _, s := range stops {
		if s.StopReason == berth.StopReplaced || s.StopReason == berth.StopUnfit {
			out[s.ID] = true
		}
	}
	return out
}

// owed reports whether an instance had an allocation that is over or already
// stops.
func owed(m reconcile.Missing) bool { return m.Previous != nil && !m.Previous.Live() }

// first returns the instances with those first for which is holds. Otherwise
// their order stays.
func first(missing []reconcile.Missing, is func(reconcile.Missing) bool) []reconcile.Missing {
	rank := func(m reconcile.Missing) int {
		if is(m) {
			return 0
		}
		return 1
	}
	order := func(a, b reconcile.Missing) int { return rank(a) - rank(b) }
	if slices.IsSortedFunc(missing, order) {
		return missing
	}
	return slices.SortedStableFunc(slices.Values(missing), order)
}

// spare removes from the plan the stops of what is spared. The plan holds what
// p placed now, with what was spared before in its place. It reports whether
// more is spared.
func (s *sparing) spare(p *place.Placer) bool {
	if s.attempts++; s.attempts == 1 { // most find all places at once
		if s.end.Failed == nil {
			return false
		}
		s.may = replaced(s.stops)
	}
	if len(s.may) == 0 {
		return false
	}
	s.keepHome(s.plan.Place, p, s.stay)
	// What was spared and has a replacement after all is stopped.
	stay := map[berth.AllocID]bool{}
	maps.Copy(stay, s.stay)
	for _, x := range s.plan.Place {
		delete(stay, x.Previous)
	}
	if s.end.Failed != nil && s.attempts <= mostSpares {
		s.stayWithoutPlace(p, stay)
	}
	more := slices.ContainsFunc(s.stops, func(x berth.AllocStop) bool { return stay[x.ID] && !s.stay[x.ID] })
	s.stay, s.plan.Stop = stay, s.stopsBut(stay)
	return more
}

// stopsBut returns the plan's stops without those of what stays.
func (s *sparing) stopsBut(stay map[berth.AllocID]bool) []berth.AllocStop {
	return slices.DeleteFunc(slices.Clone(s.stops), func(x berth.AllocStop) bool { return stay[x.ID] })
}

// stayWithoutPlace adds to stay the allocations that may stay and have a
// replacement without a place, now and later.
func (s *sparing) stayWithoutPlace(p *place.Placer, stay map[berth.AllocID]bool) {
	for round := 0; ; round++ {
		waits := s.waits(s.plan.Place, stay)
		if !slices.ContainsFunc(waits, s.maySpare) {
			return
		}
		if round == mostRounds || s.attempts == mostSpares {
			s.keep(waits, p.MayStay(s.plan.Place), stay)
			return
		}
		known := len(stay)
		s.stayWithoutPlaceLater(p, waits, stay, round >= exactRounds)
		if len(stay) == known {
			return
		}
	}
}

// waits returns the instances that have no place and whose predecessor does not
// stay. What has stopped, or will have, comes before what is new: see
// decider.place.
func (s *sparing) waits(placements []berth.Placement, stay map[berth.AllocID]bool) []reconcile.Missing {
	out := first(unplaced(s.missing, placements), func(m reconcile.Missing) bool { return m.Previous != nil })
	return slices.DeleteFunc(out, func(m reconcile.Missing) bool { return m.Previous != nil && stay[m.Previous.ID] })
}

// stayWithoutPlaceLater adds to stay the allocations that may stay and have a
// replacement without a place when everything else that stops has ended. waits
// holds what has no place now. With wholeNodes, the other instances that run on
// the same nodes stay as well.
func (s *sparing) stayWithoutPlaceLater(p *place.Placer, waits []reconcile.Missing, stay map[berth.AllocID]bool, wholeNodes bool) {
	q := p.Later(s.stopsBut(stay))
	defer q.Close()
	later := slices.Clone(s.plan.Place)
	for rest := waits; len(rest) > 0; {
		n := 1
		for n < len(rest) && alike(rest[n], rest[0]) {
			n++
		}
		later = append(later, s.placeAlike(q, rest[:n]).Placed...)
		rest = rest[n:]
	}
	s.keepHome(later, q, stay)
	copy(s.plan.Place, later) // what is placed now may have changed hands
	without := s.waits(later, stay)
	if wholeNodes {
		short := map[berth.NodeID]bool{}
		for _, m := range without {
			if s.maySpare(m) {
				short[m.Previous.NodeID] = true
			}
		}
		without = slices.DeleteFunc(s.waits(s.plan.Place, stay), func(m reconcile.Missing) bool { return m.Previous == nil || !short[m.Previous.NodeID] })
	}
	s.keep(without, q.MayStay(later), stay)
}

// maySpare reports whether an instance replaces an allocation that stops only
// for that, and runs.
func (s *sparing) maySpare(m reconcile.Missing) bool {
	return m.Previous != nil && s.may[m.Previous.ID] && m.Previous.Live()
}

// keep adds to stay what the instances replace, where that is possible.
func (s *sparing) keep(list []reconcile.Missing, mayStay func(*berth.Alloc) bool, stay map[berth.AllocID]bool) {
	for _, m := range list {
		if s.maySpare(m) && mayStay(m.Previous) {
			stay[m.Previous.ID] = true
		}
	}
}

// name is the name of an instance, within its job.
type name struct{ group, index int }

// unplaced returns the missing instances without a placement, but for canaries,
// which replace nothing.
func unplaced(missing []reconcile.Missing, placements []berth.Placement) []reconcile.Missing {
	placed := map[name]bool{}
	for _, x := range placements {
		if !x.Canary {
			placed[name{x.Group, int(x.Index)}] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(missing), func(m reconcile.Missing) bool {
		return m.Canary || placed[name{m.Group, int(m.Index)}]
	})
}

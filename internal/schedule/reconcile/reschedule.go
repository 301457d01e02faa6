package reconcile

import (
	"time"

	"berth/internal/state"

	"berth"
)

// handleFailed handles an allocation that failed for good on its node. The
// reschedule policy decides whether it is replaced now, later or never. If an
// operator or a deployment asked for a replacement, it is replaced whatever the
// policy says.
func (g *group) handleFailed(s *slot, a *berth.Alloc) {
	if g.outdated(a) && !g.keepsVersion(a) {
		s.old, s.why = a, berth.StopReplaced // the new version may work, so the policy does not apply
		return
	}
	if m := a.Rest(); m.ForceReschedule || m.Reschedule {
		g.reschedule(s, a)
		return
	}
	due, ok := g.rescheduleAt(a)
	switch {
	case !ok && g.retriesInDeployment(s, a):
		s.old, s.why = a, berth.StopFailed
	case !ok: // no replacement: the failed one keeps the name
		s.keep = a
	case !due.After(g.Now) || g.waitedFor(a):
		g.reschedule(s, a)
	default:
		s.keep, s.delayed = a, true
		g.followUp(a, due, berth.TriggerAllocFailure)
	}
}

// retriesInDeployment reports whether an allocation that failed for good is
// tried again by the deployment of a later version, which could not succeed
// without its name. It is replaced in its turn, like allocations of an older
// version.
func (g *group) retriesInDeployment(s *slot, a *berth.Alloc) bool {
	return g.roll.stepwise && !g.roll.broken && !s.canary && a.Job.Version != g.Job.Version && !g.member(a)
}

// reschedule replaces a failed allocation.
func (g *group) reschedule(s *slot, a *berth.Alloc) {
	g.stop(a, berth.StopFailed, berth.ClientPending)
	g.replace(s, a)
	s.replacement.Failed = true
	g.owes(a.Index)
	g.owed[a.Index]++
}

// owes returns how many replacements of failed allocations an index has that are
// not recorded as attempts yet: those of this decision, and those that have found
// no place. A canary and the instance that it is to replace have one index.
func (g *group) owes(index uint32) int {
	if g.owed == nil {
		g.owed = map[uint32]int{}
		for _, a := range g.allocs {
			if a.Rest().StopReason == berth.StopFailed && awaitsReplacement(a) {
				g.owed[a.Index]++
			}
		}
	}
	return g.owed[index]
}

// followUp schedules another look at an allocation, unless an evaluation is
// already waiting to take it.
func (r *reconciler) followUp(a *berth.Alloc, at time.Time, trigger string) {
	if f := a.Rest().FollowupEval; f.IsZero() || !r.Waiting(f) {
		r.Followups = append(r.Followups, Followup{at, trigger, []berth.AllocID{a.ID}})
	}
}

// rescheduleAt returns when a failed allocation is replaced; not ok if never.
func (g *group) rescheduleAt(a *berth.Alloc) (at time.Time, ok bool) {
	p := g.spec.ReschedulePolicy
	if !p.Enabled() || g.roll.failedWith(a) {
		return at, false
	}
	streak, events := g.Replaced(g.spec.Name, a.Index)
	ran, ended := state.Ran(a)
	if ended.After(g.Now) { // by the clock of the node, or by one that was put back since
		ended = g.Now
	}
	if !p.Unlimited {
		// Count from the time of the failure. Otherwise an allocation that was
		// given up would be due again later, without an event to trigger an
		// evaluation. A replacement can lie ahead if the clock was put back since;
		// one that lies far ahead must not count until the clock has caught up.
		recent := g.owes(a.Index)
		for _, e := range events {
			if ended.Sub(time.Unix(0, e.RescheduleTime)).Abs() < p.Interval {
				recent++
			}
		}
		if recent >= p.Attempts {
			return at, false
		}
	}
	return ended.Add(p.Wait(p.Streak(streak, ran))), true
}

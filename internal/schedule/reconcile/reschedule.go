package reconcile

import (
	"time"

	"berth/internal/state"

	"berth"
)

// handleFailed handles an allocation that failed for good on its node: it is
// replaced now, or later, or stays as it is, as the policy has it. One that an
// operator or a deployment wants placed anew is, whatever the policy says.
func (g *group) handleFailed(s *slot, a *berth.Alloc) {
	if g.outdated(a) && !g.keepsVersion(a) {
		s.old, s.why = a, berth.StopReplaced // it may do better, so no policy counts
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
	case !due.After(g.Now) || a.Rest().FollowupEval == g.Eval && !g.Eval.IsZero():
		g.reschedule(s, a)
	default:
		s.keep, s.delayed = a, true
		g.followUp(a, due, berth.TriggerAllocFailure)
	}
}

// retriesInDeployment says whether an allocation that failed for good gets another try:
// in the deployment of a version that came after it, which could not succeed
// without its name. It goes in its turn, like what is of an older version.
func (g *group) retriesInDeployment(s *slot, a *berth.Alloc) bool {
	return g.roll.stepwise && !g.roll.broken && !s.canary && a.Job.Version != g.Job.Version && !g.member(a)
}

// reschedule replaces a failed allocation.
func (g *group) reschedule(s *slot, a *berth.Alloc) {
	g.stop(a, berth.StopFailed, berth.ClientPending)
	g.replace(s, a)
	s.replacement.Failed = true
}

// followUp lets an evaluation look at an allocation again, unless one waits that
// will.
func (r *reconciler) followUp(a *berth.Alloc, at time.Time, trigger string) {
	if f := a.Rest().FollowupEval; f.IsZero() || !r.Waiting(f) {
		r.Followups = append(r.Followups, Followup{at, trigger, []berth.AllocID{a.ID}})
	}
}

// rescheduleAt returns when a failed allocation is to be replaced; not ok is never.
func (g *group) rescheduleAt(a *berth.Alloc) (at time.Time, ok bool) {
	p := g.spec.ReschedulePolicy
	if !p.Enabled() || g.roll.failedWith(a) {
		return at, false
	}
	streak, events := g.Replaced(g.spec.Name, a.Index)
	ran, ended := state.Ran(a)
	if !p.Unlimited {
		// Counted when it failed: else what was given up would be wanted again
		// later, without anything happening, and nothing would look.
		recent := 0
		for _, e := range events {
			if ended.Sub(time.Unix(0, e.RescheduleTime)) < p.Interval {
				recent++
			}
		}
		if recent >= p.Attempts {
			return at, false
		}
	}
	return ended.Add(p.Wait(p.Streak(streak, ran))), true
}

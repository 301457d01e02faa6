package reconcile

import (
	"time"

	"berth/internal/state"

	"berth"
)

// An allocation whose agent cannot be heard is lost, or unknown: taken to run,
// and waited for, for as long as its group's disconnect block says. What never
// started is not waited for: there is nothing to come back to. While it is
// unknown, another can stand in for it under the same name; when it is heard
// again, one of the two is stopped.

// lost says whether an allocation is to be given up with its node: that is
// gone or down, or is not heard and the allocation is not, or no longer, waited
// for.
func (r *reconciler) lost(a *berth.Alloc) bool {
	n := r.Node(a.NodeID)
	switch {
	case n == nil || n.Status == berth.NodeDown:
		return true
	case n.Status != berth.NodeDisconnected:
		return false // if it is unknown still, its agent is about to say how it fares
	case a.Client == berth.ClientUnknown:
		at, ever := lostAt(a, r.Now)
		return ever && !at.After(r.Now)
	}
	lostAfter, _, _ := a.Group.Away()
	return lostAfter <= 0 || a.Client == berth.ClientPending
}

// disconnected says whether an allocation that should run is waited for.
func (r *reconciler) disconnected(a *berth.Alloc) bool {
	if !a.Live() || r.lost(a) {
		return false
	}
	if a.Client == berth.ClientUnknown { // its node may be back, but nobody said yet how it fares
		return true
	}
	n := r.Node(a.NodeID)
	return n != nil && n.Status == berth.NodeDisconnected
}

// lostReason says why an allocation is lost.
func (r *reconciler) lostReason(a *berth.Alloc) string {
	if n := r.Node(a.NodeID); n != nil && n.Status != berth.NodeDown {
		return berth.StopAway
	}
	return berth.StopNodeLost
}

// forever is how long nobody waits: beyond it times cannot be written.
const forever = 100 * 365 * 24 * time.Hour

// lostAt returns when an allocation that is not heard is lost, not ever if it
// is waited for without end. The wait begins when it becomes unknown: now, if
// it is not yet.
func lostAt(a *berth.Alloc, now time.Time) (at time.Time, ever bool) {
	lostAfter, _, _ := a.Group.Away()
	since := now
	if u := a.Rest().UnknownSince; u != 0 && a.Client == berth.ClientUnknown {
		since = time.Unix(0, u)
	}
	return since.Add(min(lostAfter, forever)), lostAfter < forever
}

// waitDisconnected lets an allocation be unknown, and be given up at its time.
func (g *group) waitDisconnected(a *berth.Alloc) {
	if a.Client != berth.ClientUnknown {
		g.Stop = append(g.Stop, berth.AllocStop{ID: a.ID, Description: berth.UnknownAway, Client: berth.ClientUnknown})
	}
	// A time that is over means that its node is heard again, and its agent
	// about to report: that is looked at as it comes.
	if at, ever := lostAt(a, g.Now); ever && at.After(g.Now) {
		g.followUp(a, at, berth.TriggerMaxDisconnectTimeout)
	}
}

// standIn waits for an allocation that is not heard, and places one that runs in place of an allocation that is not heard, if
// the group wants that: it bears the same name, and is no reschedule of what
// did not fail. When its node is heard again, its agent is about to say how the
// allocation fares, and that is waited for.
func (g *group) standIn(s *slot, a *berth.Alloc) {
	g.waitDisconnected(a)
	n := g.Node(a.NodeID)
	if _, replace, _ := a.Group.Away(); !replace || n != nil && n.Status != berth.NodeDisconnected {
		s.keep = a
		return
	}
	g.replace(s, a)
}

// standInPair says whether one of two allocations of a name came to stand in for
// the other.
func (g *group) standInPair(a, b *berth.Alloc) bool {
	return !a.Rest().Next.IsZero() || !b.Rest().Next.IsZero()
}

// pickHolder returns which of several allocations that run under one name keeps it.
// Those of the newest version win over those of others. Among what came back
// and what stood in for it, the disconnect block says; where nothing came back,
// the oldest stays.
func (g *group) pickHolder(here []*berth.Alloc) *berth.Alloc {
	best := here[0]
	for _, a := range here[1:] {
		if g.prefers(a, best) {
			best = a
		}
	}
	return best
}

// prefers says whether the younger of two allocations keeps the name that both
// have.
func (g *group) prefers(young, old *berth.Alloc) bool {
	if y, o := g.differs(young, g.spec), g.differs(old, g.spec); y != o {
		return o
	}
	if old.Rest().Next.IsZero() { // it did not come back: who was first stays
		return false
	}
	_, _, keep := g.spec.Away()
	switch keep {
	case berth.KeepOriginal:
		return false
	case berth.KeepReplacement:
		return true
	case berth.KeepLongestRunning:
		y, o := runningSince(young), runningSince(old)
		return !y.IsZero() && (o.IsZero() || y.Before(o))
	default:
		return young.Score > old.Score
	}
}

// runningSince returns since when all of an allocation's tasks that run have run,
// the zero time if none does.
func runningSince(a *berth.Alloc) (since time.Time) {
	for _, s := range state.TaskStates(a) {
		if s.State != berth.TaskRunning {
			continue
		}
		for _, at := range []time.Time{s.StartedAt, s.LastRestart} {
			if at.After(since) {
				since = at
			}
		}
	}
	return since
}

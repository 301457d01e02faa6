package reconcile

import (
	"time"

	"berth/internal/state"

	"berth"
)

// An allocation on a disconnected node is lost or unknown. Unknown means that
// it is assumed to run and is waited for as long as its group's disconnect
// block says. One that never started is not waited for. While an allocation is
// unknown, another can stand in for it under the same name; when its node is
// back, one of the two is stopped.

// lost reports whether an allocation is given up with its node: the node is
// gone or down, or it is disconnected and the allocation is not, or no longer,
// waited for. One that stops by itself, because its agent reaches no server, is
// not lost before it has certainly stopped: package fence has the job evaluated
// then.
func (r *reconciler) lost(a *berth.Alloc) bool {
	n := r.Node(a.NodeID)
	switch {
	case r.Job != nil && state.FencedUntil(a, n).After(r.Now):
		return false
	case n == nil || n.Status == berth.NodeDown:
		return true
	case n.Status != berth.NodeDisconnected:
		return false // if it is still unknown, its agent is about to report its state
	case a.Client == berth.ClientUnknown:
		at, ever := lostAt(a, r.Now)
		return ever && (!at.After(r.Now) || r.waitedFor(a) && time.Unix(0, a.Rest().UnknownSince).After(r.Now))
	}
	lostAfter, _, _ := a.Group.Away()
	return lostAfter <= 0 || a.Client == berth.ClientPending
}

// disconnected reports whether an allocation that should run is waited for.
func (r *reconciler) disconnected(a *berth.Alloc) bool {
	if !a.Live() || r.lost(a) || state.FencedUntil(a, r.Node(a.NodeID)).After(r.Now) {
		return false
	}
	if a.Client == berth.ClientUnknown { // its node may be back, but its state was not reported yet
		return true
	}
	n := r.Node(a.NodeID)
	return n != nil && n.Status == berth.NodeDisconnected
}

// lostReason returns why an allocation is lost.
func (r *reconciler) lostReason(a *berth.Alloc) berth.StopReason {
	if n := r.Node(a.NodeID); n != nil && n.Status != berth.NodeDown {
		return berth.StopAway
	}
	return berth.StopNodeLost
}

// forever is the limit beyond which a wait has no end: later times cannot be
// represented.
const forever = 100 * 365 * 24 * time.Hour

// lostAt returns when a disconnected allocation is lost; not ever if it is
// waited for without end. The wait begins when it becomes unknown, which is now
// if it is not unknown yet.
func lostAt(a *berth.Alloc, now time.Time) (at time.Time, ever bool) {
	lostAfter, _, _ := a.Group.Away()
	since := now
	if u := a.Rest().UnknownSince; u != 0 && a.Client == berth.ClientUnknown {
		if t := time.Unix(0, u); t.Before(now) { // not if the clock was put back since
			since = t
		}
	}
	return since.Add(min(lostAfter, forever)), lostAfter < forever
}

// waitedFor reports whether this evaluation is the one that was created to look
// at an allocation at a time. Then that time has come, also if the clock was put
// back meanwhile.
func (r *reconciler) waitedFor(a *berth.Alloc) bool {
	f := a.Rest().FollowupEval
	return !f.IsZero() && f == r.Eval
}

// waitDisconnected marks an allocation unknown and schedules the time at which
// it is given up.
func (g *group) waitDisconnected(a *berth.Alloc) {
	if a.Client != berth.ClientUnknown {
		g.Stop = append(g.Stop, berth.AllocStop{ID: a.ID, StopReason: berth.UnknownAway, Client: berth.ClientUnknown})
	}
	// A time in the past means that its node is back and its agent is about to
	// report; the report triggers its own evaluation.
	if at, ever := lostAt(a, g.Now); ever && at.After(g.Now) {
		g.followUp(a, at, berth.TriggerMaxDisconnectTimeout)
	}
}

// standIn waits for a disconnected allocation and, if the group's disconnect
// block says so, places a stand-in with the same name. That is no reschedule,
// because nothing failed. When the node is back, its agent is about to report,
// so no stand-in is placed.
func (g *group) standIn(s *slot, a *berth.Alloc) {
	g.waitDisconnected(a)
	n := g.Node(a.NodeID)
	if _, replace, _ := a.Group.Away(); !replace || n != nil && n.Status != berth.NodeDisconnected {
		s.keep = a
		return
	}
	g.replace(s, a)
}

// standInPair reports whether one of two allocations of a name was placed to
// stand in for the other.
func (g *group) standInPair(a, b *berth.Alloc) bool {
	return !a.Rest().Next.IsZero() || !b.Rest().Next.IsZero()
}

// pickHolder returns which of several running allocations keeps their name. The
// newest version wins. Between an allocation that came back and its stand-in,
// the disconnect block decides. Otherwise the oldest stays.
func (g *group) pickHolder(here []*berth.Alloc) *berth.Alloc {
	best := here[0]
	for _, a := range here[1:] {
		if g.prefers(a, best) {
			best = a
		}
	}
	return best
}

// prefers reports whether the younger of two allocations keeps their name.
func (g *group) prefers(young, old *berth.Alloc) bool {
	if y, o := g.differs(young, g.spec), g.differs(old, g.spec); y != o {
		return o
	}
	if old.Rest().Next.IsZero() { // it did not come back: the first stays
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

// runningSince returns the time since which all running tasks of an allocation
// have run without a restart; the zero time if none runs.
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

package broker

import (
	"berth"
	"berth/internal/state"
)

// Evaluations wait because not even eviction made room. That can change without
// any room coming free: what may be evicted changes, and so does what a job
// waits for rather than evict, or what it may leave where it is. All are looked at
// here.

// evictsMore says whether a configuration lets jobs evict others that could not
// before; old is nil if there was none.
func evictsMore(old, now *berth.SchedulerConfig) bool {
	if old == nil {
		old = &berth.DefaultSchedulerConfig
	}
	a, b := old.PreemptionConfig, now.PreemptionConfig
	return !a.ServiceSchedulerEnabled && b.ServiceSchedulerEnabled || !a.BatchSchedulerEnabled && b.BatchSchedulerEnabled ||
		!a.SystemSchedulerEnabled && b.SystemSchedulerEnabled || !a.SysBatchSchedulerEnabled && b.SysBatchSchedulerEnabled
}

// roomMade is what room a change of an allocation gives that occupied some: its
// own, if it ended or may be evicted by more jobs now; with its own that of the
// one that evicted it, which can be evicted itself from then on. a is nil if it
// is gone.
func roomMade(s *state.Snapshot, old, a *berth.Alloc) (r Room) {
	switch {
	case a == nil || !a.Occupies():
		r = roomOf(old)
		if old.More != nil && !old.More.EvictedBy.IsZero() {
			if by := s.Alloc(old.More.EvictedBy); by != nil && by.Live() {
				r |= roomOf(by)
			}
		}
	case a.Job != old.Job && a.Job.Priority < old.Job.Priority && a.Live():
		r = roomOf(a)
	}
	return r
}

// awaitedInVain says whether jobs wait for what they give up on a node rather
// than evict others, and the node takes nothing new any more. One that is not
// heard raises evaluations of its own, but of what is left of a job that was
// purged that is not one of the job that has its name now.
func awaitedInVain(s *state.Snapshot, old, n *berth.Node) bool {
	if !old.Ready() || n.Ready() || s.SchedulerConfig().PreemptionConfig == (berth.PreemptionConfig{}) {
		return false
	}
	for a := range s.AllocsOn(n.ID) {
		if a.Occupies() && !a.Wanted() {
			return true
		}
	}
	return false
}

// staysUpdated says whether a node that takes nothing new changed, and something
// there is of an older version of its job: it may stay where it is in the newest
// one now, which it could not while the node did not meet the conditions of that.
// What waits for room waits to go on with the version, too.
func staysUpdated(s *state.Snapshot, old, n *berth.Node) bool {
	if n.Ready() || sameForScheduling(old, n) {
		return false
	}
	for a := range s.AllocsOn(n.ID) {
		if j := s.Job(a.Key()); a.Live() && j != nil && j.UID == a.Job.UID && j.Version != a.Job.Version {
			return true
		}
	}
	return false
}

// waitsInVain is awaitedInVain for an evaluation that came to wait after the node
// ceased to take anything, and was decided before that.
func waitsInVain(s *state.Snapshot, e *berth.Eval) bool {
	if !e.NodeID.IsZero() || s.SchedulerConfig().PreemptionConfig == (berth.PreemptionConfig{}) {
		return false
	}
	for a := range s.AllocsOf(e.Key()) {
		if a.Wanted() || !a.Occupies() && a.ModifyIndex <= e.SnapshotIndex {
			continue
		}
		if n := s.Node(a.NodeID); n == nil || !n.Ready() && n.ModifyIndex > e.SnapshotIndex {
			return true
		}
	}
	return false
}

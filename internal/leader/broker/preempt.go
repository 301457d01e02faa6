package broker

import (
	"berth"
	"berth/internal/state"
)

// Evaluations wait because not even preemption made enough capacity. That can
// change without any capacity coming free: when the allocations that may be
// preempted change, or what a job waits for instead of preempting, or what it
// may leave where it is. This file covers all three.

// preemptsMore reports whether a configuration lets jobs preempt others that
// could not before. old is nil if there was none.
func preemptsMore(old, now *berth.SchedulerConfig) bool {
	if old == nil {
		old = &berth.DefaultSchedulerConfig
	}
	a, b := old.PreemptionConfig, now.PreemptionConfig
	return !a.ServiceSchedulerEnabled && b.ServiceSchedulerEnabled || !a.BatchSchedulerEnabled && b.BatchSchedulerEnabled ||
		!a.SystemSchedulerEnabled && b.SystemSchedulerEnabled || !a.SysBatchSchedulerEnabled && b.SysBatchSchedulerEnabled
}

// capacityFreed returns the capacity that a change frees on an allocation that
// occupied some. It is the allocation's own if it ended or if more jobs may
// preempt it now. If it was preempted, that of its preemptor is added, which
// can itself be preempted from then on. a is nil if the allocation was deleted.
func capacityFreed(s *state.Snapshot, old, a *berth.Alloc) (r Capacity) {
	switch {
	case a == nil || !a.Occupies():
		r = capacityOf(old)
		if old.More != nil && !old.More.EvictedBy.IsZero() {
			if by := s.Alloc(old.More.EvictedBy); by != nil && by.Live() {
				r |= capacityOf(by)
			}
		}
	case a.Job != old.Job && a.Job.Priority < old.Job.Priority && a.Live():
		r = capacityOf(a)
	}
	return r
}

// awaitedInVain reports whether jobs wait for allocations to stop on a node,
// instead of preempting others, while the node has stopped taking new ones. A
// disconnected node raises evaluations of its own, but not for what is left of
// a purged job whose name another job has taken.
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

// staysUpdated reports whether a node that takes nothing new has changed and
// holds an allocation of an older job version. That allocation may now be
// updated in place, which it could not while the node did not meet the
// constraints of the newest version. Evaluations that wait for capacity wait
// for this, too.
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

// waitsInVain is awaitedInVain for an evaluation that became blocked after the
// node stopped taking allocations, and was decided before that.
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

package invariant

import (
	"slices"

	"berth"
	"berth/internal/state"
)

// preemptions checks I-13: a preempted allocation names its preemptor, which
// lists it in turn and is on the same node.
func (c *checker) preemptions() {
	for a := range c.Allocs() {
		m := a.Rest()
		if m.EvictedBy.IsZero() == (a.Desired == berth.DesiredEvict) {
			c.addf("I-13", "allocation %s has the desired status %s but the preemptor %q", a.ID, a.Desired, m.EvictedBy)
		}
		by := c.Alloc(m.EvictedBy)
		switch {
		case by == nil: // it was not preempted, or its preemptor was collected
		case by.NodeID != a.NodeID:
			c.addf("I-13", "allocation %s was preempted by %s on another node", a.ID, by.ID)
		case !slices.Contains(by.Rest().Evicted, a.ID):
			c.addf("I-13", "allocation %s was preempted by %s, which does not list it", a.ID, by.ID)
		}
	}
}

// preempted is a job that lost an allocation to preemption by the command at an
// index.
type preempted struct {
	key   berth.JobKey
	index uint64
}

// preempts checks I-13: a new allocation preempts only less urgent ones. It
// records the jobs that need an evaluation for that.
func (f *follower) preempts(a *berth.Alloc) {
	for _, id := range a.Rest().Evicted {
		v := f.alloc(id)
		if v == nil || v.Desired != berth.DesiredEvict || v.Job.Priority > a.Job.Priority-state.PriorityGap {
			f.addf("I-13", "allocation %s of priority %d must not preempt %s", a.ID, a.Job.Priority, id)
			continue
		}
		if j := f.job(v.Key()); j != nil && !j.Stop {
			f.preempted[preempted{v.Key(), a.CreateIndex}] = true
		}
	}
}

// heldOnce returns the capacity that both allocations of a node and those that
// they preempted hold. It counts once, and the preempted ones hold it until
// they have ended.
func (c *checker) heldOnce(n *berth.Node) (sum berth.Ask) {
	for a := range c.AllocsOn(n.ID) {
		if !a.Occupies() || len(a.Rest().Evicted) == 0 {
			continue
		}
		var theirs berth.Ask
		for _, id := range a.Rest().Evicted {
			if v := c.Alloc(id); v != nil && v.Occupies() {
				theirs = theirs.Add(takes(n, v))
			}
		}
		its := takes(n, a)
		sum = sum.Add(berth.Ask{
			CPU: min(its.CPU, theirs.CPU), MemoryMB: min(its.MemoryMB, theirs.MemoryMB), DiskMB: min(its.DiskMB, theirs.DiskMB),
		})
	}
	return sum
}

// handsOver reports whether one of two allocations was preempted by the other,
// which gets what it holds.
func (c *checker) handsOver(a, b berth.AllocID) bool {
	x, y := c.Alloc(a), c.Alloc(b)
	return x != nil && y != nil && (x.Rest().EvictedBy == b || y.Rest().EvictedBy == a)
}

package invariant

import (
	"slices"

	"berth"
	"berth/internal/state"
)

// evictions checks of I-13 that what was evicted names what evicted it, which
// names it in turn and stands on its node.
func (c *checker) evictions() {
	for a := range c.Allocs() {
		m := a.Rest()
		if m.EvictedBy.IsZero() == (a.Desired == berth.DesiredEvict) {
			c.addf("I-13", "allocation %s should %s, and is evicted by %q", a.ID, a.Desired, m.EvictedBy)
		}
		by := c.Alloc(m.EvictedBy)
		switch {
		case by == nil: // there is none, or it was collected
		case by.NodeID != a.NodeID:
			c.addf("I-13", "allocation %s was evicted by %s of another node", a.ID, by.ID)
		case !slices.Contains(by.Rest().Evicted, a.ID):
			c.addf("I-13", "allocation %s was evicted by %s, which does not say so", a.ID, by.ID)
		}
	}
}

// robbed is a job of which something was evicted by the command at an index.
type robbed struct {
	key   berth.JobKey
	index uint64
}

// evicts checks of I-13 that a new allocation evicts less urgent ones only, and
// notes the jobs that are owed an evaluation for it.
func (f *follower) evicts(a *berth.Alloc) {
	for _, id := range a.Rest().Evicted {
		v := f.alloc(id)
		if v == nil || v.Desired != berth.DesiredEvict || v.Job.Priority > a.Job.Priority-state.PriorityGap {
			f.addf("I-13", "allocation %s of priority %d evicted %s, which it may not", a.ID, a.Job.Priority, id)
			continue
		}
		if j := f.job(v.Key()); j != nil && !j.Stop {
			f.robbed[robbed{v.Key(), a.CreateIndex}] = true
		}
	}
}

// heldOnce returns what allocations of a node and those they evicted both hold:
// it counts only once, and the latter hold it until they have ended.
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

// handsOver says whether one of two allocations was evicted by the other, which
// gets what it holds.
func (c *checker) handsOver(a, b berth.AllocID) bool {
	x, y := c.Alloc(a), c.Alloc(b)
	return x != nil && y != nil && (x.Rest().EvictedBy == b || y.Rest().EvictedBy == a)
}

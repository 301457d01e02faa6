package state

import (
	"fmt"
	"slices"

	"berth"
)

// evictedFor returns the allocations that make room for a placement: of those
// it names, the ones that hold room still. It says why it may not have one of
// them, if so: what counts is the priority of the version placed, which is not
// always the newest.
func (tx *Tx) evictedFor(p *berth.Placement, job *berth.Job, n *berth.Node) (out []*berth.Alloc, why string) {
	for i, id := range p.Evict {
		a := tx.Alloc(id)
		switch {
		case a == nil || a.Ended():
		case a.NodeID != n.ID:
			return nil, "allocation " + id.String() + " is on another node"
		case slices.Contains(p.Evict[:i], id):
			return nil, "allocation " + id.String() + " is to be evicted twice"
		default:
			if why := tx.Evictable(a, job); why != "" {
				return nil, "allocation " + id.String() + " cannot be evicted: " + why
			}
			out = append(out, a)
		}
	}
	return out, ""
}

// evict stops what makes room for a new allocation, which is not stored yet,
// and notes the jobs that lose something.
func (c *ApplyPlan) evict(tx *Tx, by *berth.Alloc, gone []*berth.Alloc) {
	for _, old := range gone {
		a, more := old.With()
		a.Desired, a.ModifyTime, a.AllocModifyIndex = berth.DesiredEvict, c.Now, tx.Index
		more.DesiredDescription = "Preempted by alloc ID " + by.ID.String()
		more.EvictedBy = by.ID
		tx.changeAlloc(old, a)
		by.More.Evicted = append(by.More.Evicted, old.ID)
		if !slices.ContainsFunc(c.robbed, func(r robbed) bool { return r.key == old.Key() }) {
			c.robbed = append(c.robbed, robbed{old.Key(), by.ID})
		}
	}
}

// raiseForEvicted raises one evaluation for each job of which something was
// evicted, so that it is placed anew where there is room.
func (c *ApplyPlan) raiseForEvicted(tx *Tx) {
	for _, r := range c.robbed {
		j := tx.Job(r.key)
		if j == nil || j.Stop {
			continue
		}
		tx.raise(j, EvalSeed{
			ID: tx.newID(c.Eval), TriggeredBy: berth.TriggerPreemption,
			Cause: berth.Cause{Kind: berth.CauseAlloc, ID: r.by.String()},
		}, c.Now)
	}
}

// Evictable returns why a job cannot preempt an allocation, "" if it can.
func (s *Snapshot) Evictable(a *berth.Alloc, by *berth.Job) string {
	switch {
	case !a.Live():
		return "it does not run"
	case a.Orphaned:
		return "it was left to itself, so nothing would replace it"
	case a.Job.Priority > by.Priority-PriorityGap:
		return fmt.Sprintf("its job has the priority %d; allowed is at most %d", a.Job.Priority, by.Priority-PriorityGap)
	case a.Key() == by.Key():
		return "it is of the same job"
	case len(s.preempted(a)) > 0:
		return "it waits for others to end"
	}
	return ""
}

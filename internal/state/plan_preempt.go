package state

import (
	"fmt"
	"slices"

	"berth"
)

// victimsOf returns the victims of a placement: the allocations it names that
// still hold capacity. If it may not preempt one of them, why says so. What
// counts is the priority of the placed version, which is not always the newest.
func (tx *Tx) victimsOf(p *berth.Placement, job *berth.Job, n *berth.Node) (out []*berth.Alloc, why string) {
	for i, id := range p.Evict {
		a := tx.Alloc(id)
		switch {
		case a == nil || a.Ended():
		case a.NodeID != n.ID:
			return nil, "allocation " + id.String() + " is on another node"
		case slices.Contains(p.Evict[:i], id):
			return nil, "allocation " + id.String() + " is named twice as a victim"
		default:
			if why := tx.CannotPreempt(a, job); why != "" {
				return nil, "allocation " + id.String() + " cannot be preempted: " + why
			}
			out = append(out, a)
		}
	}
	return out, ""
}

// preempt stops the victims of a new allocation, which is not stored yet, and
// notes which jobs lose an allocation.
func (c *ApplyPlan) preempt(tx *Tx, by *berth.Alloc, gone []*berth.Alloc) {
	for _, old := range gone {
		a, more := old.With()
		a.Desired, a.ModifyTime, a.AllocModifyIndex = berth.DesiredEvict, c.Now, tx.Index
		more.StopReason, more.DesiredDescription = berth.StopOther, "Preempted by alloc ID "+by.ID.String()
		more.EvictedBy = by.ID
		tx.changeAlloc(old, a)
		by.More.Evicted = append(by.More.Evicted, old.ID)
		if !slices.ContainsFunc(c.preemptions, func(r preemption) bool { return r.key == old.Key() }) {
			c.preemptions = append(c.preemptions, preemption{old.Key(), by.ID})
		}
	}
}

// raiseForPreempted creates one evaluation for each job that lost an allocation
// to preemption, so that it is placed elsewhere.
func (c *ApplyPlan) raiseForPreempted(tx *Tx) {
	for _, r := range c.preemptions {
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

// CannotPreempt returns why a job cannot preempt an allocation, or "" if it can.
func (s *Snapshot) CannotPreempt(a *berth.Alloc, by *berth.Job) string {
	switch {
	case !a.Live():
		return "it is not running"
	case a.Orphaned:
		return "it is orphaned, so nothing would replace it"
	case a.Job.Priority > by.Priority-PriorityGap:
		return fmt.Sprintf("its job has priority %d; it may be at most %d", a.Job.Priority, by.Priority-PriorityGap)
	case a.Key() == by.Key():
		return "it belongs to the same job"
	case len(s.preempted(a)) > 0:
		return "it waits for its own victims to end"
	}
	return ""
}

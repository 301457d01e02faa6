package state

import (
	"berth"
)

// SetNodeEligibility says whether a node takes new work. What runs there stays.
// A node that takes work again raises evaluations: jobs that run on every node
// have something to start there. One that takes none raises evaluations of those
// of them that are being updated.
type SetNodeEligibility struct {
	ID          berth.NodeID
	Eligibility string
	Seed        [16]byte // of the evaluations that it raises
	Now         int64

	Evals []berth.EvalID `msgpack:"-"` // set by Apply: what it raised
}

// Apply implements Command. A node that is as it should be stays so, and
// nothing is raised.
func (c *SetNodeEligibility) Apply(tx *Tx) error {
	c.Evals = nil
	old := tx.Node(c.ID)
	if old == nil {
		return berth.Errorf(berth.NotFound, "node not found: %s", c.ID)
	}
	if c.Eligibility != berth.NodeEligible && c.Eligibility != berth.NodeIneligible {
		return berth.Errorf(berth.Invalid, "Eligibility: %.40q is not known; allowed are %s and %s", c.Eligibility, berth.NodeEligible, berth.NodeIneligible)
	}
	if old.SchedulingEligibility == c.Eligibility {
		return nil
	}
	if old.Draining() {
		return berth.Errorf(berth.Conflict, "node %s is drained, so it cannot be %s; end its drain first", old.ID, c.Eligibility)
	}
	n := *old
	n.SchedulingEligibility, n.ModifyIndex = c.Eligibility, tx.Index
	addEvents(&n, tx.Index, newEvent(berth.NodeEventCluster, "Node marked as "+c.Eligibility+" for scheduling", c.Now))
	tx.putNode(old, &n)
	if n.SchedulingEligibility == berth.NodeEligible {
		c.Evals = tx.raiseForNode(&n, c.Seed, c.Now)
	} else {
		c.Evals = tx.raiseForDeployed(&n, c.Seed, c.Now)
	}
	return nil
}

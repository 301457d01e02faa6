package invariant

import (
	"berth"
)

// nodes checks I-28 (legal statuses, and a node that is drained takes nothing)
// and I-29 (one whose drain is done was empty).
func (c *checker) nodes() {
	numbers := map[uint32]berth.NodeID{}
	for n := range c.Nodes() {
		switch n.Status {
		case berth.NodeInit, berth.NodeReady, berth.NodeDown, berth.NodeDisconnected:
		default:
			c.addf("I-28", "node %s has the status %q", n.ID, n.Status)
		}
		if e := n.SchedulingEligibility; e != berth.NodeEligible && e != berth.NodeIneligible {
			c.addf("I-28", "node %s has the eligibility %q", n.ID, e)
		}
		c.drain(n)
		if other, ok := numbers[n.Number]; ok {
			c.addf("I-28", "nodes %s and %s have the number %d", other, n.ID, n.Number)
		}
		numbers[n.Number] = n.ID
		if u := c.Usage(n.Number); u.Ready != n.Ready() || u.Capacity != n.Room() {
			c.addf("I-28", "the columns do not say of node %s what its row says", n.ID)
		}
	}
}

// drain checks that a node is drained as its record says, and that one whose
// drain is done has nothing left of the time before: what was placed since it
// takes work again is no matter. Whether jobs of the type system were to stay is
// forgotten by then, see [Changed]; so is the end of the drain, once many
// things happened to the node.
func (c *checker) drain(n *berth.Node) {
	status := ""
	if n.LastDrain != nil {
		status = n.LastDrain.Status
	}
	switch {
	case n.Draining() && n.SchedulingEligibility != berth.NodeIneligible:
		c.addf("I-28", "node %s is drained and %s", n.ID, n.SchedulingEligibility)
	case n.Draining() != (status == berth.DrainUnderWay):
		c.addf("I-28", "node %s is drained: %v; its record says %q", n.ID, n.Draining(), status)
	case status != "" && status != berth.DrainUnderWay && status != berth.DrainComplete && status != berth.DrainCanceled:
		c.addf("I-28", "the last drain of node %s is %q", n.ID, status)
	}
	if n.Draining() || status != berth.DrainComplete {
		return
	}
	done := uint64(0) // nothing said of a drain since can be newer than its end
	for _, e := range n.Events {
		if e.Subsystem == berth.NodeEventDrain {
			done = max(done, e.CreateIndex)
		}
	}
	for a := range c.AllocsOn(n.ID) {
		if a.CreateIndex < done && a.Live() && a.Job.Type != berth.TypeSystem {
			c.addf("I-29", "the drain of node %s is done, and allocation %s, which is older, is %s", n.ID, a.ID, a.Client)
		}
	}
}

package invariant

import (
	"berth"
)

// nodes checks I-28 (legal statuses, and a draining node is ineligible) and
// I-29 (a drained node was empty).
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
			c.addf("I-28", "the columns of node %s do not match its row", n.ID)
		}
	}
}

// drain checks that a node's drain matches its record, and that a drained node
// has nothing left from before. What was placed after the node became eligible
// again does not matter. By then it is unknown whether system jobs were to stay
// (see [Changed]), and also when the drain ended, if many events followed.
func (c *checker) drain(n *berth.Node) {
	status := ""
	if n.LastDrain != nil {
		status = n.LastDrain.Status
	}
	switch {
	case n.Draining() && n.SchedulingEligibility != berth.NodeIneligible:
		c.addf("I-28", "node %s is draining and %s", n.ID, n.SchedulingEligibility)
	case n.Draining() != (status == berth.DrainUnderWay):
		c.addf("I-28", "node %s: draining is %v, but its record has the status %q", n.ID, n.Draining(), status)
	case status != "" && status != berth.DrainUnderWay && status != berth.DrainComplete && status != berth.DrainCanceled:
		c.addf("I-28", "the last drain of node %s has the status %q", n.ID, status)
	}
	// From here on the drain is complete.
	if n.Draining() || status != berth.DrainComplete {
		return
	}
	done := uint64(0) // no later drain event can be newer than the end of the drain
	for _, e := range n.Events {
		if e.Subsystem == berth.NodeEventDrain {
			done = max(done, e.CreateIndex)
		}
	}
	for a := range c.AllocsOn(n.ID) {
		if a.CreateIndex < done && a.Live() && a.Job.Type != berth.TypeSystem {
			c.addf("I-29", "the drain of node %s is complete, but the older allocation %s is %s", n.ID, a.ID, a.Client)
		}
	}
}

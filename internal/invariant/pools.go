package invariant

import "berth"

// pools checks I-12 for node pools: the built-in ones exist, and so does the
// pool of each node and of each job that is not dead.
func (c *checker) pools() {
	for _, p := range berth.BuiltInPools {
		if c.NodePool(p.Name) == nil {
			c.addf("I-12", "node pool %q does not exist", p.Name)
		}
	}
	for n := range c.Nodes() {
		if c.NodePool(n.NodePool) == nil {
			c.addf("I-12", "node %s is in the pool %q, which does not exist", n.ID, n.NodePool)
		}
	}
	for j := range c.Jobs(berth.AllNamespaces, "") {
		if c.NodePool(j.NodePool) != nil {
			continue
		}
		if status, _ := c.Summary(j.Key()).Status(j); status != berth.JobDead {
			c.addf("I-12", "job %s is %s in the pool %q, which does not exist", j.Key(), status, j.NodePool)
		}
	}
}

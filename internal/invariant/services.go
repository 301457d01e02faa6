package invariant

import "berth"

// services checks I-12 for service registrations: each belongs to an allocation
// that has not ended, on a node that is not down, and has the right IDs.
func (c *checker) services() {
	for r := range c.Services() {
		a, n := c.Alloc(r.AllocID), c.Node(r.NodeID)
		switch {
		case a == nil || a.Ended():
			c.addf("I-12", "service %s belongs to allocation %s, which does not exist or has ended", r.ID, r.AllocID)
		case a.NodeID != r.NodeID || a.Job.Namespace != r.Namespace || a.Job.ID != r.JobID:
			c.addf("I-12", "service %s has allocation %s on node %s and of job %s in namespace %s, which is wrong", r.ID, r.AllocID, r.NodeID, r.JobID, r.Namespace)
		case n == nil || n.Status == berth.NodeDown:
			c.addf("I-12", "service %s is on node %s, which does not exist or is down", r.ID, r.NodeID)
		}
	}
}

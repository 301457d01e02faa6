package invariant

import "berth"

// services checks I-12 for registrations of services: each is of an allocation
// that has not ended, on a node that is not down, and says so.
func (c *checker) services() {
	for r := range c.Services() {
		a, n := c.Alloc(r.AllocID), c.Node(r.NodeID)
		switch {
		case a == nil || a.Ended():
			c.addf("I-12", "service %s is of allocation %s, which is gone or has ended", r.ID, r.AllocID)
		case a.NodeID != r.NodeID || a.Job.Namespace != r.Namespace || a.Job.ID != r.JobID:
			c.addf("I-12", "service %s says that allocation %s is on node %s and of job %s in namespace %s", r.ID, r.AllocID, r.NodeID, r.JobID, r.Namespace)
		case n == nil || n.Status == berth.NodeDown:
			c.addf("I-12", "service %s is on node %s, which is gone or down", r.ID, r.NodeID)
		}
	}
}

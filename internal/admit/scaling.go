package admit

import "berth"

// scaling checks the policy of a group, and that its count lies within.
func (c *checker) scaling(at string, j *berth.Job, g *berth.TaskGroup) {
	p := g.Scaling
	switch {
	case p == nil:
		return
	case j.PerNode():
		c.addf(at, "is not for jobs of type %s: how many instances they have follows from the nodes", j.Type)
		return
	}
	c.oneOf(at+".type", p.Type, berth.ScalingHorizontal)
	c.between(at+".min", p.Min, 0, berth.MaxCount)
	c.between(at+".max", p.Max, 0, berth.MaxCount)
	switch count := int64(g.Count); {
	case p.Min > p.Max:
		c.addf(at+".max", "%d is below min, %d", p.Max, p.Min)
	case count < p.Min || count > p.Max:
		c.addf(at, "the count of the group, %d, is out of range; allowed are %d to %d", count, p.Min, p.Max)
	}
}

// taskScaling checks the policies of a task, which are kept for who reads them:
// no server follows them.
func (c *checker) taskScaling(at string, t *berth.Task) {
	c.duplicates(at, len(t.ScalingPolicies), func(i int) string { return t.ScalingPolicies[i].Type })
	for i := range t.ScalingPolicies {
		p := &t.ScalingPolicies[i]
		c.oneOf(at+".type", p.Type, berth.ScalingCPU, berth.ScalingMemory)
		c.between(at+".min", p.Min, 0, maxMemoryMB)
		c.between(at+".max", p.Max, 0, maxMemoryMB)
		if p.Min > p.Max {
			c.addf(at+".max", "%d is below min, %d", p.Max, p.Min)
		}
	}
}

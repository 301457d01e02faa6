package admit

import "berth"

// scaling checks the scaling policy of a group, and that the count is within
// its limits.
func (c *checker) scaling(at string, j *berth.Job, g *berth.TaskGroup) {
	p := g.Scaling
	switch {
	case p == nil:
		return
	case j.PerNode():
		c.addf(at, "is not for jobs of type %s, whose nodes determine the number of instances", j.Type)
		return
	}
	c.oneOf(at+".type", p.Type, berth.ScalingHorizontal)
	c.between(at+".min", p.Min, 0, berth.MaxCount)
	c.between(at+".max", p.Max, 0, berth.MaxCount)
	switch count := int64(g.Count); {
	case p.Min > p.Max:
		c.addf(at+".max", "must be at least min, %d, got %d", p.Min, p.Max)
	case count < p.Min || count > p.Max:
		c.addf(at, "the group's count must be %d to %d, got %d", p.Min, p.Max, count)
	}
}

// taskScaling checks the scaling policies of a task. Servers only store them,
// for an autoscaler to read.
func (c *checker) taskScaling(at string, t *berth.Task) {
	c.duplicates(at, len(t.ScalingPolicies), func(i int) string { return t.ScalingPolicies[i].Type })
	for i := range t.ScalingPolicies {
		p := &t.ScalingPolicies[i]
		c.oneOf(at+".type", p.Type, berth.ScalingCPU, berth.ScalingMemory)
		c.between(at+".min", p.Min, 0, maxMemoryMB)
		c.between(at+".max", p.Max, 0, maxMemoryMB)
		if p.Min > p.Max {
			c.addf(at+".max", "must be at least min, %d, got %d", p.Min, p.Max)
		}
	}
}

package berth

import "fmt"

// spreads checks the spread blocks of a job or a group.
func (c *checker) spreads(at string, list []Spread) {
	if len(list) > MaxConditions {
		c.addf(at, "%d spread blocks are too many; allowed are %d", len(list), MaxConditions)
		return
	}
	for i := range list {
		c.spread(fmt.Sprintf("%s.spread[%d]", at, i), &list[i])
	}
}

func (c *checker) spread(at string, s *Spread) {
	if s.Attribute == "" {
		c.addf(at+".attribute", "is missing; one such as ${node.datacenter} is wanted")
	}
	c.between(at+".weight", int64(s.Weight), 0, 100)
	if len(s.SpreadTarget) > MaxConditions {
		c.addf(at+".target", "%d targets are too many; allowed are %d", len(s.SpreadTarget), MaxConditions)
		return
	}
	seen, sum, inRange := map[string]bool{}, 0, true
	for _, t := range s.SpreadTarget {
		tat := fmt.Sprintf("%s.target[%s]", at, clip(t.Value, 64))
		if seen[t.Value] {
			c.addf(tat, "is there twice")
		}
		seen[t.Value] = true
		c.between(tat+".percent", int64(t.Percent), 0, 100)
		inRange = inRange && t.Percent >= 0 && t.Percent <= 100
		sum += t.Percent
	}
	if inRange && sum > 100 {
		c.addf(at+".target", "the percentages add up to %d; allowed are 100", sum)
	}
}

package invariant

import "berth"

// capacity checks I-08 (no node over its capacity) and I-09 (no port, core or
// device has two holders), and that the usage columns match a recount.
func (c *checker) capacity() {
	for n := range c.Nodes() {
		var used berth.Ask
		var allocs uint32
		holder := map[exclusive]berth.AllocID{}
		for a := range c.AllocsOn(n.ID) {
			if !a.Occupies() {
				continue
			}
			allocs++
			used = used.Add(takes(n, a))
			for _, x := range held(n, a) {
				if other, ok := holder[x]; ok && !c.handsOver(other, a.ID) {
					c.addf("I-09", "%s of node %s is held by %s and %s", x, n.ID, other, a.ID)
				}
				holder[x] = a.ID
			}
		}
		// What a preempting allocation takes over from one that has not ended
		// counts once.
		used = used.Sub(c.heldOnce(n))
		u := c.Usage(n.Number)
		if used != u.Used || allocs != u.Allocs {
			c.addf("I-08", "the columns of node %s have %d allocations using %+v; recounted: %d using %+v", n.ID, u.Allocs, u.Used, allocs, used)
		}
		if why := u.Overcommitted(); why != "" {
			c.addf("I-08", "node %s is overcommitted: %s", n.ID, why)
		}
		c.columns(n, u, holder)
	}
}

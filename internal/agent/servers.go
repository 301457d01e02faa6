package agent

import "slices"

// Addrs returns where the agent looks for servers, host and port, in the order
// in which it tries them.
func (c *Cluster) Addrs() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.addrs)
}

// SetAddrs says where to look for servers from now on, instead of where the
// configuration says. The session stays while its server is among them.
func (c *Cluster) SetAddrs(addrs []string) {
	c.mu.Lock()
	c.seeds, c.addrs = slices.Clone(addrs), slices.Clone(addrs)
	s := c.session
	if slices.Contains(addrs, c.at) {
		s = nil
	}
	c.mu.Unlock()
	c.leave(s)
}

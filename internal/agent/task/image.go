package task

import (
	"berth"
	"berth/internal/agent/driver"
	"berth/op"
)

// What is different for a task that runs in an image: it has a file tree, users
// and an environment of its own, and the allocation's directories at fixed
// places in it.

// ofImage reports whether the attempt's driver runs images.
func (at *attempt) ofImage() bool {
	return at.driver != nil && at.driver.Capabilities().Isolation == driver.ImageIsolation
}

// hostPorts returns the ports that a task can name, its own before those of the
// group, each with the address of the host that it is on.
func hostPorts(a *op.Alloc, task string, n *berth.Node) (out []berth.PortMapping) {
	for _, m := range a.AllocatedResources.PortsOf(task) {
		if m.HostIP == "" && n != nil && n.NodeResources != nil {
			m.HostIP = n.HostAddress()
		}
		out = append(out, m)
	}
	return out
}

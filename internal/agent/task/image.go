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

// hostPorts returns the ports of the group, each with the address of the host
// that it is on.
func hostPorts(a *op.Alloc, n *berth.Node) (out []berth.PortMapping) {
	if a.AllocatedResources == nil {
		return nil
	}
	for _, m := range a.AllocatedResources.Shared.Ports {
		if m.HostIP == "" && n != nil && n.NodeResources != nil {
			m.HostIP = n.HostAddress()
		}
		out = append(out, m)
	}
	return out
}

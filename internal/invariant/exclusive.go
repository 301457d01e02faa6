package invariant

import (
	"fmt"
	"slices"

	"berth"
	"berth/internal/fit"
)

// exclusive is something of a node that only one allocation may hold: a port of
// an address, a core, or a device.
type exclusive struct {
	kind string // port, core or device
	of   string // the address of a port, or the group of a device
	name string
}

// String returns what is held, for messages.
func (x exclusive) String() string { return x.kind + " " + x.name + " of " + x.of }

// takes returns what an allocation takes of its node's shared capacity.
func takes(n *berth.Node, a *berth.Alloc) berth.Ask {
	ask := a.Group.Ask()
	for _, c := range n.Cores() {
		for _, id := range a.Rest().Cores {
			if c.ID == id {
				ask.CPU += c.MHz
			}
		}
	}
	return ask
}

// held returns what an allocation holds exclusively. Ports that may collide are
// not included.
func held(n *berth.Node, a *berth.Alloc) (out []exclusive) {
	// Ports are stored without labels, in the order of the group's networks.
	next := 0
	for _, nw := range a.Group.AllNetworks() {
		for _, p := range nw.ReservedPorts {
			if !p.IgnoreCollision {
				out = append(out, portsOn(n, p.Network(), uint16(p.Value))...)
			}
		}
		for _, p := range nw.DynamicPorts {
			if next < len(a.Ports) {
				out = append(out, portsOn(n, p.Network(), a.Ports[next])...)
				next++
			}
		}
	}
	for ; next < len(a.Ports); next++ { // more ports than labels
		out = append(out, portsOn(n, berth.DefaultHostNetwork, a.Ports[next])...)
	}
	for _, c := range a.Rest().Cores {
		out = append(out, exclusive{"core", "the node", fmt.Sprint(c)})
	}
	for _, d := range a.Rest().Devices {
		for _, id := range d.IDs {
			out = append(out, exclusive{"device", d.Vendor + "/" + d.Type + "/" + d.Name, id})
		}
	}
	return out
}

// portsOn returns a port on each address of a host network.
func portsOn(n *berth.Node, network string, port uint16) (out []exclusive) {
	for _, address := range addresses(n, network) {
		out = append(out, exclusive{"port", address, fmt.Sprint(port)})
	}
	return out
}

// addresses returns the addresses of a host network of a node. The first one of
// the default network is the node's own address, however the agent found it.
func addresses(n *berth.Node, network string) (out []string) {
	if network == berth.DefaultHostNetwork {
		out = append(out, n.HostAddress())
	}
	for _, nw := range n.NodeResources.NodeNetworks {
		for _, a := range nw.Addresses {
			if a.Alias == network && a.Address != "" && !slices.Contains(out, a.Address) {
				out = append(out, a.Address)
			}
		}
	}
	return out
}

// columns checks that a node's usage has everything that is held, and no more
// cores and devices than that.
func (c *checker) columns(n *berth.Node, u *fit.Usage, holder map[exclusive]berth.AllocID) {
	byDefault, ports, cores, devices := addresses(n, berth.DefaultHostNetwork), 0, 0, 0
	for x, id := range holder {
		ok := true
		switch x.kind {
		case "port":
			var p uint16
			fmt.Sscan(x.name, &p)
			ports++
			ok = !slices.Contains(byDefault, x.of) || u.Ports.Has(p)
		case "core":
			cores++
		case "device":
			devices++
		}
		if !ok {
			c.addf("I-09", "the columns lack %s of node %s, held by %s", x, n.ID, id)
		}
	}
	for a := range c.AllocsOn(n.ID) { // ports that may collide are counted too
		for _, nw := range a.Group.AllNetworks() {
			ports += len(nw.ReservedPorts)
		}
	}
	// The columns do not hold the ports of every address, so they can have
	// fewer, but never more.
	if want := ports + u.Reserved.Len(); u.Ports.Len() > want {
		c.addf("I-09", "the columns have %d ports of node %s in use; at most %d are", u.Ports.Len(), n.ID, want)
	}
	if saidCores, saidDevices := u.Named(); saidCores > cores || saidDevices > devices {
		c.addf("I-09", "the columns have %d cores and %d devices of node %s in use; %d and %d are", saidCores, saidDevices, n.ID, cores, devices)
	}
}

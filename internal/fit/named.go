package fit

import (
	"cmp"
	"math/bits"
	"slices"

	"berth"
)

// named is the part of a node's usage that is tracked by name: cores, devices,
// and ports of host networks other than the default. It is copied before a
// change, so copies of a usage may share it.
type named struct {
	*layout
	owner   uint64    // the edit of the Writer that may change it in place
	cores   bitset    // taken, by place in layout.cores
	devices bitset    // taken, by place in layout.instances
	spaces  []PortSet // taken, by space; the first is the line's own Ports and not used
	shared  []sharedPort
}

// layout is what depends on the node alone. It is immutable; a node that
// registers again gets a new one.
type layout struct {
	cores     []berth.NodeCore // that can be reserved, in order of ID
	numa      []numaNode       // that have such cores
	devices   []deviceGroup
	instances []instanceOf   // of all groups, one after another
	networks  map[string]int // the space of ports of each host network
	reserved  []PortSet      // by space
}

// numaNode is the cores of one NUMA node.
type numaNode struct {
	id       uint8
	cores    bitset  // by place in layout.cores
	distance []uint8 // to each of layout.numa
}

// deviceGroup is a group of equal devices.
type deviceGroup struct {
	*berth.NodeDeviceResource
	first, end int // its instances
}

// instanceOf is one device.
type instanceOf struct {
	id      string
	healthy bool
	numa    int // its place in layout.numa, one beyond if it is of none of them; -1 if that is not known
}

// noLayout is the layout of a node without named resources.
var noLayout = &layout{}

// bitset is a set of small numbers.
type bitset []uint64

// newBitset returns an empty set with room for the numbers below n.
func newBitset(n int) bitset { return make(bitset, (n+63)/64) }

// has reports whether i is in the set. Numbers beyond its room are not.
func (b bitset) has(i int) bool { return i>>6 < len(b) && b[i>>6]&(1<<(i&63)) != 0 }

// add puts i into the set; it panics if i is beyond the set's room.
func (b bitset) add(i int) { b[i>>6] |= 1 << (i & 63) }

// remove takes i out of the set; it panics if i is beyond the set's room.
func (b bitset) remove(i int) { b[i>>6] &^= 1 << (i & 63) }

// layoutOf returns the layout of a node, nil if it has no named resources.
func layoutOf(n *berth.Node) *layout {
	l := &layout{cores: n.Cores()}
	l.addNUMA(n.NodeResources.Processors.Topology)
	l.addDevices(n)
	l.addNetworks(n)
	if len(l.cores) == 0 && len(l.devices) == 0 && len(l.reserved) == 0 {
		return nil
	}
	return l
}

// addNUMA groups the cores of l by NUMA node, in the order of their IDs, and
// fills in the distances between them. The cores must be there already; a NUMA
// node without cores is left out.
func (l *layout) addNUMA(t *berth.Topology) {
	at := map[uint8]int{}
	for i, c := range l.cores {
		k, ok := at[c.NUMA]
		if !ok {
			k = len(l.numa)
			at[c.NUMA] = k
			l.numa = append(l.numa, numaNode{id: c.NUMA, cores: newBitset(len(l.cores))})
		}
		l.numa[k].cores.add(i)
	}
	slices.SortFunc(l.numa, func(a, b numaNode) int { return cmp.Compare(a.id, b.id) })
	for i := range l.numa {
		for k := range l.numa {
			l.numa[i].distance = append(l.numa[i].distance, distance(t, l.numa[i].id, l.numa[k].id))
		}
	}
}

// distance returns the distance of two NUMA nodes in the units of firmware
// tables. The default is 10 for the same node and 20 for others.
func distance(t *berth.Topology, a, b uint8) uint8 {
	if t != nil {
		i, k := slices.Index(t.Nodes, a), slices.Index(t.Nodes, b)
		if i >= 0 && k >= 0 && i < len(t.Distances) && k < len(t.Distances[i]) {
			return t.Distances[i][k]
		}
	}
	if a == b {
		return 10
	}
	return 20
}

// addDevices lists the device instances of n, group by group, with the NUMA
// node of each: -1 if unknown, len(l.numa) if it has no cores. It needs the
// result of addNUMA.
func (l *layout) addDevices(n *berth.Node) {
	var buses map[string]uint8
	if t := n.NodeResources.Processors.Topology; t != nil {
		buses = t.BusAssociativity
	}
	seen := map[[2]string]bool{}
	for i := range n.NodeResources.Devices {
		d := &n.NodeResources.Devices[i]
		// An empty group is listed too: positions in l.devices are those of the
		// node's list.
		k, first := len(l.devices), len(l.instances)
		l.devices = append(l.devices, deviceGroup{d, first, first})
		for _, x := range d.Instances {
			name := [2]string{d.ID(), x.ID}
			if seen[name] {
				continue // a device listed twice is given out once
			}
			seen[name] = true
			in := instanceOf{id: x.ID, healthy: x.Healthy, numa: -1}
			if x.Locality != nil {
				if id, ok := buses[x.Locality.PciBusID]; ok {
					in.numa = slices.IndexFunc(l.numa, func(k numaNode) bool { return k.id == id })
					if in.numa < 0 {
						in.numa = len(l.numa)
					}
				}
			}
			l.instances = append(l.instances, in)
			l.devices[k].end = len(l.instances)
		}
	}
}

// addNetworks gives each named host network a port space. Networks with a
// common address share one, because a port is taken on an address.
func (l *layout) addNetworks(n *berth.Node) {
	s := spaces{byAddress: map[string]int{n.HostAddress(): 0}, byName: map[string]int{}, kept: []string{""}}
	// Addresses of the default network belong to space 0, as the host's own
	// does.
	for _, nw := range n.NodeResources.NodeNetworks {
		for _, a := range nw.Addresses {
			if a.Alias == berth.DefaultHostNetwork {
				s.byAddress[a.Address] = 0
			}
		}
	}
	for _, nw := range n.NodeResources.NodeNetworks {
		for _, a := range nw.Addresses {
			if a.Address != "" {
				s.add(&a)
			}
		}
	}
	// What an operator reserves on a host network adds to its space.
	for name, h := range n.HostNetworks {
		if at, ok := s.byName[name]; ok {
			s.keep(at, h.ReservedPorts)
		}
	}
	if len(s.byName) > 0 || s.kept[0] != "" {
		l.networks = s.byName
		l.reserve(n, s.kept)
	}
}

// spaces numbers port spaces; the first is that of the default network.
type spaces struct {
	byAddress, byName map[string]int
	kept              []string // by space: lists of reserved ports
}

// keep adds reserved ports, a list like "22,80-90", to those of the space at.
func (s *spaces) keep(at int, ports string) {
	if ports != "" {
		s.kept[at] += "," + ports
	}
}

// add puts an address of the node into a space: the one of its network name,
// the one of its IP address, or a new one. If the two differ, they become one,
// because a port is taken for all names of an address. The default network gets
// no space here.
func (s *spaces) add(a *berth.NodeNetworkAddress) {
	at, known := s.byAddress[a.Address]
	if a.Alias == "" || a.Alias == berth.DefaultHostNetwork {
		if known {
			s.keep(at, a.ReservedPorts)
		}
		return
	}
	was, named := s.byName[a.Alias]
	switch {
	case !named && !known:
		at = len(s.kept)
		s.kept = append(s.kept, "")
	case !known:
		at = was
	case named && at != was: // the two spaces are one
		s.merge(max(at, was), min(at, was))
		at = min(at, was)
	}
	s.byName[a.Alias], s.byAddress[a.Address] = at, at
	s.keep(at, a.ReservedPorts)
}

// merge moves the networks and addresses of one space to another.
func (s *spaces) merge(from, to int) {
	for _, m := range []map[string]int{s.byName, s.byAddress} {
		for k, at := range m {
			if at == from {
				m[k] = to
			}
		}
	}
	s.kept[to] += s.kept[from]
	s.kept[from] = ""
}

// reserve records the reserved ports of each space, including those that the
// node reserves on all networks.
func (l *layout) reserve(n *berth.Node, kept []string) {
	all := ""
	if r := n.ReservedResources; r != nil {
		all = r.Networks.ReservedHostPorts
	}
	var by Writer
	for _, list := range kept {
		var set PortSet
		ports, _ := ReservedPorts(all + "," + list) // checked when the node registered
		for _, p := range ports {
			set.add(&by, p)
		}
		l.reserved = append(l.reserved, set)
	}
}

// empty returns the named part with nothing taken, nil for a node without named
// resources.
func (l *layout) empty(by *Writer) *named {
	if l == nil {
		return nil
	}
	m := &named{layout: l, owner: by.edit(), cores: newBitset(len(l.cores)), devices: newBitset(len(l.instances))}
	m.spaces = slices.Clone(l.reserved)
	return m
}

// writableNamed returns the named part of u for a Writer to change.
func (u *Usage) writableNamed(by *Writer) *named {
	m := u.named
	switch {
	case m == nil:
		m = &named{layout: noLayout}
	case m.owner == by.edit():
		return m
	default:
		c := *m
		c.cores, c.devices = slices.Clone(m.cores), slices.Clone(m.devices)
		c.spaces, c.shared = slices.Clone(m.spaces), slices.Clone(m.shared)
		m = &c
	}
	m.owner = by.edit()
	u.named = m
	return m
}

// core returns the place in l.cores of a core that can be reserved.
func (l *layout) core(id uint16) (int, bool) {
	return slices.BinarySearchFunc(l.cores, id, func(c berth.NodeCore, id uint16) int { return cmp.Compare(c.ID, id) })
}

// device returns the place of a device in l.instances, -1 if no device has
// that ID.
func (l *layout) device(g *berth.DeviceGrant, id string) int {
	for _, d := range l.devices {
		if d.Vendor == g.Vendor && d.Type == g.Type && d.Name == g.Name {
			for i := d.first; i < d.end; i++ {
				if l.instances[i].id == id {
					return i
				}
			}
		}
	}
	return -1
}

// space returns the number of a host network's port space.
func (u *Usage) space(network string) (int, bool) {
	if network == berth.DefaultHostNetwork {
		return 0, true
	}
	if u.named == nil {
		return 0, false
	}
	at, ok := u.named.networks[network]
	return at, ok
}

// taken returns the held and reserved ports of a space, for reading.
func (u *Usage) taken(space int) *PortSet {
	if space == 0 {
		return &u.Ports
	}
	return &u.named.spaces[space]
}

// Named returns the number of cores and devices that are held.
func (u *Usage) Named() (cores, devices int) {
	if u.named == nil {
		return 0, 0
	}
	for _, w := range u.named.cores {
		cores += bits.OnesCount64(w)
	}
	for _, w := range u.named.devices {
		devices += bits.OnesCount64(w)
	}
	return cores, devices
}

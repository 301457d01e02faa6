package fit

import (
	"cmp"
	"slices"

	"berth"
)

// sharedPort is a port held by allocations that allow others to hold it, too.
type sharedPort struct {
	space   int
	port    uint16
	holders int  // that allow sharing
	owned   bool // also held by one that does not
}

// held is a port that one allocation takes.
type held struct {
	space  int
	port   uint16
	shared bool // others may take it too
}

// pickPorts returns the dynamic ports for one more allocation, in the order of
// the group's labels; not ok if a required port is taken or there are too few.
func (m *namedRequest) pickPorts(u *Usage, at uint32) (ports []uint16, ok bool) {
	// Static ports come first: dynamic ones must avoid them.
	own, ok := m.static(u, nil)
	if !ok {
		return nil, false
	}
	for i := range m.ports {
		if m.ports[i].port != 0 {
			continue
		}
		space, _ := u.space(m.ports[i].network)
		port, ok := u.dynamicPort(space, own, at)
		if !ok {
			return nil, false
		}
		own = append(own, held{space, port, false})
		ports = append(ports, port)
	}
	return ports, true
}

// static returns the static ports of the group with their spaces. If a port is
// unavailable or a host network does not exist, the result is not ok, and fail
// is called for each.
func (m *namedRequest) static(u *Usage, fail func(p *portRequest, known bool)) (own []held, ok bool) {
	ok = true
	for i := range m.ports {
		p := &m.ports[i]
		space, known := u.space(p.network)
		switch {
		// A dynamic or a shared port cannot collide here.
		case known && (p.port == 0 || p.shared):
		case known && !u.taken(space).Has(p.port) && !slices.Contains(own, held{space, p.port, false}):
		default:
			ok = false
			if fail != nil {
				fail(p, known)
			}
			continue
		}
		if p.port != 0 {
			own = append(own, held{space, p.port, p.shared})
		}
	}
	return own, ok
}

// dynamicPort returns a free port of the dynamic range, searching from the
// offset given by at.
func (u *Usage) dynamicPort(space int, own []held, at uint32) (uint16, bool) {
	span := uint32(u.MaxDynamic) - uint32(u.MinDynamic) + 1
	start := uint32(u.MinDynamic) + at%span
	for _, part := range [2][2]uint32{{start, uint32(u.MaxDynamic)}, {uint32(u.MinDynamic), start - 1}} {
		for from := part[0]; from <= part[1]; from++ {
			port, ok := u.taken(space).Free(from, uint16(part[1]))
			if !ok {
				break
			}
			if !slices.ContainsFunc(own, func(h held) bool { return h.space == space && h.port == port }) {
				return port, true
			}
			from = uint32(port)
		}
	}
	return 0, false
}

// portShortages adds the ports that the node cannot provide.
func (m *namedRequest) portShortages(u *Usage, add func(dim string, wanted, free int64)) {
	missing := map[string]bool{}
	// Static ports first; each missing network is told once.
	own, _ := m.static(u, func(p *portRequest, known bool) {
		switch {
		case known:
			add(Dimension{Kind: StaticPort, Port: p.port, Network: p.network}.String(), 1, 0)
		case !missing[p.network]:
			missing[p.network] = true
			add(Dimension{Kind: HostNetwork, Network: p.network}.String(), 1, 0)
		}
	})
	// Then dynamic ports, counted by network.
	wanted := map[string]int64{}
	var order []*portRequest
	for i := range m.ports {
		if p := &m.ports[i]; p.port == 0 && !missing[p.network] {
			if wanted[p.network] == 0 {
				order = append(order, p)
			}
			wanted[p.network]++
		}
	}
	// Choose them as a grant would, until there are no more.
	for _, p := range order {
		space, _ := u.space(p.network)
		free := int64(0)
		for ; free < wanted[p.network]; free++ {
			port, ok := u.dynamicPort(space, own, 0)
			if !ok {
				break
			}
			own = append(own, held{space, port, false})
		}
		add(Dimension{Kind: DynamicPorts, Network: p.network}.String(), wanted[p.network], free)
	}
}

// movePorts claims or releases the ports of a group with a port that is shared
// or on a named host network. A network that the node does not, or no longer,
// have is skipped.
func (u *Usage) movePorts(by *Writer, m *namedRequest, ports []uint16, sign int64) {
	for i := range m.ports {
		p := &m.ports[i]
		port := p.port
		if port == 0 {
			// An old allocation may have fewer ports than its group asks for.
			if len(ports) == 0 {
				continue
			}
			port, ports = ports[0], ports[1:]
		}
		space, known := u.space(p.network)
		switch {
		case !known:
		case p.shared:
			u.share(by, space, port, int(sign))
		case sign > 0:
			u.hold(by, space, port)
		default:
			u.drop(by, space, port)
		}
	}
}

// hold claims a port for one allocation.
func (u *Usage) hold(by *Writer, space int, port uint16) {
	u.portSet(by, space).add(by, port)
	if i, ok := u.sharedAt(space, port); ok {
		u.writableNamed(by).shared[i].owned = true
	}
}

// drop releases a port.
func (u *Usage) drop(by *Writer, space int, port uint16) {
	if i, ok := u.sharedAt(space, port); ok {
		u.writableNamed(by).shared[i].owned = false
		return
	}
	if !u.keptBack(space, port) {
		u.portSet(by, space).remove(by, port)
	}
}

// share adds a holder that allows sharing or, with -1, removes one.
func (u *Usage) share(by *Writer, space int, port uint16, more int) {
	i, ok := u.sharedAt(space, port)
	if !ok {
		if more < 0 {
			return
		}
		owned := u.taken(space).Has(port) && !u.keptBack(space, port)
		m := u.writableNamed(by)
		m.shared = slices.Insert(m.shared, i, sharedPort{space, port, 0, owned})
		u.portSet(by, space).add(by, port)
	}
	m := u.writableNamed(by)
	s := &m.shared[i]
	if s.holders += more; s.holders > 0 {
		return
	}
	owned := s.owned
	m.shared = slices.Delete(m.shared, i, i+1)
	if !owned && !u.keptBack(space, port) {
		u.portSet(by, space).remove(by, port)
	}
	if len(m.shared) == 0 && m.layout == noLayout {
		u.named = nil // as before the first shared port
	}
}

// sharedAt returns where a shared port is in the sorted list, or where it would
// be inserted, and whether it is there.
func (u *Usage) sharedAt(space int, port uint16) (int, bool) {
	if u.named == nil {
		return 0, false
	}
	return slices.BinarySearchFunc(u.named.shared, held{space, port, false}, func(s sharedPort, h held) int {
		return cmp.Or(cmp.Compare(s.space, h.space), cmp.Compare(s.port, h.port))
	})
}

// keptBack reports whether the node reserves a port.
func (u *Usage) keptBack(space int, port uint16) bool {
	if space == 0 {
		return u.Reserved.Has(port)
	}
	return u.named.reserved[space].Has(port)
}

// portSet returns the held ports of a space, for changing.
func (u *Usage) portSet(by *Writer, space int) *PortSet {
	if space == 0 {
		return &u.Ports
	}
	return &u.writableNamed(by).spaces[space]
}

// Holds reports whether an allocation of the node, given by its group and
// dynamic ports, holds a port of a host network.
func (u *Usage) Holds(g *berth.TaskGroup, dynamic []uint16, network string, port uint16) bool {
	space, known := u.space(network)
	for _, nw := range g.AllNetworks() {
		for _, p := range nw.ReservedPorts {
			if at, ok := u.space(p.Network()); known && ok && at == space && p.Value == int(port) {
				return true
			}
		}
		for _, p := range nw.DynamicPorts {
			// Dynamic ports are in the order of the group's labels.
			if len(dynamic) == 0 {
				break
			}
			if at, ok := u.space(p.Network()); known && ok && at == space && dynamic[0] == port {
				return true
			}
			dynamic = dynamic[1:]
		}
	}
	return false
}

// Keeps reports whether the node reserves a port of a host network.
func (u *Usage) Keeps(network string, port uint16) bool {
	space, known := u.space(network)
	return known && u.keptBack(space, port)
}

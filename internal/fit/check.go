package fit

import (
	"fmt"
	"slices"
	"strconv"

	"berth"
)

// Refusal returns why a node cannot give an allocation what was picked for it,
// nil if it can. It only checks the grant and does not look for a better one.
func (r *Request) Refusal(u *Usage, g *berth.Grant) *berth.Refusal {
	if len(g.Ports) != r.Dynamic {
		return berth.Refuse(berth.RefusedDynamic, fmt.Sprintf("dynamic ports: need %d, got %d", r.Dynamic, len(g.Ports)))
	}
	if r.named != nil {
		return r.refusalNamed(u, g)
	}
	switch {
	case len(g.Cores) > 0:
		return berth.Refuse(berth.RefusedCores, "cores: none were asked for")
	case len(g.Devices) > 0:
		return berth.Refuse(berth.RefusedDevices, "devices: none were asked for")
	case !r.Fits(u):
		return refuseFor(r.Shortfall(u)[0])
	}
	// The dynamic ports must be free, and differ from each other and the static
	// ones.
	for i, port := range g.Ports {
		if u.Ports.Has(port) || slices.Contains(g.Ports[:i], port) || slices.Contains(r.Static, port) {
			return berth.Refuse(berth.RefusedPort, portInUse(port))
		}
	}
	return nil
}

// refuseFor returns the refusal for a shortage.
func refuseFor(s berth.Shortage) *berth.Refusal {
	return berth.Refuse(refusals[ParseDimension(s.Dimension).Kind], fmt.Sprintf("%s: %d asked, %d free", s.Dimension, s.Wanted, s.Free))
}

func portInUse(port uint16) string { return names[StaticPort] + strconv.Itoa(int(port)) + " is in use" }

// refusalNamed is Refusal for groups that ask for named resources.
func (r *Request) refusalNamed(u *Usage, g *berth.Grant) *berth.Refusal {
	if refused := r.refusalPorts(u, g); refused != nil {
		return refused
	}
	if refused := berth.Refuse(berth.RefusedCores, r.named.refusalCores(u, g)); refused != nil {
		return refused
	}
	if refused := berth.Refuse(berth.RefusedDevices, r.named.refusalDevices(u, g)); refused != nil {
		return refused
	}
	plain := Request{Ask: r.Ask}
	for _, id := range g.Cores {
		at, _ := u.named.core(id)
		plain.CPU += u.named.layout.cores[at].MHz
	}
	if !plain.Fits(u) {
		return refuseFor(plain.Shortfall(u)[0])
	}
	return nil
}

func (r *Request) refusalPorts(u *Usage, g *berth.Grant) *berth.Refusal {
	m := r.named
	if m.ports == nil {
		plain := Request{Static: r.Static, Dynamic: r.Dynamic}
		return plain.Refusal(u, &berth.Grant{Ports: g.Ports})
	}
	var why string
	own, ok := m.static(u, func(p *portRequest, known bool) {
		if known {
			why = portInUse(p.port)
		} else {
			why = names[HostNetwork] + p.network + " does not exist"
		}
	})
	if !ok {
		return berth.Refuse(berth.RefusedPort, why)
	}
	next := 0
	for i := range m.ports {
		p := &m.ports[i]
		if p.port != 0 {
			continue
		}
		port := g.Ports[next]
		next++
		space, _ := u.space(p.network)
		if u.taken(space).Has(port) || slices.ContainsFunc(own, func(h held) bool { return h.space == space && h.port == port }) {
			return berth.Refuse(berth.RefusedPort, portInUse(port))
		}
		own = append(own, held{space, port, false})
	}
	return nil
}

// refusalCores checks that each task has as many free cores as it asks for,
// from one NUMA node where that is required.
func (m *namedRequest) refusalCores(u *Usage, g *berth.Grant) string {
	if len(g.Cores) != m.cores {
		return fmt.Sprintf("cores: need %d, got %d", m.cores, len(g.Cores))
	}
	// g.Cores has the cores of the tasks one after the other.
	next := 0
	for _, t := range m.tasks {
		numa := -1
		for _, id := range g.Cores[next : next+t.count] {
			at, ok := 0, false
			if u.named != nil {
				at, ok = u.named.core(id)
			}
			switch {
			case !ok:
				return fmt.Sprintf("core %d cannot be reserved", id)
			case u.named.cores.has(at) || slices.Contains(g.Cores[:next], id):
				return fmt.Sprintf("core %d is in use", id)
			case t.affinity != berth.NUMARequire:
			case numa >= 0 && numa != int(u.named.layout.cores[at].NUMA):
				return fmt.Sprintf("core %d is on another NUMA node than other cores of task %q", id, t.task)
			}
			numa = int(u.named.layout.cores[at].NUMA)
			next++
		}
	}
	return ""
}

// refusalDevices checks that each request has what it asks for, from healthy,
// free devices.
func (m *namedRequest) refusalDevices(u *Usage, g *berth.Grant) string {
	if len(g.Devices) != len(m.devices) {
		return fmt.Sprintf("devices: need %d grants, got %d", len(m.devices), len(g.Devices))
	}
	if len(m.devices) == 0 {
		return ""
	}
	if u.named == nil {
		return "the node has no devices"
	}
	// The grant says which cores the tasks have, and so their NUMA nodes.
	bound := m.boundTo(u, g)
	// Grants must not share an instance with each other either.
	taken := newBitset(len(u.named.instances))
	for i := range m.devices {
		d, given := &m.devices[i], &g.Devices[i]
		group := u.named.groupOf(given)
		switch {
		case given.Task != d.task || uint64(len(given.IDs)) != d.Count:
			return fmt.Sprintf("devices: need %d of %s for task %q, got %d for task %q", d.Count, d.Name, d.task, len(given.IDs), given.Task)
		case group == nil || !d.matches(group.NodeDeviceResource):
			return fmt.Sprintf("%s/%s/%s is not what %s asks for", given.Vendor, given.Type, given.Name, d.Name)
		}
		for _, id := range given.IDs {
			at := u.named.device(given, id)
			switch {
			case at < 0 || !u.named.instances[at].healthy || !d.accepts(id, group.NodeDeviceResource):
				return fmt.Sprintf("device %q cannot be given to %s", id, d.Name)
			case u.named.devices.has(at) || taken.has(at):
				return fmt.Sprintf("device %q is in use", id)
			case bound[i] >= 0 && u.named.instances[at].numa >= 0 && u.named.instances[at].numa != bound[i]:
				return fmt.Sprintf("device %q is on another NUMA node than the cores of task %q", id, d.task)
			}
			taken.add(at)
		}
	}
	return ""
}

// boundTo returns, by device request, the NUMA node of its task's cores if the
// devices must be on the same node, otherwise -1.
func (m *namedRequest) boundTo(u *Usage, g *berth.Grant) []int {
	bound := make([]int, len(m.devices))
	for i := range bound {
		bound[i] = -1
	}
	next := 0
	for _, t := range m.tasks {
		at, _ := u.named.core(g.Cores[next])
		for _, d := range t.bound {
			bound[d] = slices.IndexFunc(u.named.numa, func(k numaNode) bool { return k.cores.has(at) })
		}
		next += t.count
	}
	return bound
}

// groupOf returns the group of devices of a grant, nil if none exists.
func (l *layout) groupOf(g *berth.DeviceGrant) *deviceGroup {
	for i := range l.devices {
		if d := &l.devices[i]; d.Vendor == g.Vendor && d.Type == g.Type && d.Name == g.Name {
			return d
		}
	}
	return nil
}

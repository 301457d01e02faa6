package fit

import (
	"cmp"
	"slices"

	"berth"
)

// namedRequest is the part of a request that few groups have: resources tracked
// by name.
type namedRequest struct {
	tasks     []coreRequest   // those that ask for whole cores, in order
	cores     int             // that they ask for together
	devices   []deviceRequest // in order of the tasks and of what each requests
	ports     []portRequest   // nil unless one is on a named host network, or may be shared
	memoryMax bool            // a task may use more memory than it is given
}

// coreRequest is the whole cores of one task.
type coreRequest struct {
	task     string
	count    int    // of cores
	affinity string // none, prefer or require
	bound    []int  // places in namedRequest.devices of what must be on the same NUMA node
}

// deviceRequest is one request for devices.
type deviceRequest struct {
	task string
	*berth.RequestedDevice
}

// portRequest is one port of the group; static ports of a network come first.
type portRequest struct {
	label, network string
	port           uint16 // 0: any of the dynamic range
	shared         bool   // others may hold it too
}

// namedOf returns what a group asks for by name, nil for most groups.
func namedOf(g *berth.TaskGroup) *namedRequest {
	tasks, ports := false, false
	for _, t := range g.Tasks {
		r := t.Resources
		tasks = tasks || r.Cores > 0 || len(r.Devices) > 0 || r.MemoryMaxMB != 0
	}
	for _, nw := range g.AllNetworks() {
		ports = ports || namesNetworks(nw.ReservedPorts) || namesNetworks(nw.DynamicPorts)
	}
	// Most groups ask for nothing of this kind and cost nothing more.
	if !tasks && !ports {
		return nil
	}
	m := &namedRequest{}
	for _, t := range g.Tasks {
		m.addTask(t)
	}
	// One named port makes all ports of the group named ones.
	if ports {
		for t, nw := range g.AllNetworks() {
			m.addPorts(t, nw)
		}
	}
	return m
}

// namesNetworks reports whether a port is on a named host network, or may be
// shared.
func namesNetworks(ports []berth.Port) bool {
	for i := range ports {
		if p := &ports[i]; p.IgnoreCollision || p.HostNetwork != "" && p.HostNetwork != berth.DefaultHostNetwork {
			return true
		}
	}
	return false
}

// addPorts appends the ports of one network block, of a task if t is not nil:
// static ones with their number, dynamic ones with 0. Grants list dynamic ports
// in this order.
func (m *namedRequest) addPorts(t *berth.Task, nw *berth.NetworkResource) {
	of := ""
	if t != nil { // tasks may have ports of one label
		of = t.Name + "/"
	}
	for _, p := range nw.ReservedPorts {
		m.ports = append(m.ports, portRequest{of + p.Label, p.Network(), uint16(p.Value), p.IgnoreCollision})
	}
	for _, p := range nw.DynamicPorts {
		m.ports = append(m.ports, portRequest{label: of + p.Label, network: p.Network()})
	}
}

// addTask appends the cores and devices of one task. Devices that must share
// the NUMA node of the cores are listed in bound, by their position in
// m.devices.
func (m *namedRequest) addTask(t *berth.Task) {
	r := t.Resources
	m.memoryMax = m.memoryMax || r.MemoryMaxMB != 0
	if r.Cores <= 0 && len(r.Devices) == 0 {
		return
	}
	c := coreRequest{task: t.Name, count: r.Cores, affinity: berth.NUMANone}
	if r.NUMA != nil {
		c.affinity = r.NUMA.Affinity
	}
	for i := range r.Devices {
		if c.affinity == berth.NUMARequire && slices.Contains(r.NUMA.Devices, r.Devices[i].Name) {
			c.bound = append(c.bound, len(m.devices))
		}
		m.devices = append(m.devices, deviceRequest{t.Name, &r.Devices[i]})
	}
	if c.count > 0 {
		m.tasks = append(m.tasks, c)
		m.cores += c.count
	}
}

// same reports whether two versions of a group ask for the same, so that a
// grant for one is right for the other.
func (m *namedRequest) same(o *namedRequest) bool {
	switch {
	case m == nil || o == nil:
		return m == o
	case m.memoryMax != o.memoryMax:
		return false
	}
	byLabel := func(list []portRequest) []portRequest {
		return slices.SortedFunc(slices.Values(list), func(a, b portRequest) int { return cmp.Compare(a.label, b.label) })
	}
	return slices.Equal(byLabel(m.ports), byLabel(o.ports)) &&
		slices.EqualFunc(m.tasks, o.tasks, func(a, b coreRequest) bool {
			return a.task == b.task && a.count == b.count && a.affinity == b.affinity && slices.Equal(a.bound, b.bound)
		}) &&
		slices.EqualFunc(m.devices, o.devices, func(a, b deviceRequest) bool {
			return a.task == b.task && a.Name == b.Name && a.Count == b.Count && slices.Equal(a.Constraints, b.Constraints)
		})
}

// AskOn returns what one more allocation takes of the node's capacity,
// including the CPU of whole cores. It is r.Ask if no whole cores are asked for
// or there are not enough.
func (r *Request) AskOn(u *Usage) berth.Ask {
	a := r.Ask
	if r.named != nil && r.named.cores > 0 {
		if p := r.named.pick(u); p != nil {
			a.CPU += p.mhz()
		}
	}
	return a
}

// DeviceAffinity returns how well the devices that the group would get on the
// node meet its affinities, between -1 and 1; 0 if there are no affinities or
// not enough devices.
func (r *Request) DeviceAffinity(u *Usage) float64 {
	if r.named == nil {
		return 0
	}
	// Scores are relative to the sum of the weights, so that they are -1 to 1.
	total := 0.0
	for _, d := range r.named.devices {
		for _, a := range d.Affinities {
			total += max(float64(a.Weight), -float64(a.Weight))
		}
	}
	if total == 0 {
		return 0
	}
	p := r.named.pick(u)
	if p == nil {
		return 0
	}
	sum := 0.0
	for i := range p.found {
		sum += p.found[i].affinity
	}
	return sum / total
}

// fitsNamed reports whether the node has what r asks for besides shared CPU,
// memory and disk.
func (r *Request) fitsNamed(u *Usage) bool {
	m := r.named
	if m.ports == nil {
		if !r.fitsPorts(u) {
			return false
		}
	} else if _, ok := m.pickPorts(u, 0); !ok {
		return false
	}
	if m.cores == 0 && len(m.devices) == 0 {
		return true
	}
	p := m.pick(u)
	return p != nil && u.Used.CPU+r.CPU+p.mhz() <= u.Capacity.CPU
}

// pickNamed picks the named resources of the group on a node where it fits.
func (u *Usage) pickNamed(r *Request, at uint32) (g berth.Grant) {
	m := r.named
	if m.ports == nil {
		g.Ports = u.dynamicPorts(r, at)
	} else {
		g.Ports, _ = m.pickPorts(u, at)
	}
	if m.cores > 0 || len(m.devices) > 0 {
		if p := m.pick(u); p != nil {
			g.Cores, g.Devices = p.grant()
		}
	}
	return g
}

// moveNamed claims or releases cores and devices. Those that the node does not,
// or no longer, have are skipped.
func (u *Usage) moveNamed(by *Writer, g *berth.Grant, sign int64) {
	if u.named == nil {
		return
	}
	m := u.writableNamed(by)
	mark := func(set bitset, at int) {
		if sign > 0 {
			set.add(at)
		} else {
			set.remove(at)
		}
	}
	for _, id := range g.Cores {
		if at, ok := m.core(id); ok {
			// A reserved core uses its whole speed.
			u.Used.CPU += sign * m.layout.cores[at].MHz
			mark(m.cores, at)
		}
	}
	for i := range g.Devices {
		for _, id := range g.Devices[i].IDs {
			if at := m.device(&g.Devices[i], id); at >= 0 {
				mark(m.devices, at)
			}
		}
	}
}

// namedShortages adds the cores and devices that the node lacks when everything
// available is granted first.
func (m *namedRequest) namedShortages(u *Usage, add func(dim string, wanted, free int64)) {
	if m.cores == 0 && len(m.devices) == 0 || m.pick(u) != nil {
		return
	}
	// A node without named resources lacks all of them.
	p := m.picker(u)
	if p == nil {
		p = m.picker(&Usage{named: noLayout.empty(new(Writer))})
	}
	told := false
	tell := func(dim string, wanted, free int64) {
		told = true
		add(dim, wanted, free)
	}
	// With too few cores at all, NUMA nodes are not worth a word.
	few := m.cores > p.free()
	if few {
		tell(DimCores, int64(m.cores), int64(p.free()))
	}
	// Take step by step what there is, and tell where it ends.
	for _, s := range p.steps {
		switch {
		case s.device >= 0:
			p.deviceShortage(s.device, tell)
		case !few:
			p.numaShortage(s.task, tell)
		}
	}
	if !told { // the search was given up after maxTries
		add(Dimension{Kind: Devices, Device: "for all requests together"}.String(), int64(len(m.devices)), 0)
	}
}

// numaShortage takes the cores of a task that requires one NUMA node, or calls
// add with the most free cores that any NUMA node has. Taking them makes the
// shortages of later tasks true.
func (p *picker) numaShortage(task int, add func(dim string, wanted, free int64)) {
	count := p.request.tasks[task].count
	if nodes := p.numaNodes(count); len(nodes) > 0 {
		p.takeOf(task, nodes[0])
		return
	}
	most := 0
	for k := range p.l.numa {
		most = max(most, p.freeOf(k))
	}
	add(names[NUMACores], int64(count), int64(most))
}

// deviceShortage takes the first choice for a device request, or calls add with
// the most instances that a single device group could give. An ask above 2^31
// is shown as 2^31.
func (p *picker) deviceShortage(request int, add func(dim string, wanted, free int64)) {
	if options := p.options(request); len(options) > 0 {
		p.takeDevices(request, options[0])
		return
	}
	d, most := &p.request.devices[request], 0
	for g := range p.l.devices {
		at, _, _ := p.candidates(request, g)
		most = max(most, len(at))
	}
	dim := Dimension{Kind: Devices, Device: d.Name}
	if p.numa[request] >= 0 {
		dim.Device += " on the NUMA node of the cores"
	}
	add(dim.String(), int64(min(d.Count, 1<<31)), int64(most))
}

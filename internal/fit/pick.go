package fit

import (
	"cmp"
	"math/bits"
	"slices"

	"berth/internal/condition"

	"berth"
)

// picker finds cores and devices of one node for one allocation. Choices that
// depend on each other are searched with backtracking, in order of preference:
// first the tasks whose cores must be on one NUMA node, each with the devices
// that must be there, then the other devices. The remaining tasks take any
// cores.
type picker struct {
	request *namedRequest
	l       *layout
	cores   bitset  // taken, with what was picked
	devices bitset  // likewise
	given   [][]int // by task: places of its cores
	numa    []int   // by device request: the NUMA node it is bound to, -1 if none
	found   []found // by request for devices
	steps   []step
	left    int // steps that may still be tried
}

// found is the devices picked for one request.
type found struct {
	group    int
	at       []int // places in layout.instances
	affinity float64
}

// step is one thing to pick: a task's cores of one NUMA node, or else the
// devices of one request.
type step struct{ task, device int }

// maxTries bounds the search. Only requests that compete for devices in very
// many ways reach it; the node then counts as full.
const maxTries = 10_000

// picker returns the working state of one choice of cores and devices, on
// copies of what u has taken. It returns nil if the node has no named
// resources.
func (m *namedRequest) picker(u *Usage) *picker {
	if u.named == nil {
		return nil
	}
	p := &picker{
		request: m, l: u.named.layout, cores: slices.Clone(u.named.cores), devices: slices.Clone(u.named.devices),
		given: make([][]int, len(m.tasks)), numa: make([]int, len(m.devices)), found: make([]found, len(m.devices)), left: maxTries,
	}
	for i := range p.numa {
		p.numa[i] = -1
	}
	p.order()
	return p
}

// order sorts the steps, the hardest to satisfy first.
func (p *picker) order() {
	m := p.request
	// What is hardest to place comes first: the largest requirement of one NUMA
	// node, then the devices bound to it.
	var require []int
	for i, t := range m.tasks {
		if t.affinity == berth.NUMARequire {
			require = append(require, i)
		}
	}
	slices.SortStableFunc(require, func(a, b int) int { return cmp.Compare(m.tasks[b].count, m.tasks[a].count) })
	done := make([]bool, len(m.devices))
	for _, i := range require {
		p.steps = append(p.steps, step{i, -1})
		for _, d := range m.tasks[i].bound {
			p.steps = append(p.steps, step{-1, d})
			done[d] = true
		}
	}
	// Then other devices, those with the strictest conditions first.
	var rest []int
	for d := range m.devices {
		if !done[d] {
			rest = append(rest, d)
		}
	}
	slices.SortStableFunc(rest, func(a, b int) int { return cmp.Compare(m.devices[b].selectivity(), m.devices[a].selectivity()) })
	for _, d := range rest {
		p.steps = append(p.steps, step{-1, d})
	}
}

// selectivity returns a rough measure of how few devices can satisfy a request.
func (d *deviceRequest) selectivity() (n int) {
	n = len(d.Constraints)
	for _, c := range d.Constraints {
		if aboutIDs(c.LTarget, c.RTarget) {
			n += 1000
		}
	}
	for _, r := range d.Name {
		if r == '/' {
			n += 100
		}
	}
	return n
}

// aboutIDs reports whether a constraint is about the IDs of single instances,
// and so must be checked for each instance and not for its group.
func aboutIDs(left, right string) bool {
	const ids = "${device.ids}"
	return left == ids || right == ids
}

// pick returns the picks for one more allocation, nil if there is not enough.
func (m *namedRequest) pick(u *Usage) *picker {
	p := m.picker(u)
	if p == nil || p.free() < m.cores || !p.solve(0) {
		return nil
	}
	for _, affinity := range []string{berth.NUMAPrefer, berth.NUMANone} {
		for i, t := range m.tasks {
			if t.affinity == affinity || affinity == berth.NUMANone && p.given[i] == nil {
				p.takeAny(i)
			}
		}
	}
	return p
}

// free returns the number of free cores.
func (p *picker) free() (n int) {
	for i := range p.l.numa {
		n += p.freeOf(i)
	}
	return n
}

// freeOf returns the number of free cores on a NUMA node, given by its
// position.
func (p *picker) freeOf(numa int) (n int) {
	for i, w := range p.l.numa[numa].cores {
		n += bits.OnesCount64(w &^ p.cores[i])
	}
	return n
}

// solve picks from step i on and reports whether that succeeded.
func (p *picker) solve(i int) bool {
	if i == len(p.steps) {
		return true
	}
	// Try each choice of this step with all choices of the later ones, until
	// the tries are used up.
	s := p.steps[i]
	if s.task >= 0 {
		for _, k := range p.numaNodes(p.request.tasks[s.task].count) {
			if p.left--; p.left < 0 {
				return false
			}
			p.takeOf(s.task, k)
			if p.solve(i + 1) {
				return true
			}
			p.giveBack(s.task)
		}
		return false
	}
	for _, f := range p.options(s.device) {
		if p.left--; p.left < 0 {
			return false
		}
		p.takeDevices(s.device, f)
		if p.solve(i + 1) {
			return true
		}
		for _, at := range f.at {
			p.devices.remove(at)
		}
	}
	return false
}

// numaNodes returns the NUMA nodes with at least count free cores, the fullest
// first.
func (p *picker) numaNodes(count int) (out []int) {
	for k := range p.l.numa {
		if p.freeOf(k) >= count {
			out = append(out, k)
		}
	}
	slices.SortStableFunc(out, func(a, b int) int { return cmp.Compare(p.freeOf(a), p.freeOf(b)) })
	return out
}

// takeOf takes all cores of a task from one NUMA node.
func (p *picker) takeOf(task, numa int) {
	p.take(task, numa, p.request.tasks[task].count)
	for _, d := range p.request.tasks[task].bound {
		p.numa[d] = numa
	}
}

// take takes up to count cores of a NUMA node and returns how many it took.
func (p *picker) take(task, numa, count int) (n int) {
	for i, w := range p.l.numa[numa].cores {
		for free := w &^ p.cores[i]; free != 0 && n < count; n++ {
			at := i*64 + bits.TrailingZeros64(free)
			free &= free - 1
			p.cores.add(at)
			p.given[task] = append(p.given[task], at)
		}
	}
	return n
}

// giveBack frees the cores that the picker took for a task, to try others.
func (p *picker) giveBack(task int) {
	for _, at := range p.given[task] {
		p.cores.remove(at)
	}
	p.given[task] = nil
}

// takeAny takes the cores of a task from as many NUMA nodes as necessary. A
// task that prefers locality gets NUMA nodes close to each other; for others,
// the fullest NUMA nodes are used up first.
func (p *picker) takeAny(task int) {
	t := p.request.tasks[task]
	var seeds []int
	if t.affinity == berth.NUMAPrefer {
		// Best is one NUMA node for all cores.
		if one := p.numaNodes(t.count); len(one) > 0 {
			p.take(task, one[0], t.count)
			return
		}
		seeds = p.numaNodes(1)
	}
	best, least := p.numaNodes(1), -1
	// Otherwise the nodes nearest to each other: try each as the center.
	for _, seed := range seeds {
		near := p.numaNodes(1)
		slices.SortStableFunc(near, func(a, b int) int {
			return cmp.Compare(p.l.numa[seed].distance[a], p.l.numa[seed].distance[b])
		})
		if far := p.spread(near, t.count); least < 0 || far < least {
			best, least = near, far
		}
	}
	for _, k := range best {
		if missing := t.count - len(p.given[task]); missing > 0 {
			p.take(task, k, missing)
		}
	}
	slices.Sort(p.given[task])
}

// spread returns the sum of the distances between cores if count cores are
// taken from NUMA nodes in this order.
func (p *picker) spread(order []int, count int) (sum int) {
	taken := make([]int, len(order))
	for i, k := range order {
		taken[i] = min(count, p.freeOf(k))
		count -= taken[i]
		for j := range i {
			sum += taken[i] * taken[j] * int(p.l.numa[k].distance[order[j]])
		}
		sum += taken[i] * (taken[i] - 1) / 2 * int(p.l.numa[k].distance[k])
	}
	return sum
}

// takeDevices records the choice for a request, and takes its instances.
func (p *picker) takeDevices(request int, f found) {
	p.found[request] = f
	for _, at := range f.at {
		p.devices.add(at)
	}
}

// options returns the groups of devices that can satisfy a request, the best
// first: by affinity, then by fewest devices left.
func (p *picker) options(request int) (out []found) {
	d := &p.request.devices[request]
	left := map[int]int{}
	for g := range p.l.devices {
		at, affinity, ok := p.candidates(request, g)
		if !ok || uint64(len(at)) < d.Count {
			continue
		}
		left[g] = len(at)
		out = append(out, found{g, at[:d.Count:d.Count], affinity})
	}
	slices.SortStableFunc(out, func(a, b found) int {
		return cmp.Or(cmp.Compare(b.affinity, a.affinity), cmp.Compare(left[a.group], left[b.group]))
	})
	return out
}

// candidates returns the devices of a group that can be assigned to a request,
// the preferred ones first, and the group's affinity weight; not ok if the
// group does not match the request.
func (p *picker) candidates(request, group int) (at []int, affinity float64, ok bool) {
	d, g := &p.request.devices[request], &p.l.devices[group]
	if !d.matches(g.NodeDeviceResource) {
		return nil, 0, false
	}
	// Healthy instances count for constraints on all IDs, even if taken.
	var ids []string
	for i := g.first; i < g.end; i++ {
		in := &p.l.instances[i]
		if !in.healthy {
			continue
		}
		ids = append(ids, in.id)
		if p.devices.has(i) || p.numa[request] >= 0 && in.numa >= 0 && in.numa != p.numa[request] || !d.accepts(in.id, g.NodeDeviceResource) {
			continue
		}
		at = append(at, i)
	}
	// Constraints on the IDs of the group as a whole.
	for _, c := range d.Constraints {
		if !condition.MeetsIDs(ids, c.LTarget, c.Operand, c.RTarget) {
			return nil, 0, true
		}
	}
	// An affinity for the group adds its weight; one for single instances also
	// moves these to the front.
	for _, a := range d.Affinities {
		if !condition.DeviceMeets(g.NodeDeviceResource, a.LTarget, a.Operand, a.RTarget) {
			continue
		}
		if !aboutIDs(a.LTarget, a.RTarget) {
			affinity += float64(a.Weight)
			continue
		}
		named := func(i int) bool { return condition.InstanceMeets(p.l.instances[i].id, a.LTarget, a.Operand, a.RTarget) }
		slices.SortStableFunc(at, func(x, y int) int {
			switch wanted := a.Weight > 0; {
			case named(x) == named(y):
				return 0
			case named(x) == wanted:
				return -1
			}
			return 1
		})
		if len(at) > 0 && named(at[0]) {
			affinity += float64(a.Weight)
		}
	}
	return at, affinity, true
}

// matches reports whether a group of devices has the requested name and meets
// the constraints.
func (d *deviceRequest) matches(g *berth.NodeDeviceResource) bool {
	if !g.Offers(d.Name) {
		return false
	}
	for _, c := range d.Constraints {
		if !condition.DeviceMeets(g, c.LTarget, c.Operand, c.RTarget) {
			return false
		}
	}
	return true
}

// accepts reports whether a request allows one device of a group.
func (d *deviceRequest) accepts(id string, g *berth.NodeDeviceResource) bool {
	for _, c := range d.Constraints {
		if !condition.InstanceMeets(id, c.LTarget, c.Operand, c.RTarget) {
			return false
		}
	}
	return true
}

// mhz returns the CPU of the picked cores in MHz.
func (p *picker) mhz() (sum int64) {
	for _, given := range p.given {
		for _, at := range given {
			sum += p.l.cores[at].MHz
		}
	}
	return sum
}

// grant returns the picked cores and devices.
func (p *picker) grant() (cores []uint16, devices []berth.DeviceGrant) {
	for _, given := range p.given {
		for _, at := range given {
			cores = append(cores, p.l.cores[at].ID)
		}
	}
	for i, f := range p.found {
		g := &p.l.devices[f.group]
		d := berth.DeviceGrant{Task: p.request.devices[i].task, Vendor: g.Vendor, Type: g.Type, Name: g.Name}
		for _, at := range f.at {
			d.IDs = append(d.IDs, p.l.instances[at].id)
		}
		devices = append(devices, d)
	}
	return cores, devices
}

// MissingDevices returns the name of the first device request of a task that no
// devices of a node match, in use or not; "" if each is matched.
func MissingDevices(t *berth.Task, n *berth.Node) string {
	for i := range t.Resources.Devices {
		d := deviceRequest{t.Name, &t.Resources.Devices[i]}
		answers := func(g berth.NodeDeviceResource) bool { return d.matches(&g) }
		if !slices.ContainsFunc(n.NodeResources.Devices, answers) {
			return d.Name
		}
	}
	return ""
}

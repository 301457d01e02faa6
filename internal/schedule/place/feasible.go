package place

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"berth"
	"berth/internal/condition"
	"berth/internal/state"
)

// filter decides which nodes meet the constraints of one group, regardless of
// free capacity, and why others do not. Nodes of one class have the same answer
// except for what is unique to each, so one node per class is checked.
type filter struct {
	snap    *state.Snapshot
	job     *berth.Job
	group   *berth.TaskGroup
	peers   []peer // of the job, when the group's turn comes
	work    *Budget
	byClass []check // of the job, the group and its tasks; equal for all nodes of a class
	unique  []check // that must be checked on each node
	drivers []string
	needs   *needs    // networks, volumes and device types; nil for most
	index   uint32    // of the instance to place, where that matters
	verdict []verdict // by class number

	distinctHosts map[berth.NodeID]bool // nodes in use, nil without such a constraint
	distinct      []*distinct
	dynamic       bool                     // the group asks for volumes, and some belong to single nodes
	excludes      func(*berth.Node) string // see Placer.One; nil excludes no node
}

// distinct is one distinct_property constraint: at most limit allocations for
// each value of an attribute.
type distinct struct {
	constraint berth.Constraint
	limit      int
	used       map[string]int
}

// verdict reports whether a node meets constraints. Decisions read the kind; the
// text is for people.
type verdict struct {
	kind  verdictKind
	unmet string // the first constraint that the node does not meet
}

type verdictKind uint8

const (
	unchecked verdictKind = iota
	meetsAll
	lacksDriver     // a driver is missing
	unhealthyDriver // a driver is unhealthy, and all else that the node's class decides is met
	lacksPlugin     // the node does not run the plugin of a CSI volume, or cannot reach the volume
	waitsForVolume  // a CSI volume cannot be had there now; that may pass while the node stays as it is
	lacksOther
)

// lacking returns the verdict that a constraint is not met.
func lacking(unmet string) verdict { return verdict{lacksOther, unmet} }

// newFilter returns the filter of a group. It knows the instances that are
// placed now; notePlaced keeps it up to date afterwards.
func newFilter(p *Placer, group *berth.TaskGroup) *filter {
	f := &filter{snap: p.snap, job: p.job, group: group, peers: p.peers, work: p.work, verdict: make([]verdict, p.snap.Classes())}
	if len(p.standIns) > 0 {
		f.peers = slices.DeleteFunc(slices.Clone(f.peers), func(x peer) bool { return !p.counts(x, group) })
	}
	f.needs = needsOf(group)
	f.dynamic = len(group.Volumes) > 0 && (p.snap.Count(state.HostVolumes) > 0 || wantsCSI(group))
	f.addConstraints(p.job.Constraints, true)
	f.addConstraints(group.Constraints, false)
	for _, t := range group.Tasks {
		f.addConstraints(t.Constraints, false)
		if !slices.Contains(f.drivers, t.Driver) {
			f.drivers = append(f.drivers, t.Driver)
		}
	}
	return f
}

// addConstraints sorts constraints by how they are checked.
func (f *filter) addConstraints(list []berth.Constraint, ofJob bool) {
	for _, c := range list {
		switch c.Operand {
		case berth.OpDistinctHosts:
			if c.RTarget != "false" {
				f.takeHosts(ofJob)
			}
		case berth.OpDistinctProperty:
			f.distinct = append(f.distinct, f.newDistinct(c, ofJob))
		default:
			if unique(c.LTarget) || unique(c.RTarget) {
				f.unique = append(f.unique, check{Constraint: c, region: f.job.Region})
			} else {
				f.byClass = append(f.byClass, check{Constraint: c, region: f.job.Region})
			}
		}
	}
}

// appliesTo reports whether a distinct constraint, of the job or of the group,
// counts an instance.
func (f *filter) appliesTo(p peer, ofJob bool) bool { return ofJob || p.group.Name == f.group.Name }

// takeHosts marks the nodes that distinct_hosts excludes: those with an
// instance of the job or, otherwise, of the group.
func (f *filter) takeHosts(ofJob bool) {
	if f.distinctHosts == nil {
		f.distinctHosts = map[berth.NodeID]bool{}
	}
	for _, p := range f.peers {
		if f.appliesTo(p, ofJob) {
			f.distinctHosts[p.node.ID] = true
		}
	}
}

// newDistinct counts the values that instances use already. The limit is 1
// unless the constraint gives a number.
func (f *filter) newDistinct(c berth.Constraint, ofJob bool) *distinct {
	d := &distinct{constraint: c, limit: most(c), used: map[string]int{}}
	for _, p := range f.peers {
		if v, ok := condition.Resolve(c.LTarget, p.node, f.job.Region); ok && f.appliesTo(p, ofJob) {
			d.used[v]++
		}
	}
	return d
}

// class returns whether the nodes of a class meet the shared constraints.
func (f *filter) class(number uint32) verdict {
	v := f.verdict[number]
	if v.kind == unchecked {
		v = f.check(f.snap.SomeNodeOf(number))
		f.verdict[number] = v
	}
	return v
}

// check returns whether a node meets the constraints that are shared by its
// class.
func (f *filter) check(n *berth.Node) verdict {
	if n == nil {
		return lacking("gone")
	}
	f.work.Spend(1 + len(f.job.Datacenters))
	if why := f.otherDatacenter(n); why != "" {
		return lacking(why)
	}
	if why := f.otherPool(n); why != "" {
		return lacking(why)
	}
	unhealthy := ""
	for _, d := range f.drivers {
		switch kind, why := unmetDriver(n, d); kind {
		case lacksDriver:
			return verdict{kind, why}
		case unhealthyDriver:
			unhealthy = cmp.Or(unhealthy, why)
		}
	}
	for i := range f.byClass {
		if c := &f.byClass[i]; !c.holds(n, f.work, f.group) {
			return lacking(cmp.Or(unhealthy, c.String()))
		}
	}
	if unmet := f.needs.lacking(n, f.index); len(unmet) > 0 {
		return lacking(cmp.Or(unhealthy, unmet[0]))
	}
	if unhealthy != "" {
		return verdict{unhealthyDriver, unhealthy}
	}
	return verdict{kind: meetsAll}
}

// otherDatacenter returns a reason if a node is in a datacenter that the job
// excludes, otherwise "".
func (f *filter) otherDatacenter(n *berth.Node) string {
	if inDatacenters(f.job.Datacenters, n.Datacenter) {
		return ""
	}
	return "datacenter " + n.Datacenter + " is not in " + strings.Join(f.job.Datacenters, ", ")
}

// otherPool returns a reason if a node is in another pool than the job's,
// otherwise "".
func (f *filter) otherPool(n *berth.Node) string {
	if f.job.NodePool == berth.AllNodePool || n.NodePool == f.job.NodePool {
		return ""
	}
	return "node pool " + n.NodePool + " is not " + f.job.NodePool
}

// unmetDriver returns why a node cannot run tasks of a driver; meetsAll and "" if
// it can.
func unmetDriver(n *berth.Node, driver string) (verdictKind, string) {
	info := n.Drivers[driver]
	switch {
	case info == nil || !info.Detected:
		return lacksDriver, "missing drivers: " + driver
	case !info.Healthy:
		return unhealthyDriver, "unhealthy drivers: " + driver
	}
	return meetsAll, ""
}

// node returns whether a node whose class meets all constraints can be used.
func (f *filter) node(n *berth.Node) verdict {
	f.work.Spend(1 + len(f.distinct))
	if f.excludes != nil {
		if why := f.excludes(n); why != "" {
			return lacking(why)
		}
	}
	for i := range f.unique {
		if c := &f.unique[i]; !c.holds(n, f.work, f.group) {
			return lacking(c.String())
		}
	}
	if f.distinctHosts[n.ID] {
		return lacking(berth.OpDistinctHosts)
	}
	for _, d := range f.distinct {
		v, ok := condition.Resolve(d.constraint.LTarget, n, f.job.Region)
		switch {
		case !ok:
			return lacking(d.constraint.LTarget + " is not set")
		case d.used[v] >= d.limit:
			return lacking(fmt.Sprintf("%s: %s=%s used by %d allocs", berth.OpDistinctProperty, d.constraint.LTarget, v, d.used[v]))
		}
	}
	if f.dynamic { // last: who waits for a volume meets all else
		if why, kind := f.snap.VolumeLack(n, f.job, f.group, f.index); kind != state.LacksNothing {
			return verdict{volumeVerdicts[kind], why}
		}
	}
	return verdict{kind: meetsAll}
}

// volumeVerdicts are the verdicts on a node that lacks a volume.
var volumeVerdicts = map[state.LackKind]verdictKind{
	state.LacksHostVolume: lacksOther, state.LacksPlugin: lacksPlugin, state.LacksCSIVolume: waitsForVolume,
}

// perNode reports whether each node must be checked in addition to its class.
func (f *filter) perNode() bool {
	return len(f.unique) > 0 || f.distinctHosts != nil || len(f.distinct) > 0 || f.dynamic || f.excludes != nil
}

// notePlaced records that an allocation of the group was placed on a node.
func (f *filter) notePlaced(n *berth.Node) {
	if f.distinctHosts != nil {
		f.distinctHosts[n.ID] = true
	}
	for _, d := range f.distinct {
		if v, ok := condition.Resolve(d.constraint.LTarget, n, f.job.Region); ok {
			d.used[v]++
		}
	}
}

// holds reports whether a node of a region meets a condition, its variables
// replaced by the node's values.
func holds(left, operand, right string, n *berth.Node, region string) bool {
	l, hasL := condition.Resolve(left, n, region)
	r, hasR := condition.Resolve(right, n, region)
	return condition.Meets(operand, l, hasL, r, hasR)
}

// inDatacenters reports whether any pattern matches the datacenter. An invalid
// pattern matches only itself.
func inDatacenters(globs []string, dc string) bool {
	for _, g := range globs {
		if g == "*" || g == dc {
			return true
		}
		if ok, _ := path.Match(g, dc); ok {
			return true
		}
	}
	return false
}

// Serves reports whether a node's datacenter and pool allow a job to run there.
func Serves(j *berth.Job, n *berth.Node) bool {
	return (j.NodePool == berth.AllNodePool || n.NodePool == j.NodePool) && inDatacenters(j.Datacenters, n.Datacenter)
}

// Feasibility tells on which nodes the running allocations of a group may stay
// when its conditions change, regardless of free capacity. Constraints that keep
// allocations apart do not count, because a running allocation already meets them.
// Nor do drivers: one that is unhealthy may recover, and the tasks may not have
// noticed.
type Feasibility struct{ filter *filter }

// NewFeasibility returns the feasibility of nodes for a group of a job. Its work
// counts for the budget, which may be nil.
func NewFeasibility(snap *state.Snapshot, job *berth.Job, group *berth.TaskGroup, work *Budget) Feasibility {
	f := &filter{snap: snap, job: job, group: group, work: work}
	if !perAlloc(group) { // a running instance already has its own volume
		f.needs = needsOf(group)
	}
	keep := func(list []berth.Constraint) {
		for _, c := range list {
			if c.Operand != berth.OpDistinctHosts && c.Operand != berth.OpDistinctProperty {
				f.byClass = append(f.byClass, check{Constraint: c, region: f.job.Region})
			}
		}
	}
	keep(job.Constraints)
	keep(group.Constraints)
	for _, t := range group.Tasks {
		keep(t.Constraints)
	}
	return Feasibility{f}
}

// Meets reports whether a node meets the constraints.
func (f Feasibility) Meets(n *berth.Node) bool { return f.filter.check(n).kind == meetsAll }

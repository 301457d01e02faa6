package place

import (
	"maps"
	"slices"
	"strings"

	"berth"
	"berth/internal/fit"
	"berth/internal/state"
)

// Instances of jobs that run on every node are not ranked. Each node is checked
// once for the constraints, and for free capacity if it lacks an instance.

// Nodes tells which nodes meet the constraints of a job's groups, regardless of
// free capacity and of what runs there.
type Nodes struct {
	snap    *state.Snapshot
	filters []*filter // by group
}

// NewNodes returns the nodes of a snapshot for a job. The work counts for the
// budget, which may be nil.
func NewNodes(snap *state.Snapshot, job *berth.Job, work *Budget) *Nodes {
	x, p := &Nodes{snap: snap}, &Placer{snap: snap, job: job, work: work, scratch: &scratch{}}
	for _, g := range job.TaskGroups {
		x.filters = append(x.filters, newFilter(p, g))
	}
	return x
}

// Ready returns the nodes that take allocations, in order of number.
func (x *Nodes) Ready() []*berth.Node {
	out := make([]*berth.Node, 0, x.snap.Count(state.Nodes))
	for first, run := range x.snap.UsageColumns() {
		for i := range run {
			if run[i].Ready {
				out = append(out, x.snap.NodeByNumber(first+uint32(i)))
			}
		}
	}
	return out
}

// Meets reports whether a node meets the constraints of a group. One that waits for
// a CSI volume does: OnNodes says what is missing.
func (x *Nodes) Meets(group int, n *berth.Node) bool {
	why := x.unmet(group, n)
	return why.kind == meetsAll || why.kind == waitsForVolume
}

// Keeps reports whether a running instance of a group may stay on a node. An
// unhealthy driver does not stop it: the driver may recover, and the tasks may
// not have noticed. Nor does what happens to the plugin of a CSI volume that it has
// mounted.
func (x *Nodes) Keeps(group int, n *berth.Node) bool {
	switch x.unmet(group, n).kind {
	case meetsAll, lacksDriver, unhealthyDriver, lacksPlugin, waitsForVolume:
		return true
	}
	return false
}

// Recovers reports whether a node does not meet the constraints of a group only
// because a driver is unhealthy. It may meet them soon.
func (x *Nodes) Recovers(group int, n *berth.Node) bool {
	return x.unmet(group, n).kind == unhealthyDriver
}

func (x *Nodes) unmet(group int, n *berth.Node) verdict {
	f := x.filters[group]
	f.work.Spend(1)
	why := f.class(x.snap.Usage(n.Number).Class)
	switch {
	case !f.perNode():
		return why
	case why.kind == meetsAll:
		return f.node(n)
	case why.kind == unhealthyDriver: // whatever volumes there are, nothing is placed
		if own := f.node(n); own.kind == lacksOther {
			return own
		}
	}
	return why
}

// OnNode is an instance that can only be placed on one node.
type OnNode struct {
	Index    uint32
	Node     *berth.Node
	Previous berth.AllocID // what it replaces on the node, if anything
}

// Shortfall is a node that lacks capacity, or a CSI volume, for instances of a group.
type Shortfall struct {
	Node   *berth.Node
	Count  int // instances
	Why    *berth.AllocMetric
	Missed *berth.Missed
}

// OnNodesOutcome is the result of placing instances on given nodes.
type OnNodesOutcome struct {
	Placed     []berth.Placement
	Shortfalls []Shortfall        // in order of the instances
	Why        *berth.AllocMetric // of all of them; never nil
}

// OnNodes places instances of the group with that number on their nodes, as far
// as capacity and CSI volumes allow. Nodes from which constraints keep instances
// apart are skipped; they have no shortfall.
func (p *Placer) OnNodes(number int, list []OnNode) OnNodesOutcome {
	r := p.round(number)
	out := OnNodesOutcome{Why: r.emptyMetric()}
	short := map[string]berth.Shortage{}
	for i := range list {
		o := &list[i]
		r.work.Spend(nodeSteps)
		volume := false // is missing, and all else is met
		if r.filter.perNode() {
			r.filter.index = o.Index
			kind := r.filter.node(o.Node).kind
			if volume = kind == waitsForVolume; !volume && kind != meetsAll {
				continue
			}
		}
		r.evaluated++
		if lacks := r.quotaLacks(); len(lacks) > 0 {
			out.Why.QuotaExhausted = lacks
			if n := len(out.Shortfalls); n > 0 && out.Shortfalls[n-1].Node == o.Node {
				out.Shortfalls[n-1].Count++
				out.Shortfalls[n-1].Why.CoalescedFailures++
				continue
			}
			why, missed := r.explainQuota(1, lacks)
			out.Shortfalls = append(out.Shortfalls, Shortfall{Node: o.Node, Count: 1, Why: why, Missed: missed})
			continue
		}
		if !volume && r.request.Fits(r.usage(o.Node.Number)) {
			out.Placed = append(out.Placed, r.putOn(o, nil))
			continue
		}
		if !volume {
			if victims := r.preemptOn(o.Node.Number); len(victims) > 0 {
				out.Placed = append(out.Placed, r.putOn(o, victims))
				continue
			}
		}
		r.explainNode(out.Why, short, o.Node, r.usage(o.Node.Number))
		if n := len(out.Shortfalls); n > 0 && out.Shortfalls[n-1].Node == o.Node {
			out.Shortfalls[n-1].Count++
			out.Shortfalls[n-1].Why.CoalescedFailures++
			continue
		}
		s := r.shortfall(o.Node)
		s.Missed.Escaped = volume // no dimension says what helps
		out.Shortfalls = append(out.Shortfalls, s)
	}
	out.Why.NodesEvaluated = r.evaluated
	out.Why.Shortages = sortShortages(short)
	for keep := reasonsKept; keep > 0 && bound(out.Why, keep) > failureLen; keep-- {
	}
	return out
}

// putOn places an instance on its node, where it fits.
func (r *round) putOn(o *OnNode, victims []*berth.Alloc) berth.Placement {
	number := o.Node.Number
	grant := r.grant(r.draft(number), number, victims)
	r.countQuota()
	r.peers = append(r.peers, peer{group: r.group, index: o.Index, node: o.Node, now: true, ports: grant.Ports})
	r.filter.notePlaced(o.Node)
	return berth.Placement{Group: r.number, Index: o.Index, NodeID: o.Node.ID, Grant: grant, Previous: o.Previous, Evict: ids(victims)}
}

// shortfall returns what a node lacks for an instance.
func (r *round) shortfall(n *berth.Node) Shortfall {
	m, lacks := r.emptyMetric(), map[string]berth.Shortage{}
	r.explainNode(m, lacks, n, r.usage(n.Number))
	m.NodesEvaluated, m.Shortages = 1, sortShortages(lacks)
	missed := &berth.Missed{Classes: map[string]bool{n.Class: true}}
	for _, s := range m.Shortages {
		if d := waitsFor(s.Dimension); !slices.Contains(missed.Dimensions, d) {
			missed.Dimensions = append(missed.Dimensions, d)
		}
	}
	slices.Sort(missed.Dimensions)
	return Shortfall{Node: n, Count: 1, Why: m, Missed: missed}
}

// NoNode explains why no node meets the constraints of the group with that
// number.
func (p *Placer) NoNode(number int) *berth.AllocMetric {
	r := p.round(number)
	m := r.emptyMetric()
	for first, run := range r.snap.UsageColumns() {
		for i := range run {
			if run[i].Ready {
				r.evaluated++
				r.explainNode(m, map[string]berth.Shortage{}, r.snap.NodeByNumber(first+uint32(i)), &run[i])
			}
		}
	}
	m.NodesEvaluated = r.evaluated
	for keep := reasonsKept; keep > 0 && bound(m, keep) > failureLen; keep-- {
	}
	return m
}

// emptyMetric returns a metric for counting reasons.
func (r *round) emptyMetric() *berth.AllocMetric {
	m := r.newMetric()
	m.NodesAvailable, m.ClassFiltered, m.ConstraintFiltered = map[string]int{}, map[string]int{}, map[string]int{}
	m.ClassExhausted, m.DimensionExhausted = map[string]int{}, map[string]int{}
	return m
}

// sortShortages returns the shortages, most frequent first.
func sortShortages(short map[string]berth.Shortage) []berth.Shortage {
	return slices.SortedFunc(maps.Values(short), func(a, b berth.Shortage) int {
		if a.Nodes != b.Nodes {
			return b.Nodes - a.Nodes
		}
		return strings.Compare(a.Dimension, b.Dimension)
	})
}

// waitsFor returns the dimension in which capacity must become free to end a
// shortage. For ports, any released port may be the one.
func waitsFor(dimension string) string {
	switch fit.ParseDimension(dimension).Kind {
	case fit.StaticPort, fit.DynamicPorts:
		return fit.DimDynamic
	case fit.NUMACores:
		return fit.DimCores
	}
	return dimension
}

package place

import (
	"maps"
	"slices"
	"strings"

	"berth"
	"berth/internal/fit"
	"berth/internal/state"
)

// Jobs that run on every node are not placed, they are there or not: nothing is
// ranked. Each node is asked once whether it meets the conditions, and one that
// lacks an instance whether it has room.

// Nodes says which nodes meet the conditions of a job's groups, whatever room
// they have and whatever runs there.
type Nodes struct {
	snap    *state.Snapshot
	filters []*filter // by group
}

// NewNodes returns the nodes of a snapshot as a job sees them.
func NewNodes(snap *state.Snapshot, job *berth.Job) *Nodes {
	x, p := &Nodes{snap: snap}, &Placer{snap: snap, job: job, scratch: &scratch{}}
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

// Meets says whether a node meets the conditions of a group.
func (x *Nodes) Meets(group int, n *berth.Node) bool { return x.unmet(group, n) == meetsAll }

// Keeps says whether an instance of a group may stay on a node. One that runs
// is not stopped because its driver is not well: that may pass, and its tasks
// need not have noticed.
func (x *Nodes) Keeps(group int, n *berth.Node) bool {
	why := x.unmet(group, n)
	return why == meetsAll || strings.HasPrefix(why, missingDriver) || strings.HasPrefix(why, unhealthyDriver)
}

func (x *Nodes) unmet(group int, n *berth.Node) string {
	f := x.filters[group]
	if why := f.class(x.snap.Usage(n.Number).Class); why != meetsAll || !f.perNode() {
		return why
	}
	return f.node(n)
}

// OnNode is an instance of a group that wants one node and no other.
type OnNode struct {
	Index    uint32
	Node     *berth.Node
	Previous berth.AllocID // what it replaces there, if anything
}

// Shortfall is a node that lacks room for instances of a group that want it.
type Shortfall struct {
	Node   *berth.Node
	Count  int // instances
	Why    *berth.AllocMetric
	Missed *berth.Missed
}

// OnNodesOutcome is what became of instances that want one node each.
type OnNodesOutcome struct {
	Placed     []berth.Placement
	Shortfalls []Shortfall        // in order of the instances
	Why        *berth.AllocMetric // of all of them; never nil
}

// OnNodes places instances of the group with that number on the nodes that they
// want, as far as these have room. Nodes that conditions keep instances apart
// on are passed over: they are not short of anything.
func (p *Placer) OnNodes(number int, list []OnNode) OnNodesOutcome {
	r := p.round(number)
	out := OnNodesOutcome{Why: r.emptyMetric()}
	short := map[string]berth.Shortage{}
	for i := range list {
		o := &list[i]
		if r.filter.perNode() && r.filter.node(o.Node) != meetsAll {
			continue
		}
		r.evaluated++
		if r.request.Fits(r.usage(o.Node.Number)) {
			out.Placed = append(out.Placed, r.putOn(o, nil))
			continue
		}
		if evict := r.preemptOn(o.Node.Number); len(evict) > 0 {
			out.Placed = append(out.Placed, r.putOn(o, evict))
			continue
		}
		r.explainNode(out.Why, short, o.Node, r.usage(o.Node.Number))
		if n := len(out.Shortfalls); n > 0 && out.Shortfalls[n-1].Node == o.Node {
			out.Shortfalls[n-1].Count++
			out.Shortfalls[n-1].Why.CoalescedFailures++
			continue
		}
		out.Shortfalls = append(out.Shortfalls, r.shortfall(o.Node))
	}
	out.Why.NodesEvaluated = r.evaluated
	out.Why.Shortages = sortShortages(short)
	for keep := reasonsKept; keep > 0 && bound(out.Why, keep) > failureLen; keep-- {
	}
	return out
}

// putOn places an instance on its node, where it fits.
func (r *round) putOn(o *OnNode, evict []*berth.Alloc) berth.Placement {
	number := o.Node.Number
	grant := r.grant(r.draft(number), number, evict)
	r.peers = append(r.peers, peer{r.group, o.Index, o.Node, true, grant.Ports})
	r.filter.notePlaced(o.Node)
	return berth.Placement{Group: r.number, Index: o.Index, NodeID: o.Node.ID, Grant: grant, Previous: o.Previous, Evict: ids(evict)}
}

// shortfall says what a node lacks for an instance.
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

// NoNode explains that no node meets the conditions of the group with that
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

// emptyMetric is a metric that reasons are to be counted in.
func (r *round) emptyMetric() *berth.AllocMetric {
	m := r.newMetric()
	m.NodesAvailable, m.ClassFiltered, m.ConstraintFiltered = map[string]int{}, map[string]int{}, map[string]int{}
	m.ClassExhausted, m.DimensionExhausted = map[string]int{}, map[string]int{}
	return m
}

// sortShortages lists shortages, the most frequent first.
func sortShortages(short map[string]berth.Shortage) []berth.Shortage {
	return slices.SortedFunc(maps.Values(short), func(a, b berth.Shortage) int {
		if a.Nodes != b.Nodes {
			return b.Nodes - a.Nodes
		}
		return strings.Compare(a.Dimension, b.Dimension)
	})
}

// waitsFor is the dimension in which room must come for a shortage to end: any
// port that is given back may be the one.
func waitsFor(dimension string) string {
	switch {
	case strings.HasPrefix(dimension, fit.DimPort), strings.HasPrefix(dimension, fit.DimDynamic):
		return fit.DimDynamic
	case dimension == fit.DimNUMA:
		return fit.DimCores
	}
	return dimension
}

package place

import (
	"iter"

	"berth"
	"berth/internal/state"
)

// Verdict is what speaks against a ready node for one more instance of a
// group. With neither Unmet nor Short the node would take it.
type Verdict struct {
	Node      *berth.Node
	Unmet     []string // every condition it does not meet, as failures name them
	Shortages []berth.Shortage
	Score     float64 // what it would score if there were room
}

// Survey says it of every ready node, for the group with that number, after
// what was placed so far. It is for people: it looks at everything of every
// node, where placing stops at the first thing that is wrong.
func (p *Placer) Survey(number int) iter.Seq[Verdict] {
	r := p.round(number)
	if r.spread != nil { // the ideal numbers depend on all nodes
		r.rankBuffers = new(rankBuffers)
		r.scoreNodes()
	}
	return func(yield func(Verdict) bool) {
		for first, run := range r.snap.UsageColumns() {
			for i := range run {
				if !run[i].Ready {
					continue
				}
				number := first + uint32(i)
				n, u := r.snap.NodeByNumber(number), r.usage(number)
				v := Verdict{Node: n, Unmet: r.filter.unmet(n), Shortages: r.request.Shortfall(u), Score: r.scoreOf(number, u)}
				for i := range v.Shortages {
					v.Shortages[i].Holder = r.holder(n, v.Shortages[i].Dimension)
				}
				if !yield(v) {
					return
				}
			}
		}
	}
}

// unmet returns every condition that a node does not meet.
func (f *filter) unmet(n *berth.Node) (out []string) {
	if why := f.otherDatacenter(n); why != "" {
		out = append(out, why)
	}
	if why := f.otherPool(n); why != "" {
		out = append(out, why)
	}
	for _, d := range f.drivers {
		if why := lacksDriver(n, d); why != "" {
			out = append(out, why)
		}
	}
	for _, c := range f.byClass {
		if !holds(c.LTarget, c.Operand, c.RTarget, n) {
			out = append(out, c.String())
		}
	}
	out = append(out, f.needs.lacking(n, f.index)...)
	for _, c := range f.unique {
		if !holds(c.LTarget, c.Operand, c.RTarget, n) {
			out = append(out, c.String())
		}
	}
	if f.distinctHosts[n.ID] {
		out = append(out, berth.OpDistinctHosts)
	}
	for _, d := range f.distinct {
		if v, ok := resolve(d.constraint.LTarget, n); !ok || d.used[v] >= d.limit {
			out = append(out, d.constraint.String())
		}
	}
	return out
}

// Holder returns the allocation that has a port of a node's default host network, nil if none
// has: then it is the node's own, or free.
func Holder(snap *state.Snapshot, n *berth.Node, port uint16) *berth.Alloc {
	return holderOn(snap, n, berth.DefaultHostNetwork, port)
}

// holderOn is Holder for a port of any host network.
func holderOn(snap *state.Snapshot, n *berth.Node, network string, port uint16) *berth.Alloc {
	u := snap.Usage(n.Number)
	for a := range snap.AllocsOn(n.ID) {
		if a.Occupies() && u.Holds(a.Group, a.Ports, network, port) {
			return a
		}
	}
	return nil
}

// Meets says whether a node meets a constraint that looks at it alone.
func Meets(c berth.Constraint, n *berth.Node) bool { return holds(c.LTarget, c.Operand, c.RTarget, n) }

// Resolve returns what a target of a constraint stands for on a node.
func Resolve(target string, n *berth.Node) (string, bool) { return resolve(target, n) }

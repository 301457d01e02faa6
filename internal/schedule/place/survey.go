package place

import (
	"iter"
	"slices"

	"berth"
	"berth/internal/condition"
	"berth/internal/state"
)

// Verdict tells why a ready node cannot take one more instance of a group. If
// Unmet and Shortages are empty, it can.
type Verdict struct {
	Node      *berth.Node
	Unmet     []string // every unmet constraint, worded as in failures
	Shortages []berth.Shortage
	Score     float64 // the score it would have with enough capacity

	OtherDatacenter bool // it is in a datacenter that the job excludes, which Unmet says too
}

// Survey returns the verdict on every ready node for the group with that
// number, after earlier placements. It is meant for people: it checks
// everything on every node, while placing stops at the first obstacle.
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
				v.OtherDatacenter = !inDatacenters(r.filter.job.Datacenters, n.Datacenter)
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

// unmet returns every constraint that a node does not meet.
func (f *filter) unmet(n *berth.Node) (out []string) {
	if why := f.otherDatacenter(n); why != "" {
		out = append(out, why)
	}
	if why := f.otherPool(n); why != "" {
		out = append(out, why)
	}
	for _, d := range f.drivers {
		if _, why := unmetDriver(n, d); why != "" {
			out = append(out, why)
		}
	}
	// All are listed, where placing stops at the first.
	f.work.Spend(1)
	for i := range f.byClass {
		if c := &f.byClass[i]; !c.holds(n, f.work, f.group) {
			out = append(out, c.String())
		}
	}
	out = append(out, f.needs.lacking(n, f.index)...)
	for i := range f.unique {
		if c := &f.unique[i]; !c.holds(n, f.work, f.group) {
			out = append(out, c.String())
		}
	}
	if f.distinctHosts[n.ID] {
		out = append(out, berth.OpDistinctHosts)
	}
	for _, d := range f.distinct {
		if v, ok := condition.Resolve(d.constraint.LTarget, n, f.job.Region); !ok || d.used[v] >= d.limit {
			out = append(out, d.constraint.String())
		}
	}
	if f.dynamic {
		if why, kind := f.snap.VolumeLack(n, f.job, f.group, f.index); kind != state.LacksNothing && !slices.Contains(out, why) {
			out = append(out, why)
		}
	}
	return out
}

// Holder returns the allocation that holds a port of one of a node's host
// networks; nil if no allocation does, because the node reserves the port or it is
// free.
func Holder(snap *state.Snapshot, n *berth.Node, network string, port uint16) *berth.Alloc {
	u := snap.Usage(n.Number)
	for a := range snap.AllocsOn(n.ID) {
		if a.Occupies() && u.Holds(a.Group, a.Ports, network, port) {
			return a
		}
	}
	return nil
}

// Meets reports whether a node of a region meets a constraint that depends on the
// node alone.
func Meets(c berth.Constraint, n *berth.Node, region string) bool {
	return holds(c.LTarget, c.Operand, c.RTarget, n, region)
}

package place

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"berth"
	"berth/internal/fit"
)

// A decision about a group is explained once: a success by the scores of the
// best nodes, a failure by the reasons of all nodes. The size of an explanation
// is bounded.

const (
	scoresKept  = 3   // nodes whose scores are kept for a success
	reasonsKept = 20  // reasons of one kind that are kept for a failure
	reasonLen   = 200 // bytes of a reason
	failureLen  = 4096
	classesKept = 256 // node classes that a blocked evaluation remembers
)

// explainSuccess explains a success: the node chosen for the first instance,
// and the next best ones. The node to avoid is shown with its penalty.
func (r *round) explainSuccess(number uint32, p parts, avoid berth.NodeID) *berth.AllocMetric {
	m := r.newMetric()
	add := func(number uint32, p parts) {
		m.ScoreMetaData = append(m.ScoreMetaData, berth.NodeScore{
			NodeID: r.snap.NodeByNumber(number).ID, Scores: p.named(), NormScore: p.mean(),
		})
	}
	add(number, p)
	for _, c := range r.runnersUp() {
		if r.snap.NodeByNumber(c.number).ID == avoid {
			add(c.number, r.penalized(c.number))
		} else {
			add(c.number, r.score(c.number, r.usage(c.number)))
		}
	}
	slices.SortStableFunc(m.ScoreMetaData[1:], func(a, b berth.NodeScore) int { return cmp.Compare(b.NormScore, a.NormScore) })
	return m
}

// runnersUp returns the best of the remaining candidates without removing them.
func (r *round) runnersUp() []candidate {
	var top []candidate
	for i := range r.buckets.all {
		s := &r.buckets.all[i]
		term := r.spreadScore(s.combo)
		for _, c := range s.list {
			if s.divisor != 1 {
				c.score = (c.score + term) / s.divisor
			}
			if len(top) == scoresKept-1 && !c.before(top[len(top)-1]) {
				continue
			}
			at, _ := slices.BinarySearchFunc(top, c, func(a, b candidate) int {
				if a.before(b) {
					return -1
				}
				return 1
			})
			top = slices.Insert(top, at, c)
			top = top[:min(len(top), scoresKept-1)]
		}
	}
	return top
}

// newMetric returns a metric with the fields that successes and failures share.
func (r *round) newMetric() *berth.AllocMetric {
	return &berth.AllocMetric{NodesEvaluated: r.evaluated, NodePool: r.job.NodePool}
}

// explainFailure explains why n instances found no node. It checks every node
// again and in full, which costs more than placing; only failures pay for it.
func (r *round) explainFailure(n int) *berth.AllocMetric {
	m := r.newMetric()
	m.CoalescedFailures = n - 1
	m.NodesAvailable, m.ClassFiltered, m.ConstraintFiltered = map[string]int{}, map[string]int{}, map[string]int{}
	m.ClassExhausted, m.DimensionExhausted = map[string]int{}, map[string]int{}
	short := map[string]berth.Shortage{}
	for first, run := range r.snap.UsageColumns() {
		for i := range run {
			if number := first + uint32(i); run[i].Ready {
				r.explainNode(m, short, r.snap.NodeByNumber(number), r.usage(number))
			}
		}
	}
	m.Shortages = slices.SortedFunc(maps.Values(short), func(a, b berth.Shortage) int {
		return cmp.Or(cmp.Compare(b.Nodes, a.Nodes), strings.Compare(a.Dimension, b.Dimension))
	})
	for keep := reasonsKept; keep > 0; keep-- {
		if bound(m, keep) <= failureLen {
			break
		}
	}
	return m
}

// bound drops all but the most frequent reasons of each kind and returns the
// approximate size of the rest in bytes.
func bound(m *berth.AllocMetric, keep int) (size int) {
	m.Shortages = m.Shortages[:min(len(m.Shortages), keep)]
	for _, s := range m.Shortages {
		size += len(s.Dimension) + len(s.Holder) + 50
	}
	for _, counts := range []map[string]int{m.NodesAvailable, m.ClassFiltered, m.ConstraintFiltered, m.ClassExhausted, m.DimensionExhausted} {
		keepMost(counts, keep)
		for k := range counts {
			size += len(k) + 5
		}
	}
	return size
}

func (r *round) explainNode(m *berth.AllocMetric, short map[string]berth.Shortage, n *berth.Node, u *fit.Usage) {
	r.work.Spend(nodeSteps)
	if r.job.NodePool == berth.AllNodePool || r.job.NodePool == n.NodePool {
		m.NodesInPool++
	}
	m.NodesAvailable[n.Datacenter]++
	why := r.filter.class(u.Class)
	if why.kind == meetsAll {
		why = r.filter.node(n)
	}
	if why.kind != meetsAll {
		m.NodesFiltered++
		m.ConstraintFiltered[berth.Clip(why.unmet, reasonLen)]++
		if n.NodeClass != "" {
			m.ClassFiltered[berth.Clip(n.NodeClass, reasonLen)]++
		}
		return
	}
	lacks := r.request.Shortfall(u)
	if len(lacks) == 0 {
		return
	}
	m.NodesExhausted++
	if n.NodeClass != "" {
		m.ClassExhausted[berth.Clip(n.NodeClass, reasonLen)]++
	}
	for _, s := range lacks {
		m.DimensionExhausted[s.Dimension]++
		all, ok := short[s.Dimension]
		if ok {
			all.Nodes++
			all.Free = max(all.Free, s.Free)
		} else {
			all = s
			all.Holder = r.holder(n, s.Dimension)
		}
		short[s.Dimension] = all
	}
}

// holder returns the name of the instance that holds a static port of a node.
func (r *round) holder(n *berth.Node, dimension string) string {
	d := fit.ParseDimension(dimension)
	if d.Kind != fit.StaticPort {
		return ""
	}
	network, port, u := d.Network, d.Port, r.usage(n.Number)
	if u.Keeps(network, port) {
		return "the node itself"
	}
	for _, p := range r.peers {
		if p.now && p.node == n && u.Holds(p.group, p.ports, network, port) {
			return berth.AllocName(r.job.ID, p.group.Name, p.index)
		}
	}
	if a := Holder(r.snap, n, network, port); a != nil {
		return a.Name()
	}
	return ""
}

// keepMost drops all but the most frequent reasons.
func keepMost(counts map[string]int, keep int) {
	if len(counts) <= keep {
		return
	}
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), strings.Compare(a, b))
	})
	for _, n := range names[keep:] {
		delete(counts, n)
	}
}

// missed returns which changes of the cluster could help: in classes that meet
// the constraints, and in classes not seen yet.
func (r *round) missed(m *berth.AllocMetric) *berth.Missed {
	out := &berth.Missed{Classes: map[string]bool{}, Escaped: r.filter.perNode()}
	for number, v := range r.filter.verdict {
		if name := r.snap.ClassName(uint32(number)); name != "" && v.kind != unchecked {
			out.Classes[name] = v.kind == meetsAll
		}
	}
	if len(out.Classes) > classesKept { // too many classes: each node is checked
		out.Classes, out.Escaped = map[string]bool{}, true
	}
	for _, s := range m.Shortages {
		s.Dimension = waitsFor(s.Dimension)
		if !slices.Contains(out.Dimensions, s.Dimension) {
			out.Dimensions = append(out.Dimensions, s.Dimension)
		}
	}
	return out
}

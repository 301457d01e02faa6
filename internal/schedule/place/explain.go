package place

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"berth"
	"berth/internal/fit"
)

// A decision about a group is explained once: a success by how the best nodes
// scored, a failure by all that was wrong anywhere. What is kept of it is
// bounded.

const (
	scoresKept  = 3   // nodes whose scores are kept of a success
	reasonsKept = 20  // reasons of one kind that are kept of a failure
	reasonLen   = 200 // bytes of a reason
	failureLen  = 4096
	classesKept = 256 // classes of node that a blocked evaluation remembers
)

// explainSuccess explains a success: the node taken for the first instance, and the
// next best. The node to avoid is shown with what speaks against it.
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

// runnersUp returns the best of what is left, without disturbing it.
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

// newMetric returns what is the same for success and failure.
func (r *round) newMetric() *berth.AllocMetric {
	return &berth.AllocMetric{NodesEvaluated: r.evaluated, NodePool: r.job.NodePool}
}

// explainFailure says what was wrong with every node, after n instances found none.
// It looks at each node again: that is dearer than placing, and only failures
// pay for it.
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

// bound drops all but the most frequent reasons of each kind, and returns about
// how many bytes are left.
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
	if r.job.NodePool == berth.AllNodePool || r.job.NodePool == n.NodePool {
		m.NodesInPool++
	}
	m.NodesAvailable[n.Datacenter]++
	why := r.filter.class(u.Class)
	if why == meetsAll {
		why = r.filter.node(n)
	}
	if why != meetsAll {
		m.NodesFiltered++
		m.ConstraintFiltered[berth.Clip(why, reasonLen)]++
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

// holder names the instance that has a static port of a node.
func (r *round) holder(n *berth.Node, dimension string) string {
	text, ok := strings.CutPrefix(dimension, fit.DimPort)
	if !ok {
		return ""
	}
	text, network, named := strings.Cut(text, " on ")
	if !named {
		network = berth.DefaultHostNetwork
	}
	number, _ := strconv.Atoi(text)
	port, u := uint16(number), r.usage(n.Number)
	if u.Keeps(network, port) {
		return "the node itself"
	}
	for _, p := range r.peers {
		if p.now && p.node == n && u.Holds(p.group, p.ports, network, port) {
			return berth.AllocName(r.job.ID, p.group.Name, p.index)
		}
	}
	if a := holderOn(r.snap, n, network, port); a != nil {
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

// missed says which changes could help: of classes that meet the conditions,
// and of classes never seen.
func (r *round) missed(m *berth.AllocMetric) *berth.Missed {
	out := &berth.Missed{Classes: map[string]bool{}, Escaped: r.filter.perNode()}
	for number, v := range r.filter.verdict {
		if name := r.snap.ClassName(uint32(number)); name != "" && v != "" {
			out.Classes[name] = v == meetsAll
		}
	}
	if len(out.Classes) > classesKept { // nodes of so many kinds are asked one by one
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

package place

import "math"

// joint keeps two spread blocks from working against each other. Taken one by
// one, the value that each block lacks most can be on nodes whose other value
// has enough already, and the last instances then miss a target that could have
// been met. So the instances are first shared out over the combinations of
// values, as well as the room on their nodes allows. A combination that no
// sharing out of that quality uses is barred: it scores -1, like a value that
// should get nothing. All others score as before, so which of them is taken
// remains a matter of scores.
//
// How good a sharing out is, is the sum over all instances and both blocks of
// the block's score at the time when the instance comes to its value. These
// scores fall with each instance, so the best sum is a flow of minimal cost,
// and it is found by exchanges along cycles: from values of the first block to
// values of the second along combinations that have room, and back along those
// in use. A way from the source adds one to a value of the first block, a way to
// the sink adds one to a value of the second.
type joint struct {
	spreads *spreads
	arcs    []jointArc // by combination
	used    [2][]int   // by block and value: instances there, and those shared out
	fixed   [2][]int   // the part that is there
	cost    []float64  // by vertex: of the cheapest way from the start
	via     []jointStep
}

// jointArc is a combination of two values.
type jointArc struct {
	from, to int // its vertices
	room     int // for instances that are shared out
	shared   int // instances that are
}

// jointStep is how a vertex is reached: from where, and along which
// combination, which is -1 from and to source and sink.
type jointStep struct{ from, combo int }

// The vertices before those of values.
const (
	source = iota
	sink
	hubs // their number
)

// Where there are more combinations, sharing out would take longer than placing.
const maxJointCombos = 128

// even is the difference of costs that is a matter of rounding.
const even = 1e-9

// newJoint shares out instances over combinations with that much room. It is nil
// if there are not two blocks, or too many combinations.
func newJoint(s *spreads, instances int, room []int, work *Budget) *joint {
	if len(s.blocks) != 2 || len(s.combos) > maxJointCombos {
		return nil
	}
	j := &joint{spreads: s, arcs: make([]jointArc, len(s.combos))}
	vertices := hubs
	for b, x := range s.blocks {
		n := len(x.values) + 1 // the last is for nodes without the attribute
		j.used[b], j.fixed[b] = make([]int, n), make([]int, n)
		for v := range x.values {
			j.used[b][v], j.fixed[b][v] = x.values[v].used, x.values[v].used
		}
		vertices += n
	}
	for c := range s.combos {
		j.arcs[c] = jointArc{from: j.vertex(0, s.combos[c].values[0]), to: j.vertex(1, s.combos[c].values[1]), room: room[c]}
	}
	j.cost, j.via = make([]float64, vertices), make([]jointStep, vertices)
	for range instances {
		work.Spend(len(j.arcs))
		if !j.shareOne() {
			break
		}
	}
	return j
}

// vertex returns the vertex of a value of a block, which may be -1.
func (j *joint) vertex(block int, value int32) int {
	n := len(j.used[block])
	at := hubs + (int(value)+n)%n
	if block == 1 {
		at += len(j.used[0])
	}
	return at
}

// value returns block and value of a vertex other than source and sink.
func (j *joint) value(vertex int) (block, value int) {
	if vertex -= hubs; vertex >= len(j.used[0]) {
		return 1, vertex - len(j.used[0])
	}
	return 0, vertex
}

// gain returns what the n-th instance more or less of a vertex's value is worth.
func (j *joint) gain(vertex, n int) float64 {
	b, v := j.value(vertex)
	x := j.spreads.blocks[b]
	if v == len(j.used[b])-1 {
		return -x.weight
	}
	return x.weight * x.scoreAt(int32(v), n)
}

// more returns the cost of one more instance of a vertex's value.
func (j *joint) more(vertex int) float64 {
	b, v := j.value(vertex)
	return -j.gain(vertex, j.used[b][v])
}

// less returns the cost of one instance less, and whether there is one that was
// shared out.
func (j *joint) less(vertex int) (float64, bool) {
	b, v := j.value(vertex)
	if j.used[b][v] == j.fixed[b][v] {
		return 0, false
	}
	return j.gain(vertex, j.used[b][v]-1), true
}

// search finds the cheapest ways from a vertex to all others.
func (j *joint) search(start int) {
	for i := range j.cost {
		j.cost[i] = math.Inf(1)
	}
	j.cost[start] = 0
	for range j.cost { // as many rounds as a way can have steps
		if !j.relax(start) {
			return
		}
	}
}

// relax makes ways cheaper by one step, and reports whether any became so.
func (j *joint) relax(start int) (changed bool) {
	step := func(from, to, combo int, cost float64) {
		if at := j.cost[from] + cost; to != start && at < j.cost[to]-even {
			j.cost[to], j.via[to], changed = at, jointStep{from, combo}, true
		}
	}
	for c := range j.arcs {
		a := &j.arcs[c]
		if a.shared < a.room {
			step(a.from, a.to, c, 0)
		}
		if a.shared > 0 {
			step(a.to, a.from, c, 0)
		}
	}
	for v := hubs; v < len(j.cost); v++ {
		b, _ := j.value(v)
		from, to := source, v
		if b == 1 {
			from, to = v, sink
		}
		step(from, to, -1, j.more(v))
		if less, some := j.less(v); some {
			step(to, from, -1, less)
		}
	}
	return changed
}

// shareOne shares out one more instance at the least cost. It reports whether
// there was room.
func (j *joint) shareOne() bool {
	j.search(source)
	if math.IsInf(j.cost[sink], 1) {
		return false
	}
	j.walk(sink, source)
	return true
}

// walk exchanges instances along the way that was found from start to end.
func (j *joint) walk(end, start int) {
	for at := end; at != start; at = j.via[at].from {
		s := j.via[at]
		switch {
		case s.from == source:
			j.count(at, 1)
		case at == source:
			j.count(s.from, -1)
		case at == sink:
			j.count(s.from, 1)
		case s.from == sink:
			j.count(at, -1)
		case j.arcs[s.combo].from == s.from:
			j.arcs[s.combo].shared++
		default:
			j.arcs[s.combo].shared--
		}
	}
}

// count changes the instances of a vertex's value.
func (j *joint) count(vertex, n int) {
	b, v := j.value(vertex)
	j.used[b][v] += n
}

// allows reports whether the combination can get an instance without making the
// whole worse. If it can, one is shared out to it.
func (j *joint) allows(c int32) bool {
	if int(c) >= len(j.arcs) {
		return false
	}
	a := &j.arcs[c]
	if a.shared > 0 {
		return true
	}
	if a.room == 0 {
		return false
	}
	j.search(a.to)
	if j.cost[a.from] > even {
		return false
	}
	j.walk(a.from, a.to)
	a.shared++
	return true
}

// take notes that an instance was placed on the combination. It reports whether
// that was one of those that were shared out.
func (j *joint) take(c int32) bool {
	if !j.allows(c) {
		return false
	}
	a := &j.arcs[c]
	a.shared--
	a.room--
	for _, vertex := range [2]int{a.from, a.to} {
		b, v := j.value(vertex)
		j.fixed[b][v]++
	}
	return true
}

// shareOut begins to keep two blocks together, for that many instances. It
// needs the candidates of each combination.
func (r *round) shareOut(instances int) {
	r.spread.joint = nil
	if len(r.spread.blocks) != 2 || instances == 0 {
		return
	}
	room := make([]int, len(r.spread.combos))
	for i := range r.buckets.all {
		s := &r.buckets.all[i]
		for _, c := range s.list {
			if room[s.combo] >= instances {
				break
			}
			room[s.combo] += r.roomOn(c.number)
		}
	}
	r.spread.joint = newJoint(r.spread, instances, room, r.work)
}

// roomOn returns for how many instances a node has room, or a few too many: what
// is counted by name is left out.
func (r *round) roomOn(number uint32) int {
	if r.filter.distinctHosts != nil || len(r.request.Static) > 0 {
		return 1
	}
	u := r.usage(number)
	n := int64(math.MaxInt32)
	for _, x := range [3][3]int64{
		{r.request.CPU, u.Used.CPU, u.Capacity.CPU},
		{r.request.MemoryMB, u.Used.MemoryMB, u.Capacity.MemoryMB},
		{r.request.DiskMB, u.Used.DiskMB, u.Capacity.DiskMB},
	} {
		if x[0] > 0 {
			n = min(n, (x[2]-x[1])/x[0])
		}
	}
	if most := r.config.MaxStartsPerNode; most > 0 {
		n = min(n, int64(most))
	}
	return int(max(n, 1))
}

// keepsTogether reports whether an instance may go to the combination without
// making the blocks miss a target that they could meet. A combination that may
// not is barred from now on: as instances are placed, fewer and fewer ways are
// left.
func (s *spreads) keepsTogether(c int32) bool {
	if s.joint == nil || s.combos[c].barred || s.joint.allows(c) {
		return true
	}
	s.combos[c].barred = true
	s.rescore(c)
	return false
}

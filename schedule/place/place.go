// Package place says which node: it looks at every node, keeps those that meet
// a group's conditions and have room, and takes the best, exactly. Where none
// is left it says what was wrong with each, with numbers. Which instances want
// a place is the business of package reconcile; whether a placement still fits
// when it is committed, that of the state, by the same arithmetic.
package place

import (
	"slices"
	"sync"

	"berth"
	"berth/state"
)

// Instance is one instance of a group that wants a place.
type Instance struct {
	Index    uint32
	Previous berth.AllocID
	Avoid    berth.NodeID // where the one it replaces failed: taken only if no other is better
	Failed   bool         // it counts as a reschedule of Previous
}

// Placer places the groups of one job, one after another: what is placed first
// takes its room from what comes later, and keeps it apart where conditions
// say so.
type Placer struct {
	snap  *state.Snapshot
	job   *berth.Job
	seed  uint64
	edit  uint64
	taken map[uint32]*state.Usage // by node number: lines changed by what was placed
	peers []peer
}

// peer is an instance of the job: one that runs and stays, or one that was
// placed just now.
type peer struct {
	group *berth.TaskGroup // of the version that it runs
	index uint32
	node  *berth.Node
	now   bool     // placed just now
	ports []uint16 // if placed just now: its dynamic ports
}

// New returns a placer of a job on a snapshot. What leaving stops keeps nobody
// apart any more and repels nobody, though it holds its room until its end is
// confirmed. Ties between nodes are broken by the seed.
func New(snap *state.Snapshot, job *berth.Job, leaving []berth.AllocStop, seed uint64) *Placer {
	p := &Placer{snap: snap, job: job, seed: seed, edit: state.NewEdit(), taken: map[uint32]*state.Usage{}}
	stops := make(map[berth.AllocID]bool, len(leaving))
	for _, s := range leaving {
		stops[s.ID] = s.FollowupEval.IsZero() // with one it stays
	}
	for a := range snap.AllocsOf(job.Key()) {
		if !a.Live() || a.Job.UID != job.UID || stops[a.ID] {
			continue
		}
		if n := snap.Node(a.NodeID); n != nil {
			p.peers = append(p.peers, peer{group: a.Group, index: a.Index, node: n})
		}
	}
	return p
}

// Outcome is what became of a group.
type Outcome struct {
	Placed []berth.Placement
	Failed int // instances without a place
	// Why explains: with Failed what was missing where, else how the nodes of
	// the first instance scored. Never nil.
	Why *berth.AllocMetric
	// Missed says what would help, if any instance failed.
	Missed *berth.Missed
}

// Group places instances of the group with that number.
func (p *Placer) Group(number int, instances []Instance) Outcome {
	r := p.round(number)
	room := rooms.Get().(*candidates)
	defer func() { *room = r.best[:0]; rooms.Put(room) }()
	r.best = *room
	r.look()
	if len(instances) == 1 && instances[0].Avoid.IsZero() && len(r.best) > 0 {
		r.best.bestFirst()
	} else {
		r.best.init()
	}
	return r.run(instances)
}

// round prepares to place instances of the group with that number.
func (p *Placer) round(number int) *round {
	g := p.job.TaskGroups[number]
	r := &round{
		Placer: p, number: number, group: g, want: state.WantOf(g), filter: newFilter(p, g),
		affinity: newAffinities(p.snap, p.job, g), siblings: map[uint32]int{},
	}
	for _, x := range p.peers {
		if x.group.Name == g.Name {
			r.siblings[x.node.Number]++
		}
	}
	return r
}

// rooms are used again: a list of all nodes for each group that is placed would
// be most of what a decision allocates.
var rooms = sync.Pool{New: func() any { return new(candidates) }}

// round places the instances of one group.
type round struct {
	*Placer
	number    int
	group     *berth.TaskGroup
	want      state.Want
	filter    *filter
	affinity  *affinities
	siblings  map[uint32]int // by node number: instances of the group there
	best      candidates
	evaluated int
	fit       fit
}

// candidate is a node that could take an instance.
type candidate struct {
	score  float64
	tie    uint64
	number uint32
}

func (a candidate) before(b candidate) bool {
	return a.score > b.score || a.score == b.score && a.tie < b.tie
}

// candidates is a heap, the best first.
type candidates []candidate

func (h candidates) init() {
	for i := len(h)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
}

// bestFirst brings the best to the front and leaves the rest as it is: enough
// to take one.
func (h candidates) bestFirst() {
	best := 0
	for i := range h {
		if h[i].before(h[best]) {
			best = i
		}
	}
	h[0], h[best] = h[best], h[0]
}

func (h candidates) down(i int) {
	for {
		c := 2*i + 1
		if c >= len(h) {
			return
		}
		if c+1 < len(h) && h[c+1].before(h[c]) {
			c++
		}
		if !h[c].before(h[i]) {
			return
		}
		h[i], h[c] = h[c], h[i]
		i = c
	}
}

func (h *candidates) pop() {
	n := len(*h) - 1
	(*h)[0] = (*h)[n]
	*h = (*h)[:n]
	h.down(0)
}

func (h *candidates) push(c candidate) {
	*h = append(*h, c)
	for i := len(*h) - 1; i > 0; {
		up := (i - 1) / 2
		if !(*h)[i].before((*h)[up]) {
			return
		}
		(*h)[i], (*h)[up] = (*h)[up], (*h)[i]
		i = up
	}
}

// line returns the usage of a node with what was placed so far.
func (p *Placer) line(number uint32) *state.Usage {
	if u := p.taken[number]; u != nil {
		return u
	}
	return p.snap.Usage(number)
}

// look scores every node that can take an instance.
func (r *round) look() {
	perNode := r.filter.perNode()
	r.best = slices.Grow(r.best, r.snap.Count(state.Nodes))
	for first, run := range r.snap.UsageColumns() {
		for i := range run {
			u := &run[i]
			if !u.Ready {
				continue
			}
			r.evaluated++
			number := first + uint32(i)
			if len(r.taken) > 0 {
				u = r.line(number)
			}
			if r.filter.class(u.Class) != meetsAll || !r.want.Fits(u) {
				continue
			}
			if perNode && r.filter.node(r.snap.NodeByNumber(number)) != meetsAll {
				continue
			}
			r.best = append(r.best, candidate{r.score(number, u).mean(), r.tie(number), number})
		}
	}
}

// score returns what the scorers say of a node, but for penalties, which are
// about single instances.
func (r *round) score(number uint32, u *state.Usage) parts {
	p := parts{binpack: r.fit.of(u, r.want.Ask)}
	if n := r.siblings[number]; n > 0 {
		p.anti = -float64(n+1) / float64(max(r.group.Count, 1))
	}
	if len(r.affinity.list) > 0 {
		p.affinity, p.hasAff = r.affinity.of(u.Class, r.snap.NodeByNumber(number)), true
	}
	return p
}

// tie spreads equal nodes: two evaluations do not rush to the same one.
func (r *round) tie(number uint32) uint64 {
	x := r.seed ^ uint64(number)*0x9e3779b97f4a7c15
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

func (r *round) run(instances []Instance) (out Outcome) {
	for i, in := range instances {
		number, p, ok := r.take(in.Avoid)
		if !ok {
			out.Failed = len(instances) - i // the others would fail for the same reasons
			out.Why = r.explain(out.Failed)
			out.Missed = r.missed(out.Why)
			return out
		}
		if i == 0 {
			out.Why = r.chosen(number, p, in.Avoid)
		}
		out.Placed = append(out.Placed, r.put(in, number, p))
	}
	if out.Why == nil {
		out.Why = &berth.AllocMetric{NodesEvaluated: r.evaluated}
	}
	return out
}

// take removes the best candidate for an instance that failed on the node to
// avoid. What the heap says of a node can be out of date where conditions keep
// instances apart; such nodes are dropped as they come up.
func (r *round) take(avoid berth.NodeID) (number uint32, p parts, ok bool) {
	var penalized *candidate
	perNode := r.filter.perNode()
	for len(r.best) > 0 {
		c := r.best[0]
		n := r.snap.NodeByNumber(c.number)
		if perNode && r.filter.node(n) != meetsAll {
			r.best.pop()
			continue
		}
		if penalized == nil && n.ID == avoid {
			penalized = &candidate{r.penalized(c.number).mean(), c.tie, c.number}
			r.best.pop()
			continue
		}
		if penalized != nil && penalized.before(c) {
			break
		}
		r.best.pop()
		if penalized != nil {
			r.push(penalized.number)
		}
		return c.number, r.score(c.number, r.line(c.number)), true
	}
	if penalized == nil {
		return 0, p, false
	}
	return penalized.number, r.penalized(penalized.number), true
}

// penalized returns the score of a node for an instance that failed there.
func (r *round) penalized(number uint32) parts {
	p := r.score(number, r.line(number))
	p.penalty = true
	return p
}

// push puts a node back on the heap if another instance fits there.
func (r *round) push(number uint32) {
	u := r.line(number)
	if r.want.Fits(u) {
		r.best.push(candidate{r.score(number, u).mean(), r.tie(number), number})
	}
}

// put places an instance on a node where it fits.
func (r *round) put(in Instance, number uint32, p parts) berth.Placement {
	u := r.taken[number]
	if u == nil {
		line := *r.snap.Usage(number)
		u = &line
		r.taken[number] = u
	}
	n := r.snap.NodeByNumber(number)
	grant := u.Place(r.edit, &r.want, uint32(r.tie(number)>>33))
	r.siblings[number]++
	r.peers = append(r.peers, peer{r.group, in.Index, n, true, grant.Ports})
	r.filter.taken(n)
	r.push(number)
	return berth.Placement{
		Group: r.number, Index: in.Index, NodeID: n.ID, Grant: grant, Score: float32(p.mean()),
		Previous: in.Previous, Resched: in.Failed,
	}
}

package place

import (
	"math"
	"slices"

	"berth"
	"berth/internal/fit"
)

// round places the instances of one group.
type round struct {
	*Placer
	number   int
	group    *berth.TaskGroup
	want     fit.Request
	filter   *filter
	gauge    gauge
	affinity *affinities
	apart    bool     // instances of the group repel one another
	devices  bool     // some are preferred
	spread   *spreads // nil without spread blocks
	keep     int      // candidates to keep of each shelf
	*desk
	capped    []uint32 // nodes that could take more, but have as many starts as one plan may give them
	lifted    bool     // none but capped nodes were left, so the cap is off
	options   []*eviction
	hunted    bool // options is all there is
	awaited   int  // instances for which the job itself makes room
	evaluated int
}

// classView is what nodes of one class have in common for the group.
type classView struct {
	asked, meets bool
	affinity     float64
	shelf        int32 // where its nodes go, if all that is said of them is their fit and the affinity
}

// round prepares to place instances of the group with that number.
func (p *Placer) round(number int) *round {
	g := p.job.TaskGroups[number]
	r := &round{
		Placer: p, number: number, group: g, want: fit.RequestOf(g), filter: newFilter(p, g),
		affinity: newAffinities(p.snap, p.job, g), spread: newSpreads(p, g),
	}
	p.begin()
	r.gauge = newGauge(p.config.SchedulerAlgorithm, r.want.Ask)
	r.devices = prefersDevices(g)
	// The balanced algorithm is chosen for packing, and nothing is lost with a
	// node that is not lost with the batch.
	r.apart = !r.gauge.balanced || p.job.Type != berth.TypeBatch
	for _, x := range p.peers {
		if x.group.Name == g.Name {
			r.siblings[x.node.Number]++
		}
	}
	return r
}

// place places the instances.
func (r *round) place(instances []Instance) Outcome {
	r.desk = desks.Get().(*desk)
	defer func() { r.desk.clear(); desks.Put(r.desk) }()
	r.keep = r.enough(instances)
	r.look()
	return r.run(instances)
}

// enough is how many of the best nodes are worth keeping. What is placed
// changes the scores of the nodes it is placed on and of no others, so n
// instances never take more than the n best of those that nothing was placed
// on, and one more for each node that some of them avoid; the explanation of
// the first has a few more. Only where a placement can make other nodes unusable all
// must be kept.
func (r *round) enough(instances []Instance) int {
	if len(r.filter.distinct) > 0 {
		return math.MaxInt/2 - 16
	}
	n := max(len(instances), scoresKept)
	for i := range instances {
		if !instances[i].Avoid.IsZero() {
			n++
		}
	}
	return n
}

// look scores every node that can take an instance.
func (r *round) look() {
	if r.spread == nil {
		r.shelves.add(0, 1)
	}
	for n := range r.taken {
		r.odd.add(n)
	}
	for n := range r.siblings {
		r.odd.add(n)
	}
	if r.filter.distinctHosts != nil {
		for i := range r.peers {
			r.odd.add(r.peers[i].node.Number)
		}
	}
	alone := len(r.filter.single)+len(r.filter.distinct) > 0 || r.filter.bars != nil || r.affinity.single || r.spread != nil && r.spread.single || r.want.HasNamed()
	for first, run := range r.snap.UsageColumns() {
		for i := range run {
			u := &run[i]
			if !u.Ready {
				continue
			}
			r.evaluated++
			number := first + uint32(i)
			c := &r.classes[u.Class]
			if !c.asked {
				r.ask(c, u.Class, number)
			}
			if !c.meets {
				continue
			}
			if alone || len(r.odd) > 0 && r.odd.has(number) {
				r.lookAlone(number)
				continue
			}
			// A node without room for what all ask for would score above 1.
			if u.Used.CPU+r.want.CPU > u.Capacity.CPU || u.Used.MemoryMB+r.want.MemoryMB > u.Capacity.MemoryMB {
				continue
			}
			if r.gauge.cpuRoom != u.Capacity.CPU || r.gauge.memoryRoom != u.Capacity.MemoryMB {
				r.gauge.turn(u)
			}
			score := r.gauge.plain(u)
			if r.gauge.balanced {
				score = r.gauge.balance(u, score)
			}
			if c.affinity != 0 {
				score += c.affinity
				if r.spread == nil {
					score /= 2
				}
			}
			s := &r.shelves.all[c.shelf]
			if score < s.floor.score {
				continue
			}
			x := candidate{score, uint32(r.tie(number) >> 32), number}
			if !x.before(s.floor) || !r.want.Fits(u) {
				continue
			}
			if r.spread != nil && len(s.list) == 0 {
				r.spread.see(s.combo)
			}
			s.offer(x, r.keep)
		}
	}
	if r.spread != nil {
		r.spread.settle()
	}
	r.shelves.start(r.term)
}

// ask works out what holds for all nodes of a class, of which one is given.
func (r *round) ask(c *classView, class, number uint32) {
	c.asked = true
	if c.meets = r.filter.class(class) == meetsAll; !c.meets {
		return
	}
	voices := 1.0
	if len(r.affinity.list) > 0 && !r.affinity.single {
		if c.affinity = r.affinity.of(class, r.snap.NodeByNumber(number)); c.affinity != 0 {
			voices++
		}
	}
	if r.spread != nil && !r.spread.single {
		c.shelf = r.shelf(r.spread.comboOn(class, r.snap.NodeByNumber(number)), voices)
	}
}

// lookAlone looks at a node that must be asked by itself: for a condition or
// preference that is not its class's to answer, or for what is there already.
func (r *round) lookAlone(number uint32) {
	u := r.line(number)
	if !r.want.Fits(u) || r.filter.perNode() && r.filter.node(r.snap.NodeByNumber(number)) != meetsAll {
		return
	}
	if r.spread != nil {
		r.spread.see(r.spread.comboOn(u.Class, r.snap.NodeByNumber(number)))
	}
	if r.full(number) {
		r.capped = append(r.capped, number)
		return
	}
	n, c := r.candidate(number, u)
	r.shelves.all[n].offer(c, r.keep)
}

// full says that a node has as many starts as one plan may give it.
func (r *round) full(number uint32) bool {
	return r.starts != nil && !r.lifted && r.starts[number] >= r.config.MaxStartsPerNode
}

// candidate scores a node for the shelf on which it belongs.
func (r *round) candidate(number uint32, u *fit.Usage) (shelf int32, c candidate) {
	p := r.score(number, u)
	c = candidate{tie: uint32(r.tie(number) >> 32), number: number}
	if r.spread == nil {
		c.score = p.mean()
		return 0, c
	}
	p.said &^= 1 << bySpread
	sum, voices := p.sum()
	c.score = sum
	return r.shelf(r.spread.comboOn(u.Class, r.snap.NodeByNumber(number)), voices), c
}

// shelf returns the number of the shelf for a combination of values, of nodes
// of which so many scorers speak beside that of spread.
func (r *round) shelf(combo int32, voices float64) int32 {
	at := &r.spread.combos[combo].shelves[int(voices)]
	if *at == 0 {
		*at = 1 + r.shelves.add(combo, voices+1)
	}
	return *at - 1
}

// term returns the word of the spread scorer for a combination of values.
func (r *round) term(combo int32) float64 {
	if r.spread == nil {
		return 0
	}
	return r.spread.term(combo)
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
	out.Placed = make([]berth.Placement, 0, len(instances))
	r.peers = slices.Grow(r.peers, len(instances))
	for i := range instances {
		in := &instances[i]
		number, p, ok := r.take(in.Avoid)
		var evict []*berth.Alloc
		if !ok {
			number, p, evict, ok = r.evict(in.Avoid, len(instances)-i)
		}
		if !ok {
			out.Failed = len(instances) - i // the others would fail for the same reasons
			out.Why = r.explain(out.Failed)
			out.Missed = r.missed(out.Why)
			return out
		}
		if i == 0 {
			out.Chosen = r.chosen(number, p, in.Avoid)
			out.Why = out.Chosen
		}
		out.Placed = append(out.Placed, r.put(in, number, p, evict))
	}
	if out.Why == nil {
		out.Why = &berth.AllocMetric{NodesEvaluated: r.evaluated}
	}
	return out
}

// take removes the best candidate for an instance that failed on the node to
// avoid. What a shelf says of a node can be out of date where conditions keep
// instances apart; such nodes are dropped as they come up.
func (r *round) take(avoid berth.NodeID) (number uint32, p parts, ok bool) {
	var penalized *candidate
	perNode := r.filter.perNode()
	for {
		s := r.shelves.first()
		if s == nil || len(s.list) == 0 {
			if penalized != nil || !r.lift() {
				break
			}
			continue
		}
		c := s.best
		n := r.snap.NodeByNumber(c.number)
		if perNode && r.filter.node(n) != meetsAll {
			r.drop(s)
			continue
		}
		if penalized == nil && n.ID == avoid {
			p := r.penalized(c.number)
			penalized = &candidate{p.mean(), c.tie, c.number}
			r.drop(s)
			continue
		}
		if penalized != nil && penalized.before(c) {
			break
		}
		r.drop(s)
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

// drop removes the first from a shelf.
func (r *round) drop(s *shelf) {
	s.list.pop()
	r.shelves.fix(s, r.term)
}

// lift takes the cap off when no other nodes are left, and says whether that
// helps: the cap spreads starts, it never makes a placement fail.
func (r *round) lift() bool {
	if r.lifted || len(r.capped) == 0 {
		return false
	}
	r.lifted = true
	for _, n := range r.capped {
		r.push(n)
	}
	return true
}

// penalized returns the score of a node for an instance that failed there.
func (r *round) penalized(number uint32) parts {
	p := r.score(number, r.line(number))
	p.say(byPenalty, -1)
	return p
}

// push puts a node back if another instance fits there.
func (r *round) push(number uint32) {
	u := r.line(number)
	switch {
	case !r.want.Fits(u):
	case r.full(number):
		r.capped = append(r.capped, number)
	default:
		known := len(r.shelves.all)
		n, c := r.candidate(number, u)
		s := &r.shelves.all[n]
		s.list.push(c)
		if int(n) == known {
			r.shelves.enter(n)
		}
		r.shelves.fix(s, r.term)
	}
}

// put places an instance on a node where it fits, if need be after others were
// evicted.
func (r *round) put(in *Instance, number uint32, p parts, evict []*berth.Alloc) berth.Placement {
	u, n := r.own(number), r.snap.NodeByNumber(number)
	grant := r.grant(u, number, evict)
	if r.starts != nil {
		r.starts[number]++
	}
	r.siblings[number]++
	r.peers = append(r.peers, peer{r.group, in.Index, n, true, grant.Ports})
	r.filter.taken(n)
	if r.spread != nil {
		r.spread.add(r.spread.comboOn(u.Class, n), r.respread)
	}
	r.push(number)
	return berth.Placement{
		Group: r.number, Index: in.Index, NodeID: n.ID, Grant: grant, Score: float32(p.mean()),
		Previous: in.Previous, Resched: in.Failed, Evict: ids(evict),
	}
}

// grant takes the room for an instance out of a node's line.
func (r *round) grant(u *fit.Draft, number uint32, evict []*berth.Alloc) berth.Grant {
	at := uint32(r.tie(number) >> 33)
	if len(evict) > 0 {
		return u.PlaceOver(&r.want, at, evict)
	}
	return u.Place(&r.want, at)
}

// respread puts the shelves of a combination where they belong now.
func (r *round) respread(combo int32) {
	for _, at := range r.spread.combos[combo].shelves {
		if at > 0 {
			r.shelves.fix(&r.shelves.all[at-1], r.term)
		}
	}
}

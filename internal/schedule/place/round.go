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
	number       int // of the group in the job
	group        *berth.TaskGroup
	request      fit.Request // what one instance asks for
	filter       *filter
	fitness      fitScorer
	affinity     *affinities
	antiAffinity bool     // instances of the group repel one another
	devices      bool     // the group prefers some devices
	spread       *spreads // nil without spread blocks
	keep         int      // candidates to keep in each bucket
	*rankBuffers
	capped       []uint32      // nodes that could take more, but have reached MaxStartsPerNode
	capLifted    bool          // only capped nodes were left, so the cap no longer applies
	options      []*preemption // nodes where preemption would help
	optionsFound bool          // options was computed
	awaited      int           // instances for which the job itself frees capacity
	evaluated    int           // nodes looked at, for the explanation
	quotaAsk     []int64       // what one instance counts for the quota
}

// classView is what nodes of one class have in common for the group.
type classView struct {
	asked, meets bool
	affinity     float64
	bucket       int32 // of its nodes, if only fit and affinity score them
}

// round prepares to place instances of the group with that number.
func (p *Placer) round(number int) *round {
	g := p.job.TaskGroups[number]
	r := &round{
		Placer: p, number: number, group: g, request: fit.RequestOf(g), filter: newFilter(p, g),
		affinity: newAffinities(p.snap, p.job, g, p.work), spread: newSpreads(p, g),
	}
	if p.quota != nil {
		r.quotaAsk = p.quota.Of(p.job, g)
	}
	p.resetGroup()
	r.fitness = newFitScorer(p.config.SchedulerAlgorithm, r.request.Ask)
	r.devices = prefersDevices(g)
	// The balanced algorithm is chosen for packing, and losing a node that runs
	// several instances costs a batch nothing but time.
	r.antiAffinity = !r.fitness.balanced || p.job.Type != berth.TypeBatch
	for _, x := range p.peers {
		if x.group.Name == g.Name {
			r.siblings[x.node.Number]++
		}
	}
	return r
}

// place places the instances.
func (r *round) place(instances []Instance) Outcome {
	r.rankBuffers = rankPool.Get().(*rankBuffers)
	defer func() { r.rankBuffers.clear(); rankPool.Put(r.rankBuffers) }()
	r.keep = r.candidatesNeeded(instances)
	r.scoreNodes()
	if r.spread != nil {
		r.shareOut(len(instances))
	}
	return r.placeEach(instances)
}

// candidatesNeeded returns how many of the best nodes must be kept. A placement
// changes only the score of its own node, so n instances use at most the n best
// untouched nodes, plus one for each node to avoid or to prefer, plus a few for the
// explanation of the first. If a placement can make other nodes unusable, all
// must be kept.
func (r *round) candidatesNeeded(instances []Instance) int {
	if len(r.filter.distinct) > 0 {
		return math.MaxInt/2 - 16
	}
	n := max(len(instances), scoresKept)
	for i := range instances {
		if !instances[i].Avoid.IsZero() {
			n++
		}
		if !instances[i].Prefer.IsZero() {
			n++
		}
	}
	return n
}

// scoreNodes scores every node that can take an instance.
func (r *round) scoreNodes() {
	if r.spread == nil {
		r.buckets.add(0, 1)
	}
	// Nodes whose usage this plan changes, or whose score depends on instances,
	// cannot be scored by their class and columns alone.
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
	// If anything depends on the single node, all are scored one by one.
	alone := len(r.filter.unique)+len(r.filter.distinct) > 0 || r.filter.excludes != nil || r.affinity.unique || r.spread != nil && r.spread.unique || r.request.HasNamed()
	for first, run := range r.snap.UsageColumns() {
		r.work.Spend(len(run))
		for i := range run {
			u := &run[i]
			if !u.Ready {
				continue
			}
			r.evaluated++
			// Shared constraints and affinities are judged once per class.
			number := first + uint32(i)
			c := &r.classes[u.Class]
			if !c.asked {
				r.classify(c, u.Class, number)
			}
			if !c.meets {
				continue
			}
			if alone || len(r.odd) > 0 && r.odd.has(number) {
				r.scoreNode(number)
				continue
			}
			// A node without free CPU or memory would score above 1.
			if u.Used.CPU+r.request.CPU > u.Capacity.CPU || u.Used.MemoryMB+r.request.MemoryMB > u.Capacity.MemoryMB {
				continue
			}
			if r.fitness.cpuCapacity != u.Capacity.CPU || r.fitness.memoryCapacity != u.Capacity.MemoryMB {
				r.fitness.setSize(u)
			}
			score := r.fitness.powerScore(u)
			if r.fitness.balanced {
				score = r.fitness.balance(u, score)
			}
			if c.affinity != 0 {
				score += c.affinity
				if r.spread == nil {
					score /= 2
				}
			}
			// Most nodes are dropped by their score, before the tie-break is
			// computed and the full ask compared.
			s := &r.buckets.all[c.bucket]
			if score < s.floor.score {
				continue
			}
			x := candidate{score, uint32(r.tie(number) >> 32), number}
			if !x.before(s.floor) || !r.request.Fits(u) {
				continue
			}
			if r.spread != nil && len(s.list) == 0 {
				r.spread.noteSeen(s.combo)
			}
			s.offer(x, r.keep)
		}
	}
	// Only now is it known which values of an attribute have nodes at all.
	if r.spread != nil {
		r.spread.setIdeals()
	}
	r.buckets.start(r.spreadScore)
}

// classify computes what holds for all nodes of a class; number is one of them.
func (r *round) classify(c *classView, class, number uint32) {
	c.asked = true
	if c.meets = r.filter.class(class).kind == meetsAll; !c.meets {
		return
	}
	voices := 1.0
	if len(r.affinity.list) > 0 && !r.affinity.unique {
		if c.affinity = r.affinity.score(class, r.snap.NodeByNumber(number)); c.affinity != 0 {
			voices++
		}
	}
	if r.spread != nil && !r.spread.unique {
		c.bucket = r.bucketFor(r.spread.comboOn(class, r.snap.NodeByNumber(number)), voices)
	}
}

// What is counted for work that depends on a single node or instance, in steps.
const (
	nodeSteps  = 2  // scoring a node by itself
	pickSteps  = 16 // picking its cores and devices
	placeSteps = 8  // placing an instance
)

// scoreNode scores a node that its class does not represent: because of a
// constraint or preference that depends on the node, or of what is already
// placed there.
func (r *round) scoreNode(number uint32) {
	r.work.Spend(nodeSteps)
	if r.request.HasNamed() {
		r.work.Spend(pickSteps)
	}
	u := r.usage(number)
	if !r.request.Fits(u) || r.filter.perNode() && r.filter.node(r.snap.NodeByNumber(number)).kind != meetsAll {
		return
	}
	if r.spread != nil {
		r.spread.noteSeen(r.spread.comboOn(u.Class, r.snap.NodeByNumber(number)))
	}
	if r.atStartCap(number) {
		r.capped = append(r.capped, number)
		return
	}
	n, c := r.candidate(number, u)
	r.buckets.all[n].offer(c, r.keep)
}

// atStartCap reports whether a node has as many starts as one plan may give it.
func (r *round) atStartCap(number uint32) bool {
	return r.starts != nil && !r.capLifted && r.starts[number] >= r.config.MaxStartsPerNode
}

// candidate scores a node and returns the bucket it belongs to.
func (r *round) candidate(number uint32, u *fit.Usage) (bucket int32, c candidate) {
	p := r.score(number, u)
	c = candidate{tie: uint32(r.tie(number) >> 32), number: number}
	if r.spread == nil {
		c.score = p.mean()
		return 0, c
	}
	p.given &^= 1 << bySpread
	sum, voices := p.sum()
	c.score = sum
	return r.bucketFor(r.spread.comboOn(u.Class, r.snap.NodeByNumber(number)), voices), c
}

// bucketFor returns the number of the bucket for nodes with a combination of
// values and that many scorers besides spread.
func (r *round) bucketFor(combo int32, voices float64) int32 {
	at := &r.spread.combos[combo].buckets[int(voices)]
	if *at == 0 {
		*at = 1 + r.buckets.add(combo, voices+1)
	}
	return *at - 1
}

// spreadScore returns the spread score of a combination of values.
func (r *round) spreadScore(combo int32) float64 {
	if r.spread == nil {
		return 0
	}
	return r.spread.score(combo)
}

// tie returns the tie-break of a node. It depends on the seed, so that two
// evaluations do not crowd onto the same node.
func (r *round) tie(number uint32) uint64 {
	x := r.seed ^ uint64(number)*0x9e3779b97f4a7c15
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// placeEach places the instances one by one, each on the node that is best
// after those before it. It stops at the first that finds no node, not even by
// preemption.
func (r *round) placeEach(instances []Instance) (out Outcome) {
	out.Placed = make([]berth.Placement, 0, len(instances))
	r.peers = slices.Grow(r.peers, len(instances))
	for i := range instances {
		in := &instances[i]
		r.work.Spend(placeSteps)
		if lacks := r.quotaLacks(); len(lacks) > 0 {
			out.Failed = len(instances) - i
			out.Why, out.Missed = r.explainQuota(out.Failed, lacks)
			return out
		}
		number, p, ok := r.takePreferred(in.Prefer)
		if !ok {
			number, p, ok = r.take(in.Avoid)
		}
		var victims []*berth.Alloc
		if !ok {
			number, p, victims, ok = r.preempt(in.Avoid, len(instances)-i)
		}
		if !ok {
			out.Failed = len(instances) - i // the rest would fail for the same reasons
			if r.later {
				out.Why, out.Missed = &berth.AllocMetric{}, &berth.Missed{Classes: map[string]bool{}}
				return out
			}
			out.Why = r.explainFailure(out.Failed)
			out.Missed = r.missed(out.Why)
			return out
		}
		if i == 0 && !r.later {
			out.Chosen = r.explainSuccess(number, p, in.Avoid)
			out.Why = out.Chosen
		}
		out.Placed = append(out.Placed, r.put(in, number, p, victims))
	}
	if out.Why == nil {
		out.Why = &berth.AllocMetric{NodesEvaluated: r.evaluated}
	}
	return out
}

// takePreferred removes the candidate of a node if it can take an instance now,
// whatever its score.
func (r *round) takePreferred(id berth.NodeID) (number uint32, p parts, ok bool) {
	if id.IsZero() {
		return 0, p, false
	}
	r.work.Spend(nodeSteps)
	n := r.snap.Node(id)
	if n == nil || !n.Ready() {
		return 0, p, false
	}
	number = n.Number
	u := r.usage(number)
	if r.filter.class(u.Class).kind != meetsAll || r.filter.node(n).kind != meetsAll || !r.request.Fits(u) || r.atStartCap(number) {
		return 0, p, false
	}
	for i := range r.buckets.all {
		s := &r.buckets.all[i]
		if at := slices.IndexFunc(s.list, func(c candidate) bool { return c.number == number }); at >= 0 {
			last := len(s.list) - 1
			s.list[at] = s.list[last]
			s.list = s.list[:last]
			s.list.init()
			r.buckets.fix(s, r.spreadScore)
		}
	}
	return number, r.score(number, u), true
}

// take removes the best candidate for an instance that failed on the node to
// avoid. Where constraints keep instances apart, a bucket's candidates can be
// out of date; such nodes are dropped when they come up.
func (r *round) take(avoid berth.NodeID) (number uint32, p parts, ok bool) {
	var penalized *candidate
	perNode := r.filter.perNode()
	for {
		s := r.buckets.first()
		if s == nil || len(s.list) == 0 {
			if penalized != nil || !r.liftCap() {
				break
			}
			continue
		}
		if r.spread != nil && !r.spread.keepsTogether(s.combo) {
			r.fixBuckets(s.combo)
			continue
		}
		// What was feasible when it was scored may not be after a placement.
		c := s.best
		n := r.snap.NodeByNumber(c.number)
		if perNode && r.filter.node(n).kind != meetsAll {
			r.drop(s)
			continue
		}
		// The node it failed on competes with a lower score.
		if penalized == nil && n.ID == avoid {
			p := r.penalized(c.number)
			penalized = &candidate{p.mean(), c.tie, c.number}
			r.drop(s)
			continue
		}
		// The best of the others is worse than even the penalized node.
		if penalized != nil && penalized.before(c) {
			break
		}
		r.drop(s)
		if penalized != nil {
			r.putBack(penalized.number)
		}
		return c.number, r.score(c.number, r.usage(c.number)), true
	}
	if penalized == nil {
		return 0, p, false
	}
	return penalized.number, r.penalized(penalized.number), true
}

// drop removes the first candidate of a bucket.
func (r *round) drop(s *bucket) {
	s.list.pop()
	r.buckets.fix(s, r.spreadScore)
}

// liftCap drops the limit of starts per node once no other nodes are left, and
// reports whether that helps. The limit spreads starts; it never makes a
// placement fail.
func (r *round) liftCap() bool {
	if r.capLifted || len(r.capped) == 0 {
		return false
	}
	r.capLifted = true
	for _, n := range r.capped {
		r.putBack(n)
	}
	return true
}

// penalized returns the score of a node for an instance that failed there.
func (r *round) penalized(number uint32) parts {
	p := r.score(number, r.usage(number))
	p.set(byPenalty, -1)
	return p
}

// putBack makes a node a candidate again if another instance fits.
func (r *round) putBack(number uint32) {
	u := r.usage(number)
	switch {
	case !r.request.Fits(u):
	case r.atStartCap(number):
		r.capped = append(r.capped, number)
	default:
		known := len(r.buckets.all)
		n, c := r.candidate(number, u)
		s := &r.buckets.all[n]
		s.list.push(c)
		if int(n) == known {
			r.buckets.enter(n)
		}
		r.buckets.fix(s, r.spreadScore)
	}
}

// put places an instance on a node where it fits, after preemption if victims is
// not empty.
func (r *round) put(in *Instance, number uint32, p parts, victims []*berth.Alloc) berth.Placement {
	u, n := r.draft(number), r.snap.NodeByNumber(number)
	r.countQuota()
	grant := r.grant(u, number, victims)
	if r.starts != nil {
		r.starts[number]++
	}
	// The next instance of the group must see this one.
	r.siblings[number]++
	r.peers = append(r.peers, peer{group: r.group, index: in.Index, node: n, now: true, ports: grant.Ports})
	r.filter.notePlaced(n)
	if r.spread != nil {
		r.work.Spend(1 + len(r.spread.combos)/16)
		r.spread.add(r.spread.comboOn(u.Class, n), r.fixBuckets)
	}
	r.putBack(number)
	return berth.Placement{
		Group: r.number, Index: in.Index, NodeID: n.ID, Grant: grant, Score: float32(p.mean()),
		Previous: in.Previous, Resched: in.Failed, Evict: ids(victims),
	}
}

// grant takes an instance's capacity out of a node's usage.
func (r *round) grant(u *fit.Draft, number uint32, victims []*berth.Alloc) berth.Grant {
	at := uint32(r.tie(number) >> 33)
	if len(victims) > 0 {
		return u.PlaceOver(&r.request, at, victims)
	}
	return u.Place(&r.request, at)
}

// fixBuckets restores the order of a combination's buckets.
func (r *round) fixBuckets(combo int32) {
	for _, at := range r.spread.combos[combo].buckets {
		if at > 0 {
			r.buckets.fix(&r.buckets.all[at-1], r.spreadScore)
		}
	}
}

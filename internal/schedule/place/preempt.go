package place

import (
	"cmp"
	"maps"
	"slices"

	"berth"
	"berth/internal/fit"
	"berth/internal/state"
)

// Where no node has room, a job can evict less urgent allocations, if operators
// let jobs of its type. What is lost is kept least: first the highest priority
// of what is evicted on a node counts, then the sum of all their priorities,
// and only then what the node scores.

// loss is what evicting costs; less is better.
type loss struct {
	highest int // priority of a job that loses something
	sum     int // of the priorities of all that is evicted
}

func (a loss) compare(b loss) int {
	return cmp.Or(cmp.Compare(a.highest, b.highest), cmp.Compare(a.sum, b.sum))
}

// kept is what a loss counts among the scores of a node: 1 would be nothing
// lost, and it falls towards 0 with all that is.
func (a loss) kept() float64 { return 1 / (1 + float64(a.sum)/berth.MaxPriority) }

// preemption is a node that could take an instance after others made room.
type preemption struct {
	loss
	candidate
	victims []*berth.Alloc
}

func (a *preemption) compare(b *preemption) int {
	switch c := a.loss.compare(b.loss); {
	case c != 0:
		return c
	case a.candidate.before(b.candidate):
		return -1
	}
	return 1
}

// preemptible is what a placer's job could evict, by node number: found once, when
// the first instance finds no room.
type preemptible struct {
	byNode    map[uint32][]*berth.Alloc
	preempted map[berth.AllocID]bool // by this placer already
	requests  map[*berth.TaskGroup]*fit.Request
}

// mayPreempt says whether operators let jobs of a type evict others.
func mayPreempt(c berth.PreemptionConfig, typ string) bool {
	switch typ {
	case berth.TypeService:
		return c.ServiceSchedulerEnabled
	case berth.TypeBatch:
		return c.BatchSchedulerEnabled
	case berth.TypeSystem:
		return c.SystemSchedulerEnabled
	case berth.TypeSysbatch:
		return c.SysBatchSchedulerEnabled
	}
	return false
}

// Preempts says whether operators let jobs of the placer's type evict others.
func (p *Placer) Preempts() bool { return mayPreempt(p.config.PreemptionConfig, p.job.Type) }

// findPreemptible finds what the job could evict. It looks at the allocations of less
// urgent jobs only, however many others there are.
func (p *Placer) findPreemptible() *preemptible {
	if p.preemptible != nil {
		return p.preemptible
	}
	p.preemptible = &preemptible{byNode: map[uint32][]*berth.Alloc{}, preempted: map[berth.AllocID]bool{}, requests: map[*berth.TaskGroup]*fit.Request{}}
	if !p.Preempts() {
		return p.preemptible
	}
	for j := range p.snap.Jobs(berth.AllNamespaces, "") {
		if j.Key() == p.job.Key() || j.Priority > p.job.Priority-state.PriorityGap && j.Version == 0 {
			continue
		}
		for a := range p.snap.AllocsOf(j.Key()) {
			if a.Job.UID != j.UID || p.leaving[a.ID] || p.snap.Evictable(a, p.job) != "" {
				continue // what is left of an earlier job of the name is about to be stopped
			}
			if n := p.snap.Node(a.NodeID); n != nil {
				p.preemptible.byNode[n.Number] = append(p.preemptible.byNode[n.Number], a)
			}
		}
	}
	for _, list := range p.preemptible.byNode {
		// The least urgent first; of equals those that came last, which have
		// done the least.
		slices.SortFunc(list, func(a, b *berth.Alloc) int {
			return cmp.Or(cmp.Compare(a.Job.Priority, b.Job.Priority), cmp.Compare(b.CreateIndex, a.CreateIndex),
				cmp.Compare(b.Ordinal, a.Ordinal), slices.Compare(a.ID[:], b.ID[:]))
		})
	}
	return p.preemptible
}

// remaining returns what can still be evicted on a node.
func (y *preemptible) remaining(number uint32) (out []*berth.Alloc) {
	for _, a := range y.byNode[number] {
		if !y.preempted[a.ID] {
			out = append(out, a)
		}
	}
	return out
}

// victims returns what must go from a line so that w fits: nothing of a higher
// priority than must be, and of that nothing that could stay. None if it would
// not fit whatever went.
func (y *preemptible) victims(u *fit.Usage, w *fit.Request, list []*berth.Alloc) (gone []*berth.Alloc) {
	line, n := u.Draft(), 0
	for !w.Fits(&line.Usage) {
		if n == len(list) {
			return nil
		}
		// All of one priority at once: which of them, the next step says.
		for tier := list[n].Job.Priority; n < len(list) && list[n].Job.Priority == tier; n++ {
			line.Release(y.request(list[n].Group), list[n].Grant())
		}
	}
	for i := n - 1; i >= 0; i-- {
		a := list[i]
		line.Claim(y.request(a.Group), a.Grant())
		if !w.Fits(&line.Usage) {
			line.Release(y.request(a.Group), a.Grant())
			gone = append(gone, a)
		}
	}
	return gone
}

// request returns what an allocation of a group asks for; most are of few groups.
func (y *preemptible) request(g *berth.TaskGroup) *fit.Request {
	w := y.requests[g]
	if w == nil {
		v := fit.RequestOf(g)
		w = &v
		y.requests[g] = w
	}
	return w
}

// preemptions finds, for every node, what would have to go for an instance, the
// node with the least loss first.
func (r *round) preemptions() []*preemption {
	prey := r.findPreemptible()
	var out []*preemption
	for _, number := range slices.Sorted(maps.Keys(prey.byNode)) {
		if e := r.preemption(number); e != nil {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, (*preemption).compare)
	return out
}

// preemption returns what would have to go from a node for an instance; nil if
// nothing would help, or the node is none for the group.
func (r *round) preemption(number uint32) *preemption {
	u, n := r.usage(number), r.snap.NodeByNumber(number)
	if n == nil || !u.Ready || r.filter.class(u.Class) != meetsAll || r.filter.perNode() && r.filter.node(n) != meetsAll {
		return nil
	}
	gone := r.preemptible.victims(u, &r.request, r.preemptible.remaining(number))
	if len(gone) == 0 {
		return nil
	}
	e := &preemption{victims: gone}
	for _, a := range gone {
		e.highest = max(e.highest, a.Job.Priority)
		e.sum += a.Job.Priority
	}
	e.candidate = candidate{tie: uint32(r.tie(number) >> 32), number: number}
	p := r.preemptionScore(e)
	e.score = p.mean()
	return e
}

// preemptionScore returns what the scorers say of a node after an eviction.
func (r *round) preemptionScore(e *preemption) parts {
	p := r.score(e.number, &r.usage(e.number).Without(e.victims...).Usage)
	p.set(byPreemption, e.kept())
	return p
}

// preempt finds the node on which an instance costs the least, which failed on
// the node to avoid. left is how many instances want a place, this one
// included: the last of them wait for what the job itself gives up.
func (r *round) preempt(avoid berth.NodeID, left int) (number uint32, p parts, gone []*berth.Alloc, ok bool) {
	if !r.optionsFound {
		r.optionsFound = true
		if r.awaited = r.willFree(nil); r.awaited < left {
			r.options = r.preemptions()
		}
	}
	if left <= r.awaited {
		return 0, p, nil, false
	}
	var avoided *preemption
	for len(r.options) > 0 || avoided != nil {
		if len(r.options) == 0 { // no other node is left
			r.options, avoided, avoid = append(r.options, avoided), nil, berth.NodeID{}
		}
		e := r.options[0]
		r.options = r.options[1:]
		// What was placed since can have changed the node, or what may stand there.
		now := r.preemption(e.number)
		switch {
		case now == nil:
			continue
		case r.snap.NodeByNumber(now.number).ID == avoid:
			avoided = now
			continue
		case len(r.options) > 0 && r.options[0].compare(now) < 0:
			r.insertOption(now)
			continue
		}
		r.insertOption(now) // others may be evicted there for the next
		if avoided != nil {
			r.insertOption(avoided)
		}
		return now.number, r.commitPreemption(now), now.victims, true
	}
	return 0, p, nil, false
}

// commitPreemption notes what is evicted, and returns what the scorers say of the node.
func (r *round) commitPreemption(e *preemption) parts {
	for _, a := range e.victims {
		r.preemptible.preempted[a.ID] = true
	}
	return r.preemptionScore(e)
}

// preemptOn makes room on one node, if that is possible.
func (r *round) preemptOn(number uint32) (gone []*berth.Alloc) {
	r.findPreemptible()
	e := r.preemption(number)
	if e == nil || r.willFree(&number) > 0 {
		return nil
	}
	r.commitPreemption(e)
	return e.victims
}

// willFree counts the instances that would have room on nodes, or on the only
// one given, when what the job itself gives up, and what of it has not ended
// yet, has ended: those rather wait for that than evict others.
func (r *round) willFree(only *uint32) (n int) {
	byNode := map[uint32][]*berth.Alloc{}
	for a := range r.snap.AllocsOf(r.job.Key()) {
		if !a.Occupies() || a.Wanted() && !r.leaving[a.ID] {
			continue
		}
		if n := r.snap.Node(a.NodeID); n != nil && n.Ready() && (only == nil || *only == n.Number) {
			byNode[n.Number] = append(byNode[n.Number], a)
		}
	}
	for number, list := range byNode {
		if r.filter.class(r.snap.Usage(number).Class) != meetsAll || r.filter.perNode() && r.filter.node(r.snap.NodeByNumber(number)) != meetsAll {
			continue
		}
		line := r.usage(number).Without(list...)
		for range list { // one takes the place of each
			if !r.request.Fits(&line.Usage) {
				break
			}
			line.Place(&r.request, 0)
			n++
		}
	}
	return n
}

// insertOption puts an option where it belongs.
func (r *round) insertOption(e *preemption) {
	i, _ := slices.BinarySearchFunc(r.options, e, (*preemption).compare)
	r.options = slices.Insert(r.options, i, e)
}

func ids(list []*berth.Alloc) (out []berth.AllocID) {
	for _, a := range list {
		out = append(out, a.ID)
	}
	return out
}

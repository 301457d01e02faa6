package place

import (
	"cmp"
	"maps"
	"slices"

	"berth"
	"berth/internal/fit"
	"berth/internal/state"
)

// If no node has free capacity, a job can preempt less urgent allocations,
// provided operators allow it for its type. The loss is kept as small as
// possible: first by the highest priority preempted on a node, then by the sum
// of the priorities, and only then by the node's score.

// loss is the cost of a preemption; less is better.
type loss struct {
	highest int // highest priority of a victim
	sum     int // of the priorities of all victims
}

// compare orders losses: first by the most urgent victim, then by the sum of
// all.
func (a loss) compare(b loss) int {
	return cmp.Or(cmp.Compare(a.highest, b.highest), cmp.Compare(a.sum, b.sum))
}

// kept turns a loss into a score: 1 for no loss, falling towards 0.
func (a loss) kept() float64 { return 1 / (1 + float64(a.sum)/berth.MaxPriority) }

// preemption is a node that could take an instance after victims are stopped.
type preemption struct {
	loss
	candidate
	victims []*berth.Alloc
}

// compare orders preemptions: the smaller loss first, then the better node. It
// never returns 0.
func (a *preemption) compare(b *preemption) int {
	switch c := a.loss.compare(b.loss); {
	case c != 0:
		return c
	case a.candidate.before(b.candidate):
		return -1
	}
	return 1
}

// preemptible is what a placer's job could preempt, by node number. It is
// computed once, when the first instance finds no free capacity.
type preemptible struct {
	byNode    map[uint32][]*berth.Alloc
	preempted map[berth.AllocID]bool // already, by this placer
	requests  map[*berth.TaskGroup]*fit.Request
}

// mayPreempt reports whether operators let jobs of a type preempt others.
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

// Preempts reports whether operators let jobs of the placer's type preempt
// others.
func (p *Placer) Preempts() bool { return mayPreempt(p.config.PreemptionConfig, p.job.Type) }

// findPreemptible returns what the job could preempt. Only allocations of less
// urgent jobs are looked at.
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
			p.work.Spend(1)
			if a.Job.UID != j.UID || p.leaving[a.ID] || p.snap.CannotPreempt(a, p.job) != "" {
				continue // leftovers of an earlier job of that name are about to be stopped
			}
			if n := p.snap.Node(a.NodeID); n != nil {
				p.preemptible.byNode[n.Number] = append(p.preemptible.byNode[n.Number], a)
			}
		}
	}
	for _, list := range p.preemptible.byNode {
		// The least urgent first; among equals the newest, which have done the
		// least.
		slices.SortFunc(list, func(a, b *berth.Alloc) int {
			return cmp.Or(cmp.Compare(a.Job.Priority, b.Job.Priority), cmp.Compare(b.CreateIndex, a.CreateIndex),
				cmp.Compare(b.Ordinal, a.Ordinal), slices.Compare(a.ID[:], b.ID[:]))
		})
	}
	return p.preemptible
}

// remaining returns what can still be preempted on a node.
func (y *preemptible) remaining(number uint32) (out []*berth.Alloc) {
	for _, a := range y.byNode[number] {
		if !y.preempted[a.ID] {
			out = append(out, a)
		}
	}
	return out
}

// victims returns what must be stopped on a node so that w fits: nothing of a
// higher priority than necessary, and nothing that could stay. It returns none
// if w does not fit whatever is stopped.
func (y *preemptible) victims(u *fit.Usage, w *fit.Request, list []*berth.Alloc) (gone []*berth.Alloc) {
	draft, n := u.Draft(), 0
	for !w.Fits(&draft.Usage) {
		if n == len(list) {
			return nil
		}
		// All of one priority at once; the next step chooses among them.
		for tier := list[n].Job.Priority; n < len(list) && list[n].Job.Priority == tier; n++ {
			draft.Release(y.request(list[n].Group), list[n].Grant())
		}
	}
	for i := n - 1; i >= 0; i-- {
		a := list[i]
		draft.Claim(y.request(a.Group), a.Grant())
		if !w.Fits(&draft.Usage) {
			draft.Release(y.request(a.Group), a.Grant())
			gone = append(gone, a)
		}
	}
	return gone
}

// request returns what an allocation of a group asks for. It is cached, as most
// allocations are of few groups.
func (y *preemptible) request(g *berth.TaskGroup) *fit.Request {
	w := y.requests[g]
	if w == nil {
		v := fit.RequestOf(g)
		w = &v
		y.requests[g] = w
	}
	return w
}

// preemptions returns, for every node, what must be stopped for an instance,
// the least loss first.
func (r *round) preemptions() []*preemption {
	all := r.findPreemptible()
	var out []*preemption
	for _, number := range slices.Sorted(maps.Keys(all.byNode)) {
		if e := r.preemption(number); e != nil {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, (*preemption).compare)
	return out
}

// preemption returns what must be stopped on a node for an instance; nil if
// nothing would help or the group cannot use the node.
func (r *round) preemption(number uint32) *preemption {
	u, n := r.usage(number), r.snap.NodeByNumber(number)
	if n == nil || !u.Ready || r.filter.class(u.Class).kind != meetsAll || r.filter.perNode() && r.filter.node(n).kind != meetsAll {
		return nil
	}
	r.work.Spend(1 + len(r.preemptible.byNode[number]))
	gone := r.preemptible.victims(u, &r.request, r.preemptible.remaining(number))
	if len(gone) == 0 {
		return nil
	}
	e := &preemption{victims: gone}
	for _, a := range gone {
		e.highest = max(e.highest, a.Job.Priority)
		e.sum += a.Job.Priority
	}
	// The tie is broken as without preemption, so that equal nodes are chosen
	// alike.
	e.candidate = candidate{tie: uint32(r.tie(number) >> 32), number: number}
	p := r.preemptionScore(e)
	e.score = p.mean()
	return e
}

// preemptionScore returns the scores of a node after a preemption.
func (r *round) preemptionScore(e *preemption) parts {
	p := r.score(e.number, &r.usage(e.number).Without(e.victims...).Usage)
	p.set(byPreemption, e.kept())
	return p
}

// preempt returns the node with the least loss for an instance that failed on
// the node to avoid. left is the number of instances without a place, including
// this one: the last of them wait for what the job itself frees.
func (r *round) preempt(avoid berth.NodeID, left int) (number uint32, p parts, gone []*berth.Alloc, ok bool) {
	if r.later {
		return 0, p, nil, false
	}
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
		if len(r.options) == 0 { // only the node to avoid is left
			r.options, avoided, avoid = append(r.options, avoided), nil, berth.NodeID{}
		}
		e := r.options[0]
		r.options = r.options[1:]
		// Placements since may have changed the node, or what may run there.
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
		r.insertOption(now) // more victims there may serve the next instance
		if avoided != nil {
			r.insertOption(avoided)
		}
		return now.number, r.commitPreemption(now), now.victims, true
	}
	return 0, p, nil, false
}

// commitPreemption records the victims and returns the node's scores.
func (r *round) commitPreemption(e *preemption) parts {
	for _, a := range e.victims {
		r.preemptible.preempted[a.ID] = true
	}
	return r.preemptionScore(e)
}

// preemptOn makes capacity free on one node, if possible, and returns the
// victims.
func (r *round) preemptOn(number uint32) (gone []*berth.Alloc) {
	r.findPreemptible()
	e := r.preemption(number)
	if e == nil || r.willFree(&number) > 0 {
		return nil
	}
	r.commitPreemption(e)
	return e.victims
}

// willFree counts the instances that will fit on ready nodes, or only on the
// given one, once the allocations that the job itself is stopping have ended.
// That many instances wait instead of preempting others.
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
		if r.filter.class(r.snap.Usage(number).Class).kind != meetsAll || r.filter.perNode() && r.filter.node(r.snap.NodeByNumber(number)).kind != meetsAll {
			continue
		}
		draft := r.usage(number).Without(list...)
		for range list { // at most one instance for each that ends
			if !r.request.Fits(&draft.Usage) {
				break
			}
			draft.Place(&r.request, 0)
			n++
		}
	}
	return n
}

// insertOption adds an option in order.
func (r *round) insertOption(e *preemption) {
	i, _ := slices.BinarySearchFunc(r.options, e, (*preemption).compare)
	r.options = slices.Insert(r.options, i, e)
}

// ids returns the IDs of allocations, in their order.
func ids(list []*berth.Alloc) (out []berth.AllocID) {
	for _, a := range list {
		out = append(out, a.ID)
	}
	return out
}

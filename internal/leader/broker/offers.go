package broker

import (
	"container/heap"
	"time"

	"berth"
	"berth/internal/fit"
	"berth/internal/state"
)

// Capacity that comes free on a node could help many evaluations, but be used by
// few. So it is offered to them in rounds: a round wakes the most urgent ones
// for which it suffices, as far as can be told from what they ask for, and the
// next round begins when these are decided. It ends when none is left that has
// not seen the capacity and for which there is enough of it. Each evaluation
// that could be placed is woken, no matter what those before it did, and a more
// urgent one is decided before any that could take the capacity from it: the
// outcome is that of waking all, without deciding all.

// offer is capacity on a node that evaluations decided before an index have not
// seen.
type offer struct {
	node  *berth.Node
	kinds Capacity
	index uint64
}

// offers are the offers that are open, and the evaluations that the current
// round woke.
type offers struct {
	open  map[berth.NodeID]offer
	woken []berth.EvalID
}

func newOffers() offers { return offers{open: map[berth.NodeID]offer{}} }

// all offers every node, to evaluations that were decided on this snapshot or
// before.
func (o *offers) all(s *state.Snapshot) {
	for first, run := range s.UsageColumns() {
		for i := range run {
			if n := s.NodeByNumber(first + uint32(i)); run[i].Ready && n != nil {
				o.make(n, CapacityAll, s.Index+1)
			}
		}
	}
}

// roundPatience is how long a round waits for a worker that holds an evaluation.
// Then the others get their turn.
const roundPatience = time.Second

// make offers capacity on a node.
func (o *offers) make(n *berth.Node, kinds Capacity, index uint64) {
	have := o.open[n.ID]
	o.open[n.ID] = offer{n, have.kinds | kinds, index}
}

// round wakes evaluations for the open offers, and for quotas with room. It
// returns when it must be called again even if nothing happens, zero if it need
// not. b.mu is held.
func (b *Broker) round(s *state.Snapshot, now time.Time) (again time.Time) {
	again = b.offerRound(s, now)
	if next := b.quotaRound(s, now); again.IsZero() || !next.IsZero() && next.Before(again) {
		again = next
	}
	return again
}

// offerRound wakes evaluations for the open offers, unless those woken before are
// still being decided. It returns when it must be called again even if nothing
// happens, zero if it need not. b.mu is held.
func (b *Broker) offerRound(s *state.Snapshot, now time.Time) (again time.Time) {
	for n := len(b.offers.woken); n > 0; n-- {
		if until := b.queue.underway(b.offers.woken[n-1], roundPatience, now); !until.IsZero() {
			return until
		}
		b.offers.woken = b.offers.woken[:n-1]
	}
	if len(b.offers.open) == 0 {
		return again
	}
	if b.blocked.shapes.empty() {
		clear(b.offers.open)
		return again
	}
	list, all := b.blocked.wake(s, b.offers.open)
	for _, e := range list {
		b.blocked.Remove(e.ID)
		b.add(s, e, now)
		b.offers.woken = append(b.offers.woken, e.ID)
	}
	if all {
		clear(b.offers.open)
	}
	if len(b.offers.woken) > 0 {
		again = now.Add(roundPatience)
	}
	return again
}

// underway returns until when a decision about an evaluation is to be expected
// soon, at the latest: one that is ready, or held for less than the patience.
// It is zero if there is nothing to expect.
func (q *Queue) underway(id berth.EvalID, patience time.Duration, now time.Time) (until time.Time) {
	switch it := q.items[id]; {
	case it == nil:
	case it.state == itemReady:
		return now.Add(patience)
	case it.state == itemHeld && now.Before(it.dequeued.Add(patience)):
		return it.dequeued.Add(patience)
	}
	return until
}

// empty reports whether nothing waits.
func (x *shapes) empty() bool { return len(x.of)+len(x.fresh) == 0 }

// wake returns the evaluations to wake for some offers, the most urgent first;
// all reports that none that could use the offers is left.
func (b *Blocked) wake(s *state.Snapshot, open map[berth.NodeID]offer) (list []*berth.Eval, all bool) {
	b.shapes.sort(s)
	r := &round{snap: s, drafts: map[uint32]*fit.Draft{}, over: map[nodeAndPriority]*fit.Usage{}, taken: map[uint32]bool{}}
	queue := &shapeHeap{}
	for _, sh := range b.shapes.byKey {
		if h := r.helped(sh, open); h != nil {
			*queue = append(*queue, h)
		}
	}
	heap.Init(queue)
	for queue.Len() > 0 {
		h := (*queue)[0]
		w := h.evals[h.at]
		if usable := h.usable(w); len(usable) > 0 {
			if !r.claim(h, w, usable) {
				return list, false // the rest waits until these are decided
			}
			list = append(list, w.Eval)
		}
		if h.at++; h.at == len(h.evals) {
			heap.Pop(queue)
		} else {
			heap.Fix(queue, 0)
		}
	}
	return list, true
}

// round is what one call of wake has given away.
type round struct {
	snap   *state.Snapshot
	drafts map[uint32]*fit.Draft // by node number
	over   map[nodeAndPriority]*fit.Usage
	taken  map[uint32]bool // by node number: given to a job that may preempt others there
}

type nodeAndPriority struct {
	number   uint32
	priority int
}

// helpedShape is a shape that some offers could help.
type helpedShape struct {
	*shape
	offers []offer
	at     int // the next of its evaluations
}

// helped returns the offers that could help a shape, nil if none could. What an
// evaluation lacked when it was decided does not count: it was not decided again
// for nodes that came since, if they were full.
func (r *round) helped(sh *shape, open map[berth.NodeID]offer) *helpedShape {
	h := &helpedShape{shape: sh}
	for _, o := range open {
		if mayUse(sh.evals[0].Eval, o.node.Class, o.kinds) && r.fits(sh, o.node) {
			h.offers = append(h.offers, o)
		}
	}
	if len(h.offers) == 0 {
		return nil
	}
	return h
}

// fits reports whether an instance could be placed on a node, regardless of its
// constraints: in what is free, or with what may be preempted there.
func (r *round) fits(sh *shape, n *berth.Node) bool {
	if sh.any {
		return true
	}
	u := r.snap.Usage(n.Number)
	if sh.job != nil {
		u = r.preempted(n, sh.job)
	}
	if !u.Ready {
		return false
	}
	for i := range sh.requests {
		if sh.requests[i].Fits(u) {
			return true
		}
	}
	return false
}

// preempted returns a node's usage without what a job may preempt there.
func (r *round) preempted(n *berth.Node, j *berth.Job) *fit.Usage {
	k := nodeAndPriority{n.Number, j.Priority}
	if u := r.over[k]; u != nil {
		return u
	}
	var gone []*berth.Alloc
	for a := range r.snap.AllocsOn(n.ID) {
		if r.snap.CannotPreempt(a, j) == "" {
			gone = append(gone, a)
		}
	}
	u := &r.snap.Usage(n.Number).Without(gone...).Usage
	r.over[k] = u
	return u
}

// usable returns the offers that an evaluation has not seen.
func (h *helpedShape) usable(w *waiter) (out []offer) {
	for _, o := range h.offers {
		if o.index > w.SnapshotIndex {
			out = append(out, o)
		}
	}
	return out
}

// claim takes for an evaluation what it could use of some offers, and reports
// whether anything is left for it.
func (r *round) claim(h *helpedShape, w *waiter, from []offer) (some bool) {
	if h.any {
		return true
	}
	for _, o := range from {
		number := o.node.Number
		if h.job != nil { // what it would preempt is not known, so it gets the node
			some = some || !r.taken[number]
			r.taken[number] = true
			continue
		}
		if r.taken[number] {
			continue
		}
		d := r.drafts[number]
		if d == nil {
			d = r.snap.Usage(number).Draft()
			r.drafts[number] = d
		}
		for i := range h.requests {
			for n := 0; n < w.queued[i] && h.requests[i].Fits(&d.Usage); n++ {
				d.Place(&h.requests[i], 0)
				some = true
			}
		}
	}
	return some
}

// shapeHeap orders shapes by their most urgent evaluation.
type shapeHeap []*helpedShape

// Len implements sort.Interface.
func (h shapeHeap) Len() int { return len(h) }

// Less implements sort.Interface.
func (h shapeHeap) Less(i, j int) bool {
	return compareUrgency(h[i].evals[h[i].at].Eval, h[j].evals[h[j].at].Eval) < 0
}

// Swap implements sort.Interface.
func (h shapeHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *shapeHeap) Push(x any) { *h = append(*h, x.(*helpedShape)) }

// Pop implements heap.Interface.
func (h *shapeHeap) Pop() any {
	n := len(*h) - 1
	x := (*h)[n]
	*h = (*h)[:n]
	return x
}

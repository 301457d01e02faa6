package broker

import (
	"cmp"
	"container/heap"
	"math/rand/v2"
	"time"

	"berth"
)

// Limits are the time limits and the retries of a queue.
type Limits struct {
	NackTimeout    time.Duration // how long a worker may hold an evaluation without Extend
	FirstNackDelay time.Duration // wait before the second delivery
	NackDelay      time.Duration // wait before those after it
	Deliveries     int           // an evaluation fails after this many deliveries
	FollowUpAfter  time.Duration // when a failed evaluation is tried again
}

// DefaultLimits are a server's limits.
var DefaultLimits = Limits{
	NackTimeout: 60 * time.Second, FirstNackDelay: time.Second, NackDelay: 20 * time.Second,
	Deliveries: 3, FollowUpAfter: time.Minute,
}

// Queue holds evaluations that wait for a worker or for a time. It delivers the
// most urgent first, those of equal priority oldest first, and never two of one
// job at once. It is plain data: each call brings the time, and one goroutine
// at a time may use it.
type Queue struct {
	limits  Limits
	items   map[berth.EvalID]*item
	jobs    map[berth.JobKey]*slot
	ready   map[string]*itemHeap // by type
	timers  itemHeap             // items that wait for a time, by time
	tokens  berth.Token
	dropped []Superseded
	waiters []*berth.Eval // see Waiters
	failed  []*item
}

// Superseded is an evaluation that a newer one of its job made unnecessary.
type Superseded struct{ Old, New berth.EvalID }

// item is one evaluation in the queue.
type item struct {
	eval       *berth.Eval
	priority   int // the evaluation's, or that of a more urgent one that it replaced
	state      itemState
	enqueued   time.Time
	dequeued   time.Time
	applying   bool // its plan is being applied
	deliveries int
	token      berth.Token
	at         time.Time // when it is due, its time is up, or its last delivery ended
	place      int       // in the heap it is in
	inTimers   bool      // it is in timers
}

// itemState is where an evaluation is on its way through the queue.
type itemState int

const (
	itemDelayed itemState = iota // until at
	itemWaiting                  // behind another of its job
	itemReady                    // for a worker
	itemHeld                     // by a worker, until at
	itemFailed                   // delivered too often; reap ends it
)

// slot holds the evaluations of one job.
type slot struct {
	held    *item
	waiting *item // ready, or behind held
}

// NewQueue returns an empty queue.
func NewQueue(l Limits) *Queue {
	return &Queue{
		limits: l, items: map[berth.EvalID]*item{}, jobs: map[berth.JobKey]*slot{}, ready: map[string]*itemHeap{},
		timers: itemHeap{less: func(a, b *item) bool { return a.at.Before(b.at) }},
		tokens: berth.Token(rand.Uint64() >> 1), // so that tokens of another term mean nothing here
	}
}

// Add puts an evaluation in the queue or updates one that is there. It removes
// one that has ended.
func (q *Queue) Add(e *berth.Eval, now time.Time) { q.AddAfter(e, time.Time{}, now) }

// AddAfter is Add for an evaluation that is not due before a time. An evaluation
// that is in the queue already keeps its time.
func (q *Queue) AddAfter(e *berth.Eval, after, now time.Time) {
	it := q.items[e.ID]
	switch {
	case e.Terminal():
		if it != nil {
			q.remove(it)
		}
	case it != nil:
		it.eval = e
	default:
		it = &item{eval: e, priority: e.Priority, enqueued: now}
		q.items[e.ID] = it
		due := after
		if d := dueAt(e, now); d.After(due) {
			due = d
		}
		if due.After(now) {
			it.state = itemDelayed
			q.setTimer(it, due)
			return
		}
		q.enqueue(it)
	}
}

// dueAt returns when an evaluation that waits for a time is due, zero if it does
// not wait. Where the clock says that this is later than when the evaluation was
// created, the clock was put back, or is not that of the server which created
// the evaluation: then it waits as long as it was meant to, from now. What comes
// of adding to now does not change when the clock does.
func dueAt(e *berth.Eval, now time.Time) time.Time {
	if e.WaitUntil == 0 {
		return time.Time{}
	}
	wait := time.Unix(0, e.WaitUntil).Sub(now)
	if meant := time.Duration(e.WaitUntil - e.CreateTime); e.CreateTime != 0 && meant >= 0 {
		wait = min(wait, meant)
	}
	return now.Add(wait)
}

// Hasten makes an evaluation that waits for a time due at once.
func (q *Queue) Hasten(id berth.EvalID) {
	if it := q.items[id]; it != nil && it.state == itemDelayed {
		q.stopTimer(it)
		q.enqueue(it)
	}
}

// enqueue makes an item wait for a worker. Of several waiting for one job only
// the newest is of use: it looks at everything.
func (q *Queue) enqueue(it *item) {
	s := q.slot(it.eval.Key())
	if old := s.waiting; old != nil && old != it {
		q.unready(old) // also if it stays, because its priority can grow
		if newer(old.eval, it.eval) {
			old, it = it, old
		}
		it.priority = max(it.priority, old.priority) // what was urgent stays urgent
		delete(q.items, old.eval.ID)
		if e := old.eval; e.Status == berth.EvalBlocked && !e.NodeID.IsZero() {
			q.waiters = append(q.waiters, e)
		} else {
			q.dropped = append(q.dropped, Superseded{e.ID, it.eval.ID})
		}
	}
	s.waiting = it
	it.state = itemWaiting
	if s.held == nil {
		q.makeReady(it)
	}
}

// newer reports whether a looks at everything that b would. An evaluation of a
// later incarnation of the job does, whenever it was raised; so does one of the
// same incarnation that was raised later. An evaluation of an earlier
// incarnation does not see what the later one wants. A pending evaluation is
// never left to one that waited for capacity: the plan that is being decided
// now ends the blocked one, and may not have seen what the pending one is
// about.
func newer(a, b *berth.Eval) bool {
	if blocked := a.Status == berth.EvalBlocked; a.JobUID == b.JobUID && blocked != (b.Status == berth.EvalBlocked) {
		return !blocked
	}
	return cmp.Or(cmp.Compare(a.JobUID.Index, b.JobUID.Index), cmp.Compare(a.CreateIndex, b.CreateIndex),
		cmp.Compare(a.ModifyIndex, b.ModifyIndex)) > 0
}

// slot returns the slot of a job and creates it if needed. Callers that empty
// it call tidy.
func (q *Queue) slot(k berth.JobKey) *slot {
	s := q.jobs[k]
	if s == nil {
		s = &slot{}
		q.jobs[k] = s
	}
	return s
}

// tidy removes the slot of a job that has no evaluation in the queue.
func (q *Queue) tidy(k berth.JobKey) {
	if s := q.jobs[k]; s != nil && s.held == nil && s.waiting == nil {
		delete(q.jobs, k)
	}
}

// makeReady offers it to workers, the most urgent first.
func (q *Queue) makeReady(it *item) {
	it.state = itemReady
	h := q.ready[it.eval.Type]
	if h == nil {
		h = &itemHeap{less: urgent}
		q.ready[it.eval.Type] = h
	}
	heap.Push(h, it)
}

// unready takes it off the heap of ready evaluations, if it is there.
func (q *Queue) unready(it *item) {
	if it.state == itemReady {
		heap.Remove(q.ready[it.eval.Type], it.place)
		it.state = itemWaiting
	}
}

// urgent orders the items that wait for a worker.
func urgent(a, b *item) bool {
	return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.eval.CreateIndex, b.eval.CreateIndex),
		compareIDs(a.eval.ID, b.eval.ID)) < 0
}

// compareIDs orders evaluations by the first word of their IDs. Any order does,
// as long as it is the same everywhere.
func compareIDs(a, b berth.EvalID) int {
	x, _ := a.Words()
	y, _ := b.Words()
	return cmp.Compare(x, y)
}

// Next delivers at most `most` evaluations of the given types, the most urgent
// first.
func (q *Queue) Next(types []string, most int, now time.Time) (out []berth.Delivery) {
	for len(out) < most {
		var best *item
		for _, t := range types {
			if h := q.ready[t]; h != nil && h.Len() > 0 && (best == nil || urgent(h.items[0], best)) {
				best = h.items[0]
			}
		}
		if best == nil {
			break
		}
		out = append(out, q.deliver(best, now))
	}
	return out
}

// deliver gives it to a worker with a new token. It comes back by itself if the
// worker has not settled it after NackTimeout.
func (q *Queue) deliver(it *item, now time.Time) berth.Delivery {
	q.unready(it)
	s := q.slot(it.eval.Key())
	s.held, s.waiting = it, nil
	q.tokens++
	it.state, it.token, it.dequeued = itemHeld, q.tokens, now
	it.deliveries++
	it.applying = false
	q.setTimer(it, now.Add(q.limits.NackTimeout))
	return berth.Delivery{
		Eval: it.eval, Token: it.token, Enqueued: it.enqueued.UnixNano(), Dequeued: now.UnixNano(), Count: it.deliveries,
	}
}

// Holds reports whether the worker that got this token still holds the
// evaluation.
func (q *Queue) Holds(id berth.EvalID, token berth.Token) bool {
	it := q.items[id]
	return it != nil && it.state == itemHeld && it.token == token
}

// Extend restarts the time limit of a delivery. applying states whether the
// worker's plan is being applied.
func (q *Queue) Extend(id berth.EvalID, token berth.Token, applying bool, now time.Time) error {
	if !q.Holds(id, token) {
		return notHeld(id)
	}
	it := q.items[id]
	it.applying = applying
	q.setTimer(it, now.Add(q.limits.NackTimeout))
	return nil
}

// notHeld returns the error for a worker that settles what it no longer holds.
func notHeld(id berth.EvalID) error {
	return berth.Errorf(berth.Conflict, "evaluation %s is not outstanding with that token", id)
}

// Ack ends a delivery: the worker is done with the evaluation, and the next one
// of its job becomes ready. It succeeds if the evaluation has already left the
// queue because it ended.
func (q *Queue) Ack(id berth.EvalID, token berth.Token) error {
	it := q.items[id]
	if it == nil {
		return nil
	}
	if !q.Holds(id, token) {
		return notHeld(id)
	}
	q.remove(it)
	return nil
}

// Drop takes an evaluation out of the queue, because it waits for capacity now.
func (q *Queue) Drop(id berth.EvalID) {
	if it := q.items[id]; it != nil {
		q.remove(it)
	}
}

// Nack ends a delivery that led to no decision. The evaluation is delivered
// again after a delay, or fails if that was the last attempt.
func (q *Queue) Nack(id berth.EvalID, token berth.Token, now time.Time) error {
	if !q.Holds(id, token) {
		return notHeld(id)
	}
	q.giveBack(q.items[id], now, now)
	return nil
}

// Return ends a delivery that nobody looked at. It does not count, and the
// evaluation is ready again at once.
func (q *Queue) Return(id berth.EvalID, token berth.Token) error {
	if !q.Holds(id, token) {
		return notHeld(id)
	}
	it := q.items[id]
	q.release(it)
	it.token, it.applying = 0, false
	it.deliveries--
	q.enqueue(it)
	return nil
}

// giveBack takes an evaluation from its worker and delivers it again after a
// delay. ended is when its delivery ended, which can be before now. After too many
// deliveries it goes to the failed ones instead, since it may crash every worker.
func (q *Queue) giveBack(it *item, ended, now time.Time) {
	q.release(it)
	it.token, it.applying = 0, false
	if it.deliveries >= q.limits.Deliveries {
		it.state, it.at = itemFailed, ended
		q.failed = append(q.failed, it)
		return
	}
	delay := q.limits.NackDelay
	if it.deliveries == 1 {
		delay = q.limits.FirstNackDelay
	}
	it.state = itemDelayed
	q.setTimer(it, now.Add(delay))
}

// release makes the next evaluation of a job ready when one is no longer held.
func (q *Queue) release(it *item) {
	q.stopTimer(it)
	k := it.eval.Key()
	s := q.slot(k)
	if s.held == it {
		s.held = nil
		if s.waiting != nil {
			q.makeReady(s.waiting)
		}
	}
	q.tidy(k)
}

// remove takes an item out of the queue, wherever it is.
func (q *Queue) remove(it *item) {
	delete(q.items, it.eval.ID)
	q.unready(it)
	k := it.eval.Key()
	if s := q.jobs[k]; s != nil && s.waiting == it {
		s.waiting = nil
	}
	q.release(it)
}

// Tick moves the items whose time has come and returns the next such time, zero
// if none exists.
func (q *Queue) Tick(now time.Time) (again time.Time) {
	for q.timers.Len() > 0 {
		it := q.timers.items[0]
		if it.at.After(now) {
			return it.at
		}
		q.stopTimer(it)
		switch it.state {
		case itemDelayed:
			q.enqueue(it)
		case itemHeld:
			q.giveBack(it, it.at, now)
		}
	}
	return time.Time{}
}

// setTimer sets the time at which Tick looks at it, in place of an earlier one.
func (q *Queue) setTimer(it *item, at time.Time) {
	q.stopTimer(it)
	it.at, it.inTimers = at, true
	heap.Push(&q.timers, it)
}

// stopTimer removes the timer of it, if it has one.
func (q *Queue) stopTimer(it *item) {
	if it.inTimers {
		heap.Remove(&q.timers, it.place)
		it.inTimers = false
	}
}

// Dropped returns, once, the evaluations that newer ones superseded.
func (q *Queue) Dropped() []Superseded {
	d := q.dropped
	q.dropped = nil
	return d
}

// Failure is an evaluation that was delivered too often, and when its last
// delivery ended: several that fail at once have a time each.
type Failure struct {
	*berth.Eval
	At time.Time
}

// Failed returns, once, the evaluations that were delivered too often.
func (q *Queue) Failed() (out []Failure) {
	for _, it := range q.failed {
		if q.items[it.eval.ID] == it {
			out = append(out, Failure{it.eval, it.at})
		}
	}
	q.failed = nil
	return out
}

// itemHeap is a heap of items. Each item knows its place.
type itemHeap struct {
	items []*item
	less  func(a, b *item) bool
}

// Len implements sort.Interface.
func (h *itemHeap) Len() int { return len(h.items) }

// Less implements sort.Interface.
func (h *itemHeap) Less(i, j int) bool { return h.less(h.items[i], h.items[j]) }

// Swap implements sort.Interface.
func (h *itemHeap) Swap(i, j int) {
	h.items[i], h.items[j] = h.items[j], h.items[i]
	h.items[i].place, h.items[j].place = i, j
}

// Push implements heap.Interface.
func (h *itemHeap) Push(x any) {
	it := x.(*item)
	it.place = len(h.items)
	h.items = append(h.items, it)
}

// Pop implements heap.Interface.
func (h *itemHeap) Pop() any {
	n := len(h.items) - 1
	it := h.items[n]
	h.items[n] = nil
	h.items = h.items[:n]
	return it
}

package histories

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"berth"
	"berth/internal/leader/broker"
	"berth/internal/state"
	"berth/internal/worker"
)

// The queue and the planner that a worker sees can be far away, slow or
// deceived, and the worker itself can die. A desk plays that, and notes what
// went over it.

// queue is what the broker is to workers.
type queue interface {
	worker.Queue
	Extend(id berth.EvalID, token berth.Token, applying bool) error
}

// ledger notes what the broker of one term hands out and gets back.
type ledger struct {
	h      *history
	broker *broker.Broker
	queue  queue // the broker, or a broken one
	log    *termLog

	mu    sync.Mutex
	last  map[berth.EvalID]berth.Token
	holds map[berth.JobKey]berth.Delivery // the last of each key
	acked map[berth.EvalID]bool
	plans map[berth.JobKey]uint64 // the state after the last plan for a job

	telling sync.Mutex // taken by the broker while it is locked
	told    map[berth.EvalID]bool
}

// Next implements worker.Queue.
func (l *ledger) Next(ctx context.Context, types []string, most int) ([]berth.Delivery, error) {
	list, err := l.queue.Next(ctx, types, most)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range list {
		l.handed(d)
	}
	return list, err
}

// handed notes a delivery.
func (l *ledger) handed(d berth.Delivery) {
	k := d.Eval.Key()
	if before, ok := l.holds[k]; ok && l.broker.Holds(before.Eval.ID, before.Token) && l.broker.Holds(d.Eval.ID, d.Token) {
		l.h.failf("two evaluations of %s are outstanding: %s and %s", k, before.Eval.ID.Short(), d.Eval.ID.Short())
	}
	l.last[d.Eval.ID] = d.Token
	l.holds[k] = d
	delete(l.acked, d.Eval.ID)
	l.telling.Lock()
	delete(l.told, d.Eval.ID)
	l.telling.Unlock()
	if d.Eval.Status == berth.EvalBlocked {
		l.h.took(blockedScheduling)
	} else {
		l.h.took(pendingScheduling)
	}
	if w := d.Eval.WaitUntil; w != 0 {
		l.h.took(delayedScheduling)
		if w > time.Now().UnixNano() {
			l.h.failf("evaluation %s was handed out before its time", d.Eval.ID.Short())
		}
	}
}

// held reports whether a worker has an evaluation.
func (l *ledger) held(id berth.EvalID) bool {
	token := l.token(id)
	return token != 0 && l.broker.Holds(id, token)
}

// Extend implements the collector's queue.
func (l *ledger) Extend(id berth.EvalID, token berth.Token, applying bool) error {
	return l.queue.Extend(id, token, applying)
}

// Ack implements worker.Queue.
func (l *ledger) Ack(id berth.EvalID, token berth.Token) error {
	err := l.queue.Ack(id, token)
	if err == nil {
		l.mu.Lock()
		l.acked[id] = true
		l.mu.Unlock()
	}
	return err
}

// Nack implements worker.Queue.
func (l *ledger) Nack(id berth.EvalID, token berth.Token) error {
	l.h.took(nacked)
	return l.queue.Nack(id, token)
}

// ended is told by the broker of each evaluation that ended.
func (l *ledger) ended(e broker.Ended) {
	l.telling.Lock()
	defer l.telling.Unlock()
	if l.told[e.ID] {
		l.h.failf("evaluation %s was told as ended twice", e.ID.Short())
	}
	l.told[e.ID] = true
}

// token returns that of the last delivery of an evaluation.
func (l *ledger) token(id berth.EvalID) berth.Token {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last[id]
}

// submitted looks at a plan that came back from the planner; before is the token
// of the last delivery when the plan was handed in. A plan that leaves its
// evaluation blocked can have it delivered again before it comes back.
func (l *ledger) submitted(d *berth.Delivery, before berth.Token, plan *state.ApplyPlan, err error) {
	l.mu.Lock()
	last := l.last[d.Eval.ID]
	l.plans[d.Eval.Key()] = l.log.Tip().Index
	l.mu.Unlock()
	switch {
	case err != nil:
		if last != d.Token {
			l.h.took(staleToken)
		}
		return
	case before != d.Token:
		l.h.failf("a plan of evaluation %s was taken with a token that is not the last", d.Eval.ID.Short())
	}
	l.h.took(schedulingApplying)
	if len(plan.Refused) > 0 {
		l.h.took(applyingScheduling)
	}
}

// floor returns the oldest state that an evaluation may be decided on: one that
// has what the last plan for the job did (an older one shows allocations that
// are stopped by now, and nobody would miss them) and every evaluation that
// this one may have taken the place of.
func (l *ledger) floor(e *berth.Eval) uint64 {
	l.mu.Lock()
	at := max(e.ModifyIndex, l.plans[e.Key()])
	l.mu.Unlock()
	for x := range l.h.store.Snapshot().EvalsOf(e.Key()) {
		at = max(at, x.ModifyIndex)
	}
	return at
}

// desk is where one worker sits.
type desk struct {
	*ledger
	planner worker.Planner
	gone    context.Context // ends when the worker dies

	mu     sync.Mutex
	chance *rand.Rand
	floor  uint64          // what is decided on is not older
	view   *state.Snapshot // what is decided on, if it is not the tip
	token  berth.Token     // of the delivery in hand
	tries  int             // plans of it in a row that brought nothing
}

func (d *desk) happens(p float64) bool {
	if d.h.quiet.Load() {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.chance.Float64() < p
}

func (d *desk) upTo(n int64) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.chance.Int64N(n)
}

// rest waits, unless the worker dies meanwhile.
func (d *desk) rest(t time.Duration) {
	timer := time.NewTimer(t)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-d.gone.Done():
	}
}

// Next implements worker.Queue. Some evaluations are given back, and some are
// forgotten, as if by a worker that died.
func (d *desk) Next(ctx context.Context, types []string, most int) ([]berth.Delivery, error) {
	for {
		list, err := d.ledger.Next(ctx, types, min(most, 1+int(d.upTo(6))))
		if err != nil {
			return nil, err
		}
		d.floor, d.view = 0, nil
		keep := list[:0]
		for _, x := range list {
			bad := d.h.fate(x.Eval)
			switch {
			case bad == cursed && d.happens(0.7), d.happens(0.02):
				_ = d.ledger.Nack(x.Eval.ID, x.Token)
				continue
			case bad == cursed && !d.h.quiet.Load(), d.happens(0.02):
				continue
			}
			d.floor = max(d.floor, d.ledger.floor(x.Eval))
			keep = append(keep, x)
		}
		if len(keep) > 0 {
			return keep, nil
		}
	}
}

// Tip implements worker.Planner. What a worker sees may be old.
func (d *desk) Tip() *state.Snapshot {
	if d.happens(0.25) {
		d.view = d.log.old(d.floor)
	} else if d.view == nil || d.happens(0.7) {
		d.view = d.planner.Tip()
	}
	if d.view.Index < d.floor || d.h.quiet.Load() {
		d.view = d.planner.Tip()
	}
	return d.view
}

// Submit implements worker.Planner. The way there may be long.
func (d *desk) Submit(x *berth.Delivery, plan *state.ApplyPlan) (*state.Pending, error) {
	switch {
	case d.happens(0.05):
		d.rest(time.Duration(d.upTo(int64(2 * limits.NackTimeout))))
	case d.happens(0.2):
		d.rest(time.Duration(d.upTo(int64(3 * time.Second))))
	}
	if d.h.fate(x.Eval) == unlucky && !d.h.quiet.Load() {
		for i := range plan.Place {
			plan.Place[i].NodeID[0] ^= 0xff
		}
	}
	before := d.ledger.token(x.Eval.ID)
	p, err := d.planner.Submit(x, plan)
	d.submitted(x, before, plan, err)
	d.attempt(x, plan, err)
	if err != nil || len(plan.Refused) > 0 {
		d.view = nil
		if forgets := d.happens(0.2); err == nil || !forgets { // what was placed it always sees
			d.floor = d.log.Tip().Index // it was told how new a state it needs
		}
	}
	return p, err
}

// attempt checks I-14: how often plans of one delivery may be refused.
func (d *desk) attempt(x *berth.Delivery, plan *state.ApplyPlan, err error) {
	if d.token != x.Token {
		d.token, d.tries = x.Token, 0
	}
	if err == nil && len(plan.Refused) < len(plan.Place) {
		d.tries = 0
		return
	}
	d.tries++
	most := 5
	if x.Eval.Type == berth.TypeBatch || x.Eval.Type == berth.TypeSysbatch {
		most = 2
	}
	if (err != nil || len(plan.Refused) > 0) && d.tries > most+1 {
		d.h.failf("I-14: plans of evaluation %s were refused %d times in a row", x.Eval.ID.Short(), d.tries)
	}
}

// Ack implements worker.Queue. A worker can die before it says that it is done.
func (d *desk) Ack(id berth.EvalID, token berth.Token) error {
	if d.happens(0.03) {
		return nil
	}
	return d.ledger.Ack(id, token)
}

package broker

import (
	"context"
	"errors"
	"time"

	"berth"
)

// ErrClosed is returned when the term is over.
var ErrClosed = errors.New("the evaluation broker's term is over")

// Next waits for evaluations of the given types and delivers at most `most` of
// them. It returns none if ctx has ended.
func (b *Broker) Next(ctx context.Context, types []string, most int) ([]berth.Delivery, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err // an evaluation delivered to a worker that is gone would be lost for a while
		}
		b.mu.Lock()
		if b.closed {
			b.mu.Unlock()
			return nil, ErrClosed
		}
		var out []berth.Delivery
		if !b.paused {
			out = b.queue.Next(types, most, time.Now())
		}
		// Taken under the lock, so that no change is missed before the wait.
		changed := b.changed
		for i := range out {
			b.recent.open(out[i].Eval.ID)
		}
		b.mu.Unlock()
		if len(out) > 0 {
			b.wakeRun() // their delivery can time out
			return out, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// wakeRun makes Run look at its timers again.
func (b *Broker) wakeRun() {
	select {
	case b.poke <- struct{}{}:
	default:
	}
}

// Holds reports whether the worker that got this token still holds the
// evaluation.
func (b *Broker) Holds(id berth.EvalID, token berth.Token) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.queue.Holds(id, token)
}

// Extend restarts the time limit of a delivery. applying states whether the
// worker's plan is being applied.
func (b *Broker) Extend(id berth.EvalID, token berth.Token, applying bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.queue.Extend(id, token, applying, time.Now())
}

// Ack reports that a worker is done with an evaluation. One that is still pending
// in the state was not decided, whatever the worker believes: nobody would look at
// it again in this term. It is delivered again, as after Nack.
func (b *Broker) Ack(id berth.EvalID, token berth.Token) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.store.Snapshot().Eval(id); e != nil && e.Status == berth.EvalPending && b.queue.Holds(id, token) {
		// What ends it may be on its way to the log, such as its cancellation. Then it
		// is not delivered again, and this was its acknowledgement.
		b.Logger.Warn("an evaluation was acknowledged that is not decided; it is delivered again", "eval", id, "job", e.Key().String())
		b.notify(b.recent.ack(id, time.Now()))
		defer b.wakeRun()
		return b.queue.Nack(id, token, time.Now())
	}
	err := b.queue.Ack(id, token)
	if err == nil {
		b.notify(b.recent.ack(id, time.Now()))
	}
	b.wake()
	return err
}

// notify passes on that an evaluation ended. b.mu is held.
func (b *Broker) notify(e Ended, ok bool) {
	if ok && b.OnEnd != nil {
		b.OnEnd(e)
	}
}

// Nack reports that a worker could not decide an evaluation.
func (b *Broker) Nack(id berth.EvalID, token berth.Token) error {
	b.mu.Lock()
	err := b.queue.Nack(id, token, time.Now())
	b.mu.Unlock()
	b.wakeRun()
	return err
}

// Return reports that nobody looked at an evaluation: the worker that it was
// delivered to had been told to stop.
func (b *Broker) Return(id berth.EvalID, token berth.Token) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	err := b.queue.Return(id, token)
	b.wake()
	return err
}

// Quasi returns where an open evaluation is, and false if it is not in the queue.
func (b *Broker) Quasi(id berth.EvalID) (Quasi, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.queue.Quasi(id)
}

// Stats counts the evaluations that wait.
func (b *Broker) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.queue.Stats()
	s.Blocked, s.Quarantined, s.Offered, s.QuotaLimited = b.blocked.Len(), len(b.held), len(b.offers.open), b.blocked.quotas.count()
	return s
}

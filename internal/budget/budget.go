// Package budget shares a scarce amount, such as bytes of memory, between
// callers. A caller takes what it needs and waits while too much is taken: in
// total, or by those of its own key, such as its address. The keys take turns,
// so one that asks for much does not delay the others more than anyone else
// does.
package budget

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Errors of Take.
var (
	// ErrBusy is returned when the wait is over, and at once if Limits.Queue callers
	// of the key wait already.
	ErrBusy = errors.New("too much is in progress")
	// ErrTooLarge is returned for more than a key may ever have.
	ErrTooLarge = errors.New("more than the budget")
)

// Limits are those of a Budget. All must be above 0.
type Limits struct {
	Total int64 // taken at a time
	Each  int64 // taken at a time by one key
	Queue int   // callers of one key that wait
}

// Budget is an amount that callers share. It is safe for concurrent use.
type Budget struct {
	limits Limits

	mu    sync.Mutex
	taken int64
	keys  map[string]*account // those that have something, or wait
	turns []*account          // those that wait; the first is next
}

// account is what one key has, and who waits for it.
type account struct {
	key   string
	taken int64
	queue []*waiter
}

// waiter is a caller that waits.
type waiter struct {
	amount  int64
	granted chan struct{} // closed when the amount is taken
}

// New returns a budget of which nothing is taken.
func New(l Limits) *Budget { return &Budget{limits: l, keys: map[string]*account{}} }

// Total returns how much can be taken at a time.
func (b *Budget) Total() int64 { return b.limits.Total }

// Each returns how much one key can take at a time.
func (b *Budget) Each() int64 { return b.limits.Each }

// Taken returns how much is taken in total, and by a key.
func (b *Budget) Taken(key string) (total, each int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a := b.keys[key]; a != nil {
		each = a.taken
	}
	return b.taken, each
}

// Take takes an amount for a key. It waits until the amount is free, ctx ends, or
// the time to wait is over. The caller must call give when it needs the amount no more;
// calling it again does nothing.
func (b *Budget) Take(ctx context.Context, key string, amount int64, wait time.Duration) (give func(), err error) {
	if amount > b.limits.Each || amount > b.limits.Total {
		return nil, ErrTooLarge
	}
	w, a, err := b.ask(key, amount)
	if err != nil {
		return nil, err
	}
	give = sync.OnceFunc(func() { b.give(a, amount) })
	if w == nil {
		return give, nil
	}
	over := time.NewTimer(wait)
	defer over.Stop()
	select {
	case <-w.granted:
		return give, nil
	case <-over.C:
		err = ErrBusy
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if b.leave(a, w) {
		return nil, err
	}
	return give, nil // it was granted in the meantime
}

// ask takes the amount if it is free and nobody waits for it in vain; else it
// puts a waiter into the queue.
func (b *Budget) ask(key string, amount int64) (*waiter, *account, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.keys[key]
	if a == nil {
		a = &account{key: key}
		b.keys[key] = a
	}
	if len(a.queue) >= b.limits.Queue {
		return nil, nil, ErrBusy
	}
	w := &waiter{amount, make(chan struct{})}
	a.queue = append(a.queue, w)
	if len(a.queue) == 1 {
		b.turns = append(b.turns, a)
	}
	b.grant()
	select {
	case <-w.granted:
		return nil, a, nil
	default:
		return w, a, nil
	}
}

// grant gives to those that wait, one for each key in turn. A key that has all it
// may have is passed over. One whose amount is not free in total ends the round:
// otherwise small amounts would keep a large one waiting for ever.
func (b *Budget) grant() {
	for i := 0; i < len(b.turns); {
		a := b.turns[i]
		w := a.queue[0]
		if a.taken+w.amount > b.limits.Each {
			i++
			continue
		}
		if b.taken+w.amount > b.limits.Total {
			return
		}
		a.taken += w.amount
		b.taken += w.amount
		a.queue = a.queue[1:]
		close(w.granted)
		b.turns = append(b.turns[:i], b.turns[i+1:]...)
		if len(a.queue) > 0 {
			b.turns = append(b.turns, a)
		}
	}
}

// give puts an amount back.
func (b *Budget) give(a *account, amount int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a.taken -= amount
	b.taken -= amount
	b.grant()
	b.forget(a)
}

// leave takes a waiter out of the queue. It reports false if the waiter has
// already got its amount.
func (b *Budget) leave(a *account, w *waiter) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, x := range a.queue {
		if x != w {
			continue
		}
		a.queue = append(a.queue[:i:i], a.queue[i+1:]...)
		if len(a.queue) == 0 {
			b.drop(a)
		}
		// It may have been what the others waited behind.
		b.grant()
		b.forget(a)
		return true
	}
	return false
}

// drop takes an account out of the turns.
func (b *Budget) drop(a *account) {
	for i, x := range b.turns {
		if x == a {
			b.turns = append(b.turns[:i], b.turns[i+1:]...)
			return
		}
	}
}

// forget removes an account that has nothing and waits for nothing.
func (b *Budget) forget(a *account) {
	if a.taken == 0 && len(a.queue) == 0 {
		delete(b.keys, a.key)
	}
}

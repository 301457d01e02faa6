// Package locks ends the locks on variables that are not renewed in time.
// Renewals are not in the log: the leader keeps them in memory, and a new
// leader gives every lock its full time again. So no lock is lost early, and
// clocks of servers need not agree. A lock that was renewed is not ended: both
// are decided under one mutex, against the state.
package locks

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"berth"
	"berth/internal/state"
)

// Monitor ends the locks of one term.
type Monitor struct {
	term  uint64
	store *state.Store
	log   state.Log

	mu    sync.Mutex
	locks map[berth.VariableKey]*lock
}

// lock is a lock that is held, or was lost and is in its delay.
type lock struct {
	id     berth.LockID
	lost   bool
	span   time.Duration // its TTL, or its delay
	due    time.Time
	ending bool // the command that ends it is proposed
}

// New returns the monitor of a term.
func New(term uint64, store *state.Store, log state.Log) *Monitor {
	return &Monitor{term: term, store: store, log: log, locks: map[berth.VariableKey]*lock{}}
}

// Renew gives a lock its full time again. It returns false if the lock is not
// held any more.
func (m *Monitor) Renew(k berth.VariableKey, id berth.LockID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sync(m.store.Snapshot(), time.Now())
	l := m.locks[k]
	if l == nil || l.id != id || l.lost || l.ending {
		return false
	}
	l.due = time.Now().Add(l.span)
	return true
}

// sync brings the locks in line with the state. The caller holds the mutex.
func (m *Monitor) sync(snap *state.Snapshot, now time.Time) {
	there := map[berth.VariableKey]bool{}
	for v := range snap.Locked() {
		k, span := v.Key(), v.Lock.TTL
		if v.Lock.Lost {
			span = v.Lock.Delay
		}
		there[k] = true
		l := m.locks[k]
		switch {
		case l == nil || l.id != v.Lock.ID || l.lost != v.Lock.Lost:
			m.locks[k] = &lock{id: v.Lock.ID, lost: v.Lock.Lost, span: span, due: now.Add(span)}
		case l.span != span: // its holder changed it, which renews it
			l.span, l.due = span, now.Add(span)
		}
	}
	for k := range m.locks {
		if !there[k] {
			delete(m.locks, k)
		}
	}
}

// mostEnded is the largest number of locks that one command ends.
const mostEnded = 1000

// step returns the command that ends what is due, nil if nothing is, and when
// the next lock is due.
func (m *Monitor) step(now time.Time) (do *state.StepLocks, next time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sync(m.store.Snapshot(), now)
	c := &state.StepLocks{}
	for k, l := range m.locks {
		switch {
		case l.ending:
		case l.due.After(now):
			if next.IsZero() || l.due.Before(next) {
				next = l.due
			}
		case len(c.Lose)+len(c.Free) == mostEnded:
			next = now
		default:
			l.ending = true
			ref := state.LockRef{Namespace: k.Namespace, Path: k.Path, ID: l.id}
			if l.lost {
				c.Free = append(c.Free, ref)
			} else {
				c.Lose = append(c.Lose, ref)
			}
		}
	}
	if len(c.Lose)+len(c.Free) == 0 {
		return nil, next
	}
	slices.SortFunc(c.Lose, compare)
	slices.SortFunc(c.Free, compare)
	c.Stamp(m.term)
	return c, next
}

// compare orders locks by namespace and path.
func compare(a, b state.LockRef) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Path, b.Path))
}

// idle is how long the monitor waits while no lock is held and nothing changes.
const idle = 10 * time.Minute

// Run ends locks until ctx ends or the log is lost.
func (m *Monitor) Run(ctx context.Context) error {
	watch := m.store.Watch(state.OnTable(state.Variables))
	defer watch.Stop()
	for {
		do, next := m.step(time.Now())
		if do != nil {
			if _, err := m.log.Propose(ctx, do); err != nil && berth.KindOf(err) == "" {
				return err // the log is gone, and with it the term
			}
			continue // a refusal means that the locks were given up meanwhile
		}
		wait := idle
		if !next.IsZero() {
			wait = time.Until(next)
		}
		alarm := time.NewTimer(wait)
		select {
		case <-watch.C():
		case <-alarm.C:
		case <-ctx.Done():
			alarm.Stop()
			return ctx.Err()
		}
		alarm.Stop()
	}
}

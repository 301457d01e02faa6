// Package leader runs the services that only the leader has. A term is a
// context: gaining leadership builds every service from the state, losing it
// cancels the context, and each Run returns. Nothing is enabled, disabled or
// flushed.
package leader

import (
	"context"
	"time"

	"berth"
	"berth/internal/state"
)

// A Controller keeps one promise of the system, such as "a draining node ends
// up empty". It takes the state and returns what must change, and when to step
// again if nothing changes before. It starts no goroutine, reads no clock and
// does no I/O, so tests can run it in virtual time, unchanged. The cost of a Step grows
// with what changed, never with what exists. After its own commands are applied
// it returns none.
type Controller interface {
	Step(snap *state.Snapshot, now time.Time) (do []state.Command, again time.Time)
}

// Stamper is a command that carries the term in which it was decided.
type Stamper interface{ Stamp(term uint64) }

// Audit is how often a controller steps without a change and without having
// asked for it, in case a change was ever missed.
const Audit = 10 * time.Minute

// pace is the shortest time between two steps of one controller.
const pace = 10 * time.Millisecond

// retry is when a controller steps again whose commands the log did not take.
const retry = time.Second

// Run steps c whenever one of the watched keys changes, whenever c asked for
// it, and at the latest after Audit, until ctx ends or the log is lost. It
// stamps the commands with the term.
func Run(ctx context.Context, c Controller, term uint64, store *state.Store, log state.Log, keys ...state.WatchKey) error {
	watch := store.Watch(keys...)
	defer watch.Stop()
	for {
		do, again := c.Step(store.Snapshot(), time.Now())
		if len(do) > 0 {
			Stamp(term, do...)
			_, err := log.Propose(ctx, do...)
			if err == nil {
				continue
			}
			if berth.KindOf(err) == "" {
				return err // the log is gone, and with it the term
			}
			// Refused: the snapshot was old, so wait for the next change. If the
			// log is only busy, there may be none.
			if berth.KindOf(err) == berth.Limited {
				again = time.Now().Add(retry)
			}
		}
		if err := wait(ctx, watch, again); err != nil {
			return err
		}
	}
}

// wait returns when watch reports a change, at the time again, or after Audit,
// but not before pace has passed: a controller must not run for each of many
// changes. Zero again means that nothing is due.
func wait(ctx context.Context, watch *state.Watch, again time.Time) error {
	most := Audit
	if !again.IsZero() {
		most = min(most, time.Until(again))
	}
	alarm := time.NewTimer(most)
	defer alarm.Stop()
	rest := time.NewTimer(pace)
	defer rest.Stop()
	select {
	case <-rest.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-watch.C():
	case <-alarm.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// Stamp marks commands with the term in which they were decided.
func Stamp(term uint64, cmds ...state.Command) {
	for _, c := range cmds {
		if s, ok := c.(Stamper); ok {
			s.Stamp(term)
		}
	}
}

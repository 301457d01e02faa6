package consensus

import (
	"context"
	"time"

	"berth"
	"berth/internal/state"
)

// Servers compare their states. The leader proposes a check now and then
// (state.CheckHash), and every server hashes its state at that log entry,
// without delaying later entries. Then the servers tell each other their
// hashes and the majority counts: see vote.go.
// docs/decisions/0006-state-hash.md gives the reasons.

// compareEvery is how often the leader proposes a check, and compareFirst how
// long after the begin of its term at the latest: a leader whose state is wrong
// must not lead for long.
const (
	compareEvery = 10 * time.Minute
	compareFirst = time.Minute
)

// comparer hashes the state at each check. The fsm passes the states on and
// never waits: if a check comes while earlier ones are still being hashed, the
// oldest of them is skipped, which costs one comparison.
type comparer struct {
	checks chan checked
	done   chan state.Check  // the newest: Index, and Hash there; holds one
	hashed func(state.Check) // told of each
}

// checked is a check and the state after its log entry. Entries are the same on
// all servers, so these states must be, too.
type checked struct {
	check state.Check
	snap  *state.Snapshot
}

// newComparer returns a comparer that calls hashed with the hash of this
// server's state at each check. Its channels hold a few checks, so that
// applying the log does not wait for a hash.
func newComparer(hashed func(state.Check)) *comparer {
	return &comparer{checks: make(chan checked, 4), done: make(chan state.Check, 1), hashed: hashed}
}

// note passes on the state after an entry, if the entry was a check. Only the
// fsm calls it.
func (c *comparer) note(before, after *state.Snapshot) {
	check := after.Check()
	if check == nil || check == before.Check() {
		return
	}
	for {
		select {
		case c.checks <- checked{*check, after}:
			return
		default:
		}
		select { // full: the newest matters most
		case <-c.checks:
		default:
		}
	}
}

// run hashes until ctx ends.
func (c *comparer) run(ctx context.Context) {
	for {
		select {
		case k := <-c.checks:
			own := state.Check{Index: k.check.Index, Hash: k.snap.Hash()}
			c.hashed(own)
			select {
			case <-c.done:
			default:
			}
			c.done <- own
		case <-ctx.Done():
			return
		}
	}
}

// proposeChecks proposes checks while this server leads.
func (s *Server) proposeChecks(ctx context.Context, term Term) {
	t := time.NewTimer(min(s.config.CompareEvery, compareFirst))
	defer t.Stop()
	for ; ; t.Reset(s.config.CompareEvery) {
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
		if s.config.Mixed != nil && s.config.Mixed() {
			continue
		}
		// If the newest entry is a check directly behind another, nothing has
		// changed since.
		if last := s.store.Snapshot().Check(); last != nil && last.Of+1 == last.Index && last.Index == s.store.Snapshot().Index {
			continue
		}
		c := &state.CheckHash{}
		select {
		case own := <-s.comparer.done:
			c.Of, c.Hash = own.Index, own.Hash
		default: // this is the first check, or the last one is not hashed yet
		}
		c.Stamp(term.Number)
		if _, err := term.Log.Propose(ctx, c); err != nil && berth.KindOf(err) != berth.Limited {
			return // the term is over
		}
	}
}

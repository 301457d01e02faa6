package consensus

import (
	"context"
	"fmt"
	"time"

	"berth/internal/state"
)

// Servers compare their states: the leader proposes a check now and then
// (state.CheckHash). Where it stands in the log every server hashes its state,
// off the way of the entries; the next check says what hash the leader had at
// the one before. docs/decisions/0006-state-hash.md says why in this way.

// compareEvery is how often the leader proposes a check.
const compareEvery = 10 * time.Minute

// comparer hashes the states at which checks stand. The fsm hands them over
// and never waits: a check that comes while earlier ones are still in hand is
// passed over, which costs one comparison.
type comparer struct {
	checks chan checked
	done   chan state.Check // the newest: Index, and Hash there; holds one
	differ func(error)
}

// checked is a check and the state after the entry that it stands in. Entries
// are the same on all servers, so these states are, too.
type checked struct {
	check state.Check
	snap  *state.Snapshot
}

func newComparer(differ func(error)) *comparer {
	return &comparer{checks: make(chan checked, 4), done: make(chan state.Check, 1), differ: differ}
}

// note takes a state at which a check may stand.
func (c *comparer) note(before, after *state.Snapshot) {
	check := after.Check()
	if check == nil || check == before.Check() {
		return
	}
	select {
	case c.checks <- checked{*check, after}:
	default:
	}
}

// run hashes and compares until ctx ends.
func (c *comparer) run(ctx context.Context) {
	var own state.Check
	for {
		select {
		case k := <-c.checks:
			if k.check.Of != 0 && k.check.Of == own.Index && k.check.Hash != own.Hash {
				c.differ(fmt.Errorf("%w: at index %d it has the hash %016x, and the leader's has %016x; "+
					"this server takes no part any more, and is filled anew from the leader at its next start", ErrDiffers, own.Index, own.Hash, k.check.Hash))
				return
			}
			own = state.Check{Index: k.check.Index, Hash: k.snap.Hash()}
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

// differs takes this server out.
func (s *Server) differs(err error) {
	if noted := s.mustRefill(err); noted != nil {
		err = fmt.Errorf("%w; but that cannot be noted, so remove its data: %w", err, noted)
	}
	s.fsm.fail(err)
}

// proposeChecks proposes checks while this server leads.
func (s *Server) proposeChecks(ctx context.Context, term Term) {
	t := time.NewTicker(s.config.CompareEvery)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
		if s.config.Mixed != nil && s.config.Mixed() {
			continue
		}
		// After a check that stands directly behind another nothing has changed.
		if last := s.store.Snapshot().Check(); last != nil && last.Of+1 == last.Index && last.Index == s.store.Snapshot().Index {
			continue
		}
		c := &state.CheckHash{}
		select {
		case own := <-s.comparer.done:
			c.Of, c.Hash = own.Index, own.Hash
		default: // the first, or the last one is not hashed yet
		}
		c.Stamp(term.Number)
		if _, err := term.Log.Propose(ctx, c); err != nil {
			return // the term is over
		}
	}
}

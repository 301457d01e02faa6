package consensus

import (
	"context"
	"fmt"
	"time"

	"berth/internal/state"
)

// Servers compare their states. The leader proposes a check now and then
// (state.CheckHash), and every server hashes its state at that log entry,
// without delaying later entries. The next check carries the leader's hash at
// the one before. docs/decisions/0006-state-hash.md gives the reasons.

// compareEvery is how often the leader proposes a check.
const compareEvery = 10 * time.Minute

// comparer hashes the state at each check. The fsm passes the states on and
// never waits: a check that comes while earlier ones are still being hashed is
// skipped, which costs one comparison.
type comparer struct {
	checks chan checked
	done   chan state.Check // the newest: Index, and Hash there; holds one
	differ func(error)
}

// checked is a check and the state after its log entry. Entries are the same on
// all servers, so these states must be, too.
type checked struct {
	check state.Check
	snap  *state.Snapshot
}

// newComparer returns a comparer that calls differ when this server's state
// does not have the checksum that the leader logged. Its channels hold a few
// checks, so that applying the log does not wait for a checksum.
func newComparer(differ func(error)) *comparer {
	return &comparer{checks: make(chan checked, 4), done: make(chan state.Check, 1), differ: differ}
}

// note passes on the state after an entry, if the entry was a check.
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
				c.differ(fmt.Errorf("%w: at index %d its hash is %016x, but the leader's is %016x; "+
					"this server stops taking part and is refilled from the leader at its next start", ErrDiffers, own.Index, own.Hash, k.check.Hash))
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

// differs takes this server out of the cluster.
func (s *Server) differs(err error) {
	if noted := s.mustRefill(err); noted != nil {
		err = fmt.Errorf("%w; this cannot be recorded on disk, so remove the server's data: %w", err, noted)
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
		if _, err := term.Log.Propose(ctx, c); err != nil {
			return // the term is over
		}
	}
}

package consensus

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"

	"berth/internal/failpoint"
	"berth/internal/state"
	"berth/internal/state/codec"

	"github.com/hashicorp/raft"
)

// fsm applies committed entries to the store. raft calls Apply, Snapshot and
// Restore from one goroutine.
type fsm struct {
	store  *state.Store
	log    *slog.Logger
	broken chan struct{} // closed once err is set
	// published, if set, is called for each entry with the state before and
	// after it.
	published func(before, after *state.Snapshot)
	// disputed, if set, decides about an entry that cannot be applied here. It
	// waits for the other servers' votes and returns nil if the entry is void,
	// and errHalted if there is no decision.
	disputed func(index uint64, reason error) error
	// replaced, if set, is called when a snapshot has replaced the state.
	replaced func()
	// halted means that the vote about an entry was given up. Nothing is applied
	// until raft is opened again or a snapshot is restored.
	halted atomic.Bool

	// applied is the index of the entry that was applied last. When the log is
	// opened again while the process runs, entries up to it are not applied
	// again.
	applied atomic.Uint64

	mu     sync.Mutex
	err    error
	staged []*entry // computed by this leader, in the order of proposal
	ahead  uint64   // the state index after the last of them; 0 if none was staged in this term
}

// entry is a log entry whose result the leader computed before it was committed.
type entry struct {
	data  []byte
	batch *state.Batch
}

// expect tells the fsm about an entry that is about to be proposed.
func (f *fsm) expect(e *entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.staged = append(f.staged, e)
	f.ahead = e.batch.Snapshot.Index
}

// reach returns a state index that includes all entries up to a committed one.
// Other servers may apply those, and answer from them, before this server does.
func (f *fsm) reach(committed uint64) uint64 {
	if committed <= f.applied.Load() {
		return f.store.Snapshot().Index
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return max(f.ahead, f.store.Snapshot().Index)
}

// forget drops the expected entries. The term is over, and the log decides what
// becomes of them.
func (f *fsm) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.staged, f.ahead = nil, 0
}

// claim returns the computed result of an entry, if it is the very entry that
// was proposed and the state is the one it was computed on.
func (f *fsm) claim(data []byte) *state.Batch {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.staged) == 0 || len(data) == 0 || &f.staged[0].data[0] != &data[0] {
		return nil
	}
	b := f.staged[0].batch
	f.staged = f.staged[1:]
	if b.Base != f.store.Snapshot() {
		return nil
	}
	return b
}

// Apply implements raft.FSM.
func (f *fsm) Apply(l *raft.Log) any {
	if err := f.failure(); l.Type != raft.LogCommand || err != nil {
		return err
	}
	if l.Index <= f.applied.Load() {
		return nil
	}
	if f.halted.Load() {
		return errHalted
	}
	if b := f.claim(l.Data); b != nil {
		f.publish(l, b)
		return nil
	}
	cmds, err := state.DecodeEntry(l.Data)
	if err != nil {
		// Continuing without a change that others make would let the states
		// diverge.
		return f.fail(fmt.Errorf("raft log entry %d: %w", l.Index, err))
	}
	now := f.store.Snapshot()
	if base, ok := codec.EntryBase(l.Data); ok && base != now.Index {
		return f.misplaced(l, base, now.Index)
	}
	tx := state.Begin(now)
	for _, c := range cmds {
		if failpoint.On() && failpoint.Hit(fmt.Sprintf("consensus/skip-apply/%T", c)) != nil {
			tx.Index++ // a defect that the fault runner must find
			f.log.Warn("a fault point skips a command", "entry", l.Index)
			continue
		}
		if r := tx.Apply(c); r.Err != nil {
			// The log holds only commands that were applied, so this state
			// differs from the leader's.
			return f.dispute(l, fmt.Errorf("raft log entry %d: %T was applied by another server but is refused here: %w", l.Index, c, r.Err))
		}
	}
	f.publish(l, tx.End())
	return nil
}

// publish makes the result of an entry the current state.
func (f *fsm) publish(l *raft.Log, b *state.Batch) {
	f.store.Publish(b)
	f.applied.Store(l.Index)
	if f.published != nil {
		f.published(b.Base, b.Snapshot)
	}
}

// misplaced handles an entry that was computed on another state. If that state
// was a later one, raft did not take an entry between the two, as may happen
// during a transfer of leadership. Then this entry is void, on all servers
// alike. If it was an earlier one, this server or the leader has something that
// the others did not take: it restored a snapshot as leader and failed before
// they had it, or its state is wrong.
func (f *fsm) misplaced(l *raft.Log, base, now uint64) error {
	if base < now {
		return f.dispute(l, fmt.Errorf("raft log entry %d was computed on state %d, but this server has %d", l.Index, base, now))
	}
	f.log.Warn("a log entry is void: an entry that it builds on is missing", "entry", l.Index, "base", base, "state", now)
	f.applied.Store(l.Index)
	return errVoid
}

// dispute handles an entry that cannot be applied here: either this server's
// state is wrong or that of the leader that computed the entry.
func (f *fsm) dispute(l *raft.Log, reason error) error {
	if f.disputed == nil { // there is no other server
		return f.fail(reason)
	}
	switch err := f.disputed(l.Index, reason); {
	case errors.Is(err, errHalted):
		f.halted.Store(true)
		return err
	case err != nil:
		return f.fail(err)
	}
	f.applied.Store(l.Index)
	return errVoid
}

// errVoid is the result of an entry that was computed on another state.
var errVoid = fmt.Errorf("%w: the entry builds on one that was not committed", state.ErrLost)

// fail makes the fsm take no more entries. It returns the first error given.
func (f *fsm) fail(err error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = err
		close(f.broken)
	}
	return f.err
}

// failure returns why the fsm takes no more entries, nil while it does.
func (f *fsm) failure() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// Snapshot implements raft.FSM.
func (f *fsm) Snapshot() (raft.FSMSnapshot, error) {
	if err := f.failure(); err != nil {
		return nil, err
	}
	return &saved{f.store.Snapshot()}, nil
}

// saved is a state that raft saves.
type saved struct{ *state.Snapshot }

// Persist implements raft.FSMSnapshot.
func (s *saved) Persist(sink raft.SnapshotSink) error {
	if err := s.Save(sink); err != nil {
		sink.Cancel()
		return err
	}
	return sink.Close()
}

// Release implements raft.FSMSnapshot.
func (s *saved) Release() {}

// Restore implements raft.FSM.
func (f *fsm) Restore(r io.ReadCloser) error {
	defer r.Close()
	snap, err := state.Load(r)
	if err != nil {
		return err
	}
	f.store.Reset(snap)
	f.halted.Store(false)
	if f.replaced != nil {
		f.replaced()
	}
	return nil
}

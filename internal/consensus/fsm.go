package consensus

import (
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
	// published, if it is not nil, is told of each entry: the state before and
	// after it.
	published func(before, after *state.Snapshot)
	// differs, if it is not nil, makes the fsm fail, and has the server be filled
	// anew by others.
	differs func(error)

	// applied is the entry that was applied last. When the log is opened again
	// in the middle of a run, those up to it are there.
	applied atomic.Uint64

	mu     sync.Mutex
	err    error
	staged []*entry // worked out by this leader, in the order they were proposed
	ahead  uint64   // the state index that the last of them leads to; 0: none was in this term
}

// entry is a log entry whose outcome the leader worked out before it was
// committed.
type entry struct {
	data  []byte
	batch *state.Batch
}

// expect tells the fsm of an entry that is about to be proposed.
func (f *fsm) expect(e *entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.staged = append(f.staged, e)
	f.ahead = e.batch.Snapshot.Index
}

// reach returns a state index that includes all entries up to a committed one.
// Others may have applied those before this server does, and answered from them.
func (f *fsm) reach(committed uint64) uint64 {
	if committed <= f.applied.Load() {
		return f.store.Snapshot().Index
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return max(f.ahead, f.store.Snapshot().Index)
}

// forget drops what is expected: the term is over, and what becomes of its
// entries is for the log to say.
func (f *fsm) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.staged, f.ahead = nil, 0
}

// claim returns what was worked out for an entry if it is the very one that
// was proposed, on the very state that there is.
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
	if b := f.claim(l.Data); b != nil {
		f.publish(l, b)
		return nil
	}
	cmds, err := state.DecodeEntry(l.Data)
	if err != nil {
		// Going on without a change that others make would part us from them.
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
			continue
		}
		if r := tx.Apply(c); r.Err != nil {
			// Only what was applied is in the log, so this state is not the
			// one that the leader had.
			return f.fail(fmt.Errorf("raft log entry %d: %T, which another server applied, is refused here: %w", l.Index, c, r.Err))
		}
	}
	f.publish(l, tx.End())
	return nil
}

// publish makes what an entry led to the state.
func (f *fsm) publish(l *raft.Log, b *state.Batch) {
	f.store.Publish(b)
	f.applied.Store(l.Index)
	if f.published != nil {
		f.published(b.Base, b.Snapshot)
	}
}

// misplaced deals with an entry that was worked out on another state. If that
// was a later one, raft did not take an entry between the two, which it may, say
// during a transfer of leadership. Then this one is void, on all servers alike.
// If it was an earlier one, this server has what the others did not take: it led
// when it restored a snapshot, and was lost before they had it.
func (f *fsm) misplaced(l *raft.Log, base, now uint64) error {
	switch {
	case base < now && f.differs != nil:
		f.differs(fmt.Errorf("%w: raft log entry %d was worked out on state %d, and this server has %d; "+
			"this server takes no part any more, and is filled anew from the leader at its next start", ErrDiffers, l.Index, base, now))
		return f.failure()
	case base < now:
		return f.fail(fmt.Errorf("raft log entry %d was worked out on state %d, and this server has %d", l.Index, base, now))
	}
	f.log.Warn("an entry of the log is void: one that it builds on is not there", "entry", l.Index, "base", base, "state", now)
	return errVoid
}

// errVoid is what becomes of an entry that was worked out on another state.
var errVoid = fmt.Errorf("%w: the entry builds on one that was not taken", state.ErrLost)

// fail makes the fsm take no more entries, for the first reason given.
func (f *fsm) fail(err error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = err
		close(f.broken)
	}
	return f.err
}

// failure returns why no more entries are taken, nil while they are.
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

// saved is a state that is being written.
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
	return nil
}

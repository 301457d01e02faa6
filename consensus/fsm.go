package consensus

import (
	"fmt"
	"io"
	"sync"

	"berth/state"

	"github.com/hashicorp/raft"
)

// fsm applies committed entries to the store. raft calls Apply, Snapshot and
// Restore from one goroutine.
type fsm struct {
	store  *state.Store
	broken chan struct{} // closed once err is set
	err    error

	mu     sync.Mutex
	staged []*entry // worked out by this leader, in the order they were proposed
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
}

// forget drops what is expected: the term is over, and what becomes of its
// entries is for the log to say.
func (f *fsm) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.staged = nil
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
	if l.Type != raft.LogCommand || f.err != nil {
		return f.err
	}
	if b := f.claim(l.Data); b != nil {
		f.store.Publish(b)
		return nil
	}
	cmds, err := state.DecodeEntry(l.Data)
	if err != nil {
		// Going on without a change that others make would part us from them.
		f.fail(fmt.Errorf("raft log entry %d: %w", l.Index, err))
		return f.err
	}
	tx := state.Begin(f.store.Snapshot())
	for _, c := range cmds {
		if r := tx.Apply(c); r.Err != nil {
			// Only what was applied is in the log, so this state is not the
			// one that the leader had.
			f.fail(fmt.Errorf("raft log entry %d: %T, which another server applied, is refused here: %w", l.Index, c, r.Err))
			return f.err
		}
	}
	f.store.Publish(tx.End())
	return nil
}

func (f *fsm) fail(err error) {
	f.err = err
	close(f.broken)
}

// Snapshot implements raft.FSM.
func (f *fsm) Snapshot() (raft.FSMSnapshot, error) {
	if f.err != nil {
		return nil, f.err
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

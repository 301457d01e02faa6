package consensus

import (
	"errors"
	"fmt"
	"io"

	"berth/internal/consensus/snapstore"
	"berth/internal/state"

	"github.com/hashicorp/raft"
)

// snapshots is the snapshot store that raft uses. It refuses a snapshot for
// which there is no space, and one that could not be read again, because raft
// restores a leader's snapshot only after it has replaced the older one.
type snapshots struct {
	*snapstore.Store
	guard    *guard
	link     *link
	received func(index uint64) // called when one from the leader is on disk, before raft restores it; nil: nobody asks
}

// snapshots returns the snapshot store of a node, as raft sees it.
func (s *Server) snapshots(n *node) *snapshots {
	out := &snapshots{Store: n.snaps, guard: s.guard, link: s.link}
	if s.voter != nil {
		out.received = s.voter.received
	}
	return out
}

// errHeld refuses a snapshot that became redundant between the link and raft.
// The leader sends it again, and then the link answers.
var errHeld = errors.New("this server already has everything in the snapshot")

// Create implements raft.SnapshotStore.
func (s *snapshots) Create(version raft.SnapshotVersion, index, term uint64, c raft.Configuration, cIndex uint64, t raft.Transport) (raft.SnapshotSink, error) {
	if index == s.link.installing.Load() && s.link.holds(index, term) {
		return nil, errHeld
	}
	size := int64(0)
	if all, err := s.List(); err == nil && len(all) > 0 {
		size = all[0].Size + all[0].Size/4
	}
	if err := s.guard.admit(size); err != nil {
		return nil, err
	}
	sink, err := s.Store.Create(version, index, term, c, cIndex, t)
	if err != nil {
		return nil, err
	}
	r, w := io.Pipe()
	v := &verified{SnapshotSink: sink, check: w, verdict: make(chan error, 1), complete: func() {}}
	if s.received != nil && index == s.link.installing.Load() {
		v.complete = func() { s.received(index) }
	}
	go func() {
		err := state.Verify(r)
		r.CloseWithError(err) // do not block the writer of a bad snapshot
		v.verdict <- err
	}()
	return v, nil
}

// verified is a snapshot that is verified while it is written.
type verified struct {
	raft.SnapshotSink
	// check receives a copy of what is written; verdict receives the result of
	// reading it back.
	check    *io.PipeWriter
	verdict  chan error
	complete func() // called when it is on disk
	judged   bool   // it was closed or cancelled; raft may do so twice
	err      error
}

// judge returns the result of the verification.
func (v *verified) judge() error {
	if !v.judged {
		v.check.Close()
		v.judged, v.err = true, <-v.verdict
	}
	return v.err
}

// Write implements io.Writer.
func (v *verified) Write(b []byte) (int, error) {
	n, err := v.SnapshotSink.Write(b)
	if err == nil {
		_, _ = v.check.Write(b) // Close returns the result
	}
	return n, err
}

// Close finishes the snapshot if it is complete, and drops it otherwise.
func (v *verified) Close() error {
	if err := v.judge(); err != nil {
		v.SnapshotSink.Cancel()
		return fmt.Errorf("the snapshot is incomplete or damaged: %w", err)
	}
	err := v.SnapshotSink.Close()
	if err == nil {
		v.complete()
	}
	return err
}

// Cancel drops the snapshot.
func (v *verified) Cancel() error {
	v.judge()
	return v.SnapshotSink.Cancel()
}

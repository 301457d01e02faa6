package consensus

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"time"

	"berth"
	"berth/internal/state"

	"github.com/hashicorp/raft"
)

// An operator's snapshot is an archive, see archive.go. Its main file, which by
// itself was the whole snapshot in earlier releases, consists of a line that names
// the format, a line of JSON that describes the content, the checksum of that line,
// and the saved state, which has its own version and checksum.

const (
	// The first line names the format, and the head that follows is at most
	// backupHeadMax bytes.
	backupMagic   = "berth operator snapshot 1\n"
	backupHeadMax = 4 << 10
)

// Backup describes an operator's snapshot.
type Backup struct {
	Created   time.Time
	Server    string // ID of the server that wrote it
	Index     uint64 // of the state
	Term      uint64
	RaftIndex uint64         // log index, at least that of the entry that led to the state
	Version   int            // of the saved state
	Rows      map[string]int // by table
}

// SaveTo writes the committed state of this server as an operator's snapshot. A
// caller that needs the newest state waits for the read index first.
func (s *Server) SaveTo(w io.Writer) (Backup, error) {
	raftIndex := s.fsm.applied.Load() // read before the state, which is then at least this new
	snap := s.store.Snapshot()
	b := Backup{
		Created: time.Now().UTC(), Server: s.config.ID, Index: snap.Index, Term: snap.Term, RaftIndex: raftIndex,
		Version: snap.SavedVersion(), Rows: rowsOf(snap),
	}
	return b, WriteBackup(w, b, snap)
}

// writeState writes what describes a state, and the state.
func writeState(w io.Writer, b Backup, snap *state.Snapshot) error {
	head, err := json.Marshal(b)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(w, "%s%s\n%s", backupMagic, head, headSum(head)); err != nil {
		return fmt.Errorf("save a snapshot: %w", err)
	}
	if err := snap.Save(w); err != nil {
		return fmt.Errorf("save a snapshot: %w", err)
	}
	return nil
}

// headSum returns the line that ends the head of a saved snapshot: the CRC-32C
// of everything before it.
func headSum(head []byte) string {
	return fmt.Sprintf("crc32c %08x\n", crc32.Checksum(head, crc32.MakeTable(crc32.Castagnoli)))
}

// rowsOf returns how many rows each table of snap has, by the table's name.
// Tables are numbered without gaps, so the first unknown number ends the list.
func rowsOf(snap *state.Snapshot) map[string]int {
	rows := map[string]int{}
	for t := range state.Table(255) {
		name, ok := state.TableName(t)
		if !ok {
			break
		}
		rows[name] = snap.Count(t)
	}
	return rows
}

// readState reads what writeState wrote, in full, and checks it.
func readState(in *bufio.Reader) (Backup, *state.Snapshot, error) {
	var b Backup
	// The lines come from an upload. ReadSlice reads no more than the
	// buffer holds.
	line, err := in.ReadSlice('\n')
	if err != nil || string(line) != backupMagic {
		return b, nil, berth.Errorf(berth.Invalid, "not an operator's snapshot")
	}
	if line, err = in.ReadSlice('\n'); err != nil {
		return b, nil, berth.Errorf(berth.Invalid, "the snapshot's header is damaged: %w", err)
	}
	// The next read overwrites the buffer.
	head := bytes.Clone(line[:len(line)-1])
	if line, err = in.ReadSlice('\n'); err != nil || string(line) != headSum(head) {
		return b, nil, berth.Errorf(berth.Invalid, "the snapshot's header is damaged: wrong checksum")
	}
	if err := json.Unmarshal(head, &b); err != nil {
		return b, nil, berth.Errorf(berth.Invalid, "the snapshot's header is damaged: %w", err)
	}
	// The state has checksums of its own.
	snap, err := state.Load(in)
	if err != nil {
		return b, nil, berth.Errorf(berth.Invalid, "cannot load the snapshot: %w", err)
	}
	if snap.Index != b.Index || snap.Term != b.Term {
		return b, nil, berth.Errorf(berth.Invalid, "the snapshot's header says index %d of term %d, but its state has index %d of term %d", b.Index, b.Term, snap.Index, snap.Term)
	}
	return b, snap, nil
}

// restore is a request to replace the present state.
type restore struct {
	ctx  context.Context
	snap *state.Snapshot
	done chan error
}

// RestoreFrom replaces the state of the cluster with that of an operator's
// snapshot. The snapshot is read in full and checked before anything changes.
// Then the term ends, the state is replaced on all servers, and a new term
// begins. Indexes continue above all earlier ones. Only the leader can restore.
func (s *Server) RestoreFrom(ctx context.Context, r io.Reader) (Backup, error) {
	b, snap, err := ReadBackup(r)
	if err != nil {
		return b, err
	}
	if !s.Leader() {
		return b, state.ErrLost
	}
	req := &restore{ctx, snap, make(chan error, 1)}
	select {
	case s.restores <- req:
	case <-ctx.Done():
		return b, ctx.Err()
	}
	select {
	case err = <-req.done:
	case <-ctx.Done():
		err = fmt.Errorf("%w: %w", state.ErrUnknown, ctx.Err())
	}
	return b, err
}

// errRestore ends a term whose state is being replaced.
var errRestore = fmt.Errorf("%w for a moment: a snapshot is being restored", state.ErrLost)

// restoreTemp names the file that holds a state until it replaces the present
// one.
const restoreTemp = "restore-*.tmp"

// removeLeftovers removes the files that a crash during a restore may have left.
func (s *Server) removeLeftovers() {
	left, _ := filepath.Glob(s.path(restoreTemp))
	for _, path := range left {
		if err := os.Remove(path); err != nil {
			s.config.Logger.Warn("cannot remove the file of an earlier restore; will try again at the next start", "file", path, "error", err)
		}
	}
}

// restore replaces the state between two terms, when there is no proposer.
func (s *Server) restore(n *node, req *restore) error {
	if err := req.ctx.Err(); err != nil {
		return err
	}
	if n.raft.State() != raft.Leader {
		return state.ErrLost
	}
	// Nothing that was proposed on the present state may follow the restored one.
	if err := await(req.ctx, func() error { return n.raft.Barrier(s.config.Patience).Error() }); err != nil {
		return lost(err)
	}
	f, err := os.CreateTemp(s.config.Dir, restoreTemp)
	if err != nil {
		return fmt.Errorf("restore a snapshot: %w", err)
	}
	defer f.Close()
	if err := os.Remove(f.Name()); err != nil { // so that a crash leaves no large file
		return fmt.Errorf("restore a snapshot: %w", err)
	}
	// The restored state goes on counting from the present index and term, so
	// that no number is used twice.
	now := s.store.Snapshot()
	raised := req.snap.Raised(now)
	if s.config.Allow != nil && raised.LogVersion > now.LogVersion {
		if err := s.config.Allow("what the snapshot holds", raised.LogVersion); err != nil {
			return err
		}
	}
	if err := raised.Save(f); err != nil {
		return fmt.Errorf("restore a snapshot: %w", err)
	}
	size, err := f.Seek(0, io.SeekCurrent)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return fmt.Errorf("restore a snapshot: %w", err)
	}
	// After an error the restored state may still come to be committed.
	err = n.raft.Restore(&raft.SnapshotMeta{Version: raft.SnapshotVersionMax, Size: size}, f, s.config.Patience)
	if err != nil {
		return fmt.Errorf("restore a snapshot: %w: %w", lost(err), state.ErrUnknown)
	}
	s.config.Logger.Warn("a snapshot was restored", "snapshot_index", req.snap.Index, "index", raised.Index)
	return nil
}

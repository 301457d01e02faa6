// Package snapstore keeps a server's snapshots on disk. It extends raft's
// FileSnapshotStore.
//
// The library writes and syncs snapshots, checks the checksum of the state when
// a snapshot is opened, and keeps the newest few. But it never removes what a
// crash or a full disk left of a snapshot, and it trusts meta.json: an index
// that a flipped bit changed passes as true. So this package
//
//   - removes such remains, at once and at every start;
//   - writes a checksum next to meta.json, and at the start sets aside snapshots
//     that do not match it. An older snapshot is used then, if the log reaches
//     back to it, which consensus must check;
//   - refuses to start if there is a snapshot of a newer format.
//
// A snapshot exists from the moment that the sink's Close has returned.
package snapstore

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"berth"
	"berth/internal/failpoint"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// Names in the directory. The first three are the library's.
const (
	snapshotsDir = "snapshots"
	metaName     = "meta.json"
	tempSuffix   = ".tmp"
	sumName      = "meta.crc32c"
	damagedDir   = "damaged"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Store is a raft.SnapshotStore.
type Store struct {
	*raft.FileSnapshotStore
	dir     string
	log     *slog.Logger
	damaged []error
	index   uint64 // of the newest usable snapshot
	first   string // line of its state
}

var _ raft.SnapshotStore = (*Store)(nil)

// Open opens the snapshots in the directory dir and creates it if necessary.
// The newest retain snapshots are kept. logger may be nil.
func Open(dir string, retain int, logger *slog.Logger) (*Store, error) {
	if logger == nil {
		logger = slog.Default()
	}
	s := &Store{dir: dir, log: logger}
	if err := os.MkdirAll(filepath.Join(dir, snapshotsDir), 0o700); err != nil {
		return nil, s.failed("make", err)
	}
	if err := s.tidy(); err != nil {
		return nil, err
	}
	var err error
	s.FileSnapshotStore, err = raft.NewFileSnapshotStoreWithLogger(dir, retain, hclog.NewNullLogger())
	if err != nil {
		return nil, s.failed("open", err)
	}
	return s, nil
}

// SetAside returns why snapshots were set aside by Open, one error for each. If
// the log does not reach back to the newest of the others, this is why the
// server cannot start.
func (s *Store) SetAside() []error { return s.damaged }

// Continues returns an error if the log does not continue where the newest
// usable snapshot ends. Then entries are missing, and raft, which does not
// check, would panic during its start. Continues reads that snapshot once.
func (s *Store) Continues(log raft.LogStore) error {
	index, damaged, err := s.newest()
	if err != nil {
		return err
	}
	s.index = index
	first, err1 := log.FirstIndex()
	last, err2 := log.LastIndex()
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	damaged = append(damaged, s.damaged...)
	switch {
	case first > index+1:
		return fmt.Errorf("the newest usable snapshot in %s ends with entry %d but the log begins with entry %d: entries are missing; "+
			"rebuild this server from its peers or from a backup%s", s.dir, index, first, because(damaged))
	case last == 0 && index == 0 && len(damaged) > 0:
		return fmt.Errorf("no snapshot in %s is usable and the log is empty; rebuild this server from its peers or from a backup%s", s.dir, because(damaged))
	}
	return nil
}

// Overtake empties a log that ends before the newest usable snapshot that
// Continues found. A server received or restored that snapshot and crashed
// before raft emptied the log. Raft does not catch up on that, and then nothing
// could be appended: entries after the snapshot do not continue such a log.
func (s *Store) Overtake(log raft.LogStore) error {
	first, err1 := log.FirstIndex()
	last, err2 := log.LastIndex()
	if err := errors.Join(err1, err2); err != nil || last == 0 || last >= s.index {
		return err
	}
	s.log.Warn("the log ends before the newest snapshot; emptying it", "last", last, "snapshot", s.index)
	return log.DeleteRange(first, last)
}

// FirstLine returns the first line of the state of the newest usable snapshot
// that Continues found, "" if there is none.
func (s *Store) FirstLine() string { return s.first }

// because lists the damage for the one line that an operator gets.
func because(damaged []error) string {
	out := ""
	for _, err := range damaged {
		out += "; " + err.Error()
	}
	return out
}

// newest returns the index of the newest snapshot whose state is intact, 0 if
// none exists, and what is wrong with newer ones.
func (s *Store) newest() (index uint64, damaged []error, err error) {
	all, err := s.List()
	if err != nil {
		return 0, nil, s.failed("list", err)
	}
	for _, m := range all {
		_, r, err := s.FileSnapshotStore.Open(m.ID)
		if err == nil {
			s.first, _ = bufio.NewReader(io.LimitReader(r, 128)).ReadString('\n')
			return m.Index, damaged, r.Close()
		}
		if isIOError(err) {
			return 0, nil, s.failed("read a snapshot in", err)
		}
		damaged = append(damaged, fmt.Errorf("snapshot %s: %w", m.ID, err))
	}
	return 0, damaged, nil
}

// tidy removes unfinished snapshots and sets aside damaged ones.
func (s *Store) tidy() error {
	all, err := os.ReadDir(filepath.Join(s.dir, snapshotsDir))
	if err != nil {
		return s.failed("list", err)
	}
	for _, d := range all {
		path := filepath.Join(s.dir, snapshotsDir, d.Name())
		if strings.HasSuffix(d.Name(), tempSuffix) {
			if err := os.RemoveAll(path); err != nil {
				return s.failed("remove an unfinished snapshot from", err)
			}
			continue
		}
		err := check(path)
		if err == nil {
			continue
		}
		// Neither is damage: a newer build, or a disk that works again, can
		// read it. Setting it aside would lose data.
		if errors.Is(err, errNewer) || isIOError(err) {
			return berth.Errorf(berth.Invalid, "snapshot %s: %w", path, err)
		}
		s.damaged = append(s.damaged, fmt.Errorf("snapshot %s: %w", path, err))
		s.log.Warn("a damaged snapshot was set aside", "snapshot", path, "to", damagedDir, "error", err)
		if err := s.setAside(d.Name()); err != nil {
			return s.failed("set aside a damaged snapshot in", err)
		}
	}
	return nil
}

// setAside moves a damaged snapshot out of the list, so that Raft does not try
// it again. It stays on disk for the operator.
func (s *Store) setAside(id string) error {
	to := filepath.Join(s.dir, damagedDir)
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(to, id)); err != nil {
		return err
	}
	return os.Rename(filepath.Join(s.dir, snapshotsDir, id), filepath.Join(to, id))
}

// errNewer is not damage: a newer build can read the snapshot.
var errNewer = errors.New("the format is newer than this build")

// check returns an error if a finished snapshot's meta.json is not the one that
// was written.
func check(path string) error {
	b, err := os.ReadFile(filepath.Join(path, metaName))
	if err != nil {
		return err
	}
	want, err := os.ReadFile(filepath.Join(path, sumName))
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("the snapshot was not finished")
	}
	if err != nil {
		return err
	}
	if string(want) != sum(b) {
		return fmt.Errorf("the checksum of %s is wrong", metaName)
	}
	var m raft.SnapshotMeta
	if err := json.Unmarshal(b, &m); err != nil {
		return err
	}
	if m.Version > raft.SnapshotVersionMax {
		return fmt.Errorf("%w: version %d, but this build reads %d", errNewer, m.Version, raft.SnapshotVersionMax)
	}
	return nil
}

// sum returns the line with the CRC-32C of b.
func sum(b []byte) string { return fmt.Sprintf("crc32c %08x\n", crc32.Checksum(b, castagnoli)) }

// Create begins a snapshot.
func (s *Store) Create(version raft.SnapshotVersion, index, term uint64, c raft.Configuration, cIndex uint64, t raft.Transport) (raft.SnapshotSink, error) {
	if err := failpoint.Hit("consensus/snapshot-begin"); err != nil {
		return nil, err
	}
	inner, err := s.FileSnapshotStore.Create(version, index, term, c, cIndex, t)
	if err != nil {
		// Without a sink the name of the remains is unknown. Raft takes one
		// snapshot at a time, so no other is under way.
		s.removeTemporary("*")
		return nil, s.failed("begin a snapshot in", err)
	}
	return &sink{SnapshotSink: inner, store: s}, nil
}

// removeTemporary removes what an unfinished snapshot left behind. A failure is
// only logged: the files waste space and nothing else.
func (s *Store) removeTemporary(id string) {
	left, _ := filepath.Glob(filepath.Join(s.dir, snapshotsDir, id+tempSuffix))
	for _, path := range left {
		if err := os.RemoveAll(path); err != nil {
			s.log.Warn("cannot remove an unfinished snapshot; the next start will try again", "snapshot", path, "error", err)
		}
	}
}

// failed returns err with what was tried and where. A full disk is
// berth.Unavailable.
func (s *Store) failed(what string, err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return berth.Errorf(berth.Unavailable, "%s %s: the disk is full: %w", what, s.dir, err)
	}
	return fmt.Errorf("%s %s: %w", what, s.dir, err)
}

// sink is a snapshot being written.
type sink struct {
	raft.SnapshotSink
	store *Store
}

// Write implements io.Writer.
func (k *sink) Write(b []byte) (int, error) {
	if err := failpoint.Hit("consensus/snapshot-middle"); err != nil {
		return 0, err
	}
	n, err := k.SnapshotSink.Write(b)
	if err != nil {
		err = k.store.failed("write a snapshot to", err)
	}
	return n, err
}

// Close finishes the snapshot. If it fails, the snapshot does not exist.
func (k *sink) Close() error {
	if err := k.SnapshotSink.Close(); err != nil {
		k.giveUp()
		return k.store.failed("finish a snapshot in", err)
	}
	if err := failpoint.Hit("consensus/snapshot-rename"); err != nil {
		return err
	}
	if err := k.seal(); err != nil {
		return k.store.failed("finish a snapshot in", err)
	}
	return failpoint.Hit("consensus/snapshot-sealed")
}

// seal writes the checksum of the finished meta.json. Without it the next start
// would set the snapshot aside. Raft drops log entries only after this.
func (k *sink) seal() error {
	dir := filepath.Join(k.store.dir, snapshotsDir, k.ID())
	b, err := os.ReadFile(filepath.Join(dir, metaName))
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, sumName), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, sum(b))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Cancel drops the snapshot and its files. The library tries to write the rest
// first, and keeps everything if the disk is full.
func (k *sink) Cancel() error {
	err := k.SnapshotSink.Cancel()
	k.giveUp()
	if err != nil {
		return k.store.failed("drop a snapshot in", err)
	}
	return nil
}

// giveUp frees the space of an unfinished snapshot. If writing the rest fails,
// the library does not close the file, and its space is not free until the
// garbage collector closes it.
func (k *sink) giveUp() {
	k.store.removeTemporary(k.ID())
	k.SnapshotSink = &discarded{k.ID()}
	runtime.GC()
}

// discarded replaces a snapshot that was dropped.
type discarded struct{ id string }

// errDiscarded makes Raft give up a snapshot without a failure of the disk.
var errDiscarded = errors.New("the snapshot was dropped")

// ID implements raft.SnapshotSink.
func (d *discarded) ID() string { return d.id }

// Write returns errDiscarded, so that Raft stops writing.
func (d *discarded) Write([]byte) (int, error) { return 0, errDiscarded }

// Close returns errDiscarded: the snapshot must not count as saved.
func (d *discarded) Close() error { return errDiscarded }

// Cancel implements raft.SnapshotSink.
func (d *discarded) Cancel() error { return nil }

// isIOError reports whether the operating system returned an error other than
// "no such file".
func isIOError(err error) bool {
	n, ok := errors.AsType[syscall.Errno](err)
	return ok && n != syscall.ENOENT
}

// Package logstore keeps a server's Raft log and its vote on disk. It
// implements raft.LogStore and raft.StableStore of hashicorp/raft on the
// storage engine pebble; docs/decisions/0002-raft-log-engine.md explains that
// choice.
//
// It guarantees:
//
//   - A write returns when the bytes are on disk. A batch of entries is there
//     completely or not at all.
//   - After the first failed write or sync nothing reaches the disk any more,
//     and every later call returns that first error. What is on disk is what a
//     crash at that moment would have left. A failed sync is not retried.
//   - Open finds everything that was acknowledged, or fails with an error of one
//     line: see synced.go for the one case in which it cannot know. The only thing
//     it removes is a batch that a crash left half-written. Every entry is read
//     and checked by Open, and again whenever it is read.
//   - The log has no gaps: an append continues it, a deletion is at its ends.
//
// A directory holds the file meta, which states the format, the vote and which
// entries must exist, the file synced, which states how far the log was on disk,
// and the directory db, which is the engine's.
//
// It leaves to others: watching for free space and hanging disks, taking
// snapshots, and stopping the server when Failed is closed.
package logstore

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"berth"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/hashicorp/raft"
)

// ErrDamaged is wrapped by every error that means that the bytes on disk are
// not those that were written. The server must then be rebuilt from the other
// servers or from a snapshot; it must not continue.
var ErrDamaged = errors.New("the raft log is damaged")

var errClosed = errors.New("the raft log is closed")

// Options are the options of Open.
type Options struct {
	Logger *slog.Logger // nil: slog.Default()
	// Accept is asked before Open goes on with a log that ends too early, which
	// it can read. An error keeps the log as it is. nil refuses such a log.
	Accept func(*Store, Loss) error

	fs vfs.FS // nil: the operating system's; tests pass one that fails
}

// Store is an open log. Its methods may be called from any goroutine.
type Store struct {
	dir  string
	log  *slog.Logger
	disk *failStop
	db   *pebble.DB
	lock *pebble.Lock

	accept func(*Store, Loss) error // see Options

	writing sync.Mutex // held through each write; guards the fields below
	meta    meta       // as on disk
	seq     uint64     // number of the last batch of this session
	bytes   uint64     // written to the log since Open
	synced  vfs.File   // the file of that name

	mu     sync.RWMutex // held while the engine is read; guards the fields below
	first  uint64       // 0 if the log is empty
	last   uint64
	keys   map[string][]byte
	closed bool
}

var (
	_ raft.LogStore          = (*Store)(nil)
	_ raft.StableStore       = (*Store)(nil)
	_ raft.MonotonicLogStore = (*Store)(nil)
)

// Open opens the log in the directory dir and creates it if it does not exist.
// Only one process can have it open. If the disk is full the error is
// berth.Unavailable and wraps syscall.ENOSPC. If the files cannot be trusted it
// wraps ErrDamaged.
func Open(dir string, o Options) (*Store, error) {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.fs == nil {
		o.fs = vfs.Default
	}
	s := &Store{dir: dir, log: o.Logger, disk: newFailStop(o.fs), accept: o.Accept}
	err := s.open()
	if cause := s.disk.Err(); cause != nil {
		err = s.failure(cause) // any other error follows from this one
	} else if isNoSpace(err) {
		err = s.failure(err) // the lock file, which bypasses it
	}
	if err != nil {
		s.shut() // its error matters less than err
		return nil, err
	}
	return s, nil
}

// Err returns the error that stopped the store, or nil while it works.
func (s *Store) Err() error {
	if cause := s.disk.Err(); cause != nil {
		return s.failure(cause)
	}
	return nil
}

// Failed is closed at the first failed write or sync, including those in the
// background. Then the server must stop. Err returns the cause.
func (s *Store) Failed() <-chan struct{} { return s.disk.failed }

// failure adds the directory to a disk error for the operator, and for the
// caller whether free space would help.
func (s *Store) failure(cause error) error {
	switch {
	case errors.Is(cause, ErrDamaged):
		return cause
	case isNoSpace(cause):
		return berth.Errorf(berth.Unavailable, "raft log in %s: the disk is full: %w", s.dir, cause)
	}
	return fmt.Errorf("raft log in %s: stopped at the first failure to protect what is on disk: %w", s.dir, cause)
}

// damaged returns an error of one line that tells the operator what to do.
func (s *Store) damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s: %s; rebuild this server from its peers or from a snapshot, or see the command \"operator raft recover\"", ErrDamaged, s.dir, oneLine(fmt.Sprintf(format, args...)))
}

// Close closes the store. Everything acknowledged is on disk already.
func (s *Store) Close() error {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	return s.shut()
}

// shut closes what is open and returns the errors. The engine's error is left
// out on a stopped disk, because its cause is known already.
func (s *Store) shut() error {
	var errs []error
	if s.db != nil {
		if err := s.db.Close(); err != nil && s.disk.Err() == nil {
			errs = append(errs, fmt.Errorf("close raft log in %s: %w", s.dir, err))
		}
	}
	if s.synced != nil {
		errs = append(errs, s.synced.Close())
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
	}
	return errors.Join(errs...)
}

// Bytes returns the number of bytes written to the log since it was opened,
// including framing, and the size of its files now.
func (s *Store) Bytes() (appended uint64, onDisk int64, err error) {
	s.writing.Lock()
	appended = s.bytes
	s.writing.Unlock()
	onDisk, err = sizeOf(s.disk.FS, s.dir)
	return appended, onDisk, err
}

// usable returns an error if the store cannot be used. The caller holds s.mu.
func (s *Store) usable() error {
	if s.closed {
		return errClosed
	}
	return s.Err()
}

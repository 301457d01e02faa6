package logstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"slices"
	"strings"

	"berth"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	// memTable is how many bytes of entries are kept in memory before the
	// engine writes them to a table. Followers that lag no further read from
	// memory. The engine reserves a little more than this on disk for each of
	// its log files, and a start needs as much space again to write what was in
	// memory to tables. Larger ones were no faster, smaller ones slower.
	memTable = 8 << 20
	// memTables is the maximum number of memtables; the older ones wait to be
	// written. When all are full, appends wait too.
	memTables = 3
)

// open locks the directory, creates a log in an empty one, and checks every
// entry before the first one is read. After an error the caller calls shut.
func (s *Store) open() error {
	db := s.disk.PathJoin(s.dir, "db")
	if err := s.disk.MkdirAll(db, 0o700); err != nil {
		return fmt.Errorf("raft log: %w", err)
	}
	var err error
	if s.lock, err = pebble.LockDirectory(db, s.disk); err != nil {
		return fmt.Errorf("raft log in %s: lock the directory (is another process using it?): %w", s.dir, err)
	}
	if err := s.loadMeta(db); err != nil {
		return err
	}
	if s.meta.Session == 0 {
		if err := s.create(db); err != nil {
			return err
		}
	}
	// The engine drops its log files once it has read them, so the raw look
	// comes first.
	raw, err := s.lastStamp(db)
	if err != nil {
		return err
	}
	reached, err := readSynced(s.disk, s.dir)
	if err != nil {
		return fmt.Errorf("raft log in %s: %w", s.dir, err)
	}
	if err := s.openEngine(db, true); err != nil {
		return err
	}
	seen, err := s.check()
	if err != nil {
		return err
	}
	loss, err := s.shortfall(reached)
	if err == nil {
		err = s.judge(loss)
	}
	if err == nil && loss.Last >= loss.Required { // otherwise the operator accepted the loss
		err = s.judgeTail(raw, seen)
	}
	if err != nil {
		return err
	}
	return s.begin()
}

// loadMeta reads the file meta. In a new directory it writes the first one,
// with session 0, which means that nothing was acknowledged yet.
func (s *Store) loadMeta(db string) error {
	b, err := readAll(s.disk, s.disk.PathJoin(s.dir, metaName))
	if errors.Is(err, fs.ErrNotExist) {
		// The file is written before the engine creates any, so its absence
		// next to them is damage.
		files, err := s.disk.List(db)
		if err != nil {
			return fmt.Errorf("raft log in %s: %w", s.dir, err)
		}
		if len(files) > 1 { // the lock file always exists
			return s.damaged("the file %s is missing", metaName)
		}
		if err := syncDir(s.disk, s.disk.PathDir(s.dir)); err != nil {
			return fmt.Errorf("raft log in %s: %w", s.dir, err)
		}
		return s.putMeta(meta{})
	}
	if err != nil {
		return fmt.Errorf("raft log in %s: %w", s.dir, err)
	}
	s.meta, err = decodeMeta(b)
	if e, ok := errors.AsType[formatError](err); ok {
		return berth.Errorf(berth.Invalid, "raft log in %s: %w", s.dir, e)
	}
	if err != nil {
		return s.damaged("%v", err)
	}
	return nil
}

// create makes the engine's files. It replaces what a crash may have left of an
// earlier attempt.
func (s *Store) create(db string) error {
	files, err := s.disk.List(db)
	if err != nil {
		return fmt.Errorf("raft log in %s: %w", s.dir, err)
	}
	for _, f := range files {
		if f == "LOCK" {
			continue
		}
		if err := s.disk.Remove(s.disk.PathJoin(db, f)); err != nil {
			return fmt.Errorf("raft log in %s: %w", s.dir, err)
		}
	}
	if err := s.openEngine(db, false); err != nil {
		return err
	}
	// The first log file of a new engine lacks the marks that distinguish
	// damage from a torn end. The file that the next opening begins has them.
	err = s.db.Close()
	if s.db = nil; err != nil {
		return fmt.Errorf("raft log in %s: %w", s.dir, err)
	}
	return nil
}

// openEngine opens pebble. If exists is set, its files must exist.
func (s *Store) openEngine(db string, exists bool) (err error) {
	defer func() {
		// The engine panics on some kinds of damage.
		if p := recover(); p != nil {
			err = s.damaged("the engine cannot open it: %v", p)
		}
	}()
	o := &pebble.Options{
		FS:                          s.disk,
		Lock:                        s.lock,
		FormatMajorVersion:          pebble.FormatTableFormatV6, // log files and tables distinguish damage from a torn end
		ErrorIfNotExists:            exists,
		MemTableSize:                memTable,
		MemTableStopWritesThreshold: memTables,
		TargetFileSizes:             [7]int64{memTable}, // one file and so one sync for each memtable
		Logger:                      engineLogger{s},
		EventListener: &pebble.EventListener{
			BackgroundError: func(err error) { s.disk.fail(fmt.Errorf("background work of the engine: %w", err)) },
			DataCorruption:  func(i pebble.DataCorruptionInfo) { s.disk.fail(s.damaged("%s: %v", i.Path, i.Details)) },
			WriteStallBegin: func(i pebble.WriteStallBeginInfo) {
				s.log.Warn("raft log: writes wait for the disk", "reason", i.Reason)
			},
		},
	}
	o.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionNone })
	s.db, err = pebble.Open(db, o)
	switch {
	case s.disk.Err() != nil:
		return s.Err()
	case err == nil:
		return nil
	case isIOError(err):
		return fmt.Errorf("raft log in %s: %w", s.dir, err)
	}
	return s.damaged("the engine cannot open it: %v", err)
}

// check reads every entry, compares the log with meta, and returns the stamp of
// the newest entry.
func (s *Store) check() (newest stamp, err error) {
	// The engine panics on some kinds of damage.
	defer func() {
		if p := recover(); p != nil {
			err = s.damaged("the engine cannot read it: %v", p)
		}
	}()
	it, err := s.db.NewIter(nil)
	if err != nil {
		return newest, s.readError(0, err)
	}
	defer it.Close()
	var w walker
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.ValueAndErr()
		if err != nil {
			return newest, s.readError(w.next.index, err)
		}
		at, err := w.step(it.Key(), v)
		if err != nil {
			return newest, s.damaged("%v", err)
		}
		if at.after(newest) {
			newest = at
		}
	}
	if err := it.Error(); err != nil {
		return newest, s.readError(w.next.index, err)
	}
	// An entry is written with all its parts or not at all.
	if s.first, s.last = w.first, w.last; w.next.part != 0 {
		return newest, s.damaged("entry %d has only %d of its %d parts", w.next.index, w.next.part, w.next.parts)
	}
	return newest, s.compare()
}

// walker checks that the records are complete and in order.
type walker struct {
	first, last uint64 // complete entries seen
	next        place  // the record that must come next; index 0 at the start
}

// step checks that a record is the one that follows the last, and returns its
// stamp. Gaps, unknown keys and wrong checksums are errors.
func (w *walker) step(key, value []byte) (stamp, error) {
	index, part, ok := splitKey(key)
	switch {
	case !ok:
		return stamp{}, fmt.Errorf("unknown key %.40x", key)
	case w.next.index == 0:
		w.first, w.next = index, place{index: index}
	}
	if index != w.next.index || part != w.next.part {
		return stamp{}, fmt.Errorf("found entry %d, part %d; want entry %d, part %d", index, part, w.next.index, w.next.part)
	}
	_, parts, at, err := decodeRecord(value, index, part)
	if err != nil {
		return at, fmt.Errorf("entry %d: %w", index, err)
	}
	if part > 0 && parts != w.next.parts {
		return at, fmt.Errorf("entry %d: the number of parts is both %d and %d", index, parts, w.next.parts)
	}
	w.next = place{index, part + 1, parts}
	if part+1 == parts {
		w.last, w.next = index, place{index: index + 1}
	}
	return at, nil
}

// compare compares the begin of the log with meta; shortfall does the end.
func (s *Store) compare() error {
	if m := &s.meta; s.last != 0 && m.First != 0 && s.first > m.First {
		return s.damaged("the log must begin with entry %d, but begins with %d", m.First, s.first)
	}
	return nil
}

// judgeTail compares the newest batch that the engine read with the newest one
// that is still visible in the raw log file. Batches are written one at a time,
// each after the one before is on disk, so a crash can tear only one.
func (s *Store) judgeTail(raw, seen stamp) error {
	reached := s.meta.Seq // deleted on purpose
	if seen.session == s.meta.Session {
		reached = max(reached, seen.seq)
	}
	switch lost := int64(raw.seq) - int64(reached); {
	case raw.session != s.meta.Session || lost <= 0:
		return nil
	case lost == 1:
		s.log.Warn("raft log: removed an append that is incomplete, as a crash leaves it", "dir", s.dir, "last", s.last)
		return nil
	default:
		return s.damaged("the log ends with entry %d, but %d later appends were written after it", s.last, lost)
	}
}

// begin finishes deletions and opens a session.
func (s *Store) begin() error {
	m := s.meta.copy()
	if s.last != 0 && s.first < m.First {
		from := s.first
		if s.first = m.First; s.first > s.last {
			s.first, s.last = 0, 0
		}
		if err := s.db.DeleteRange(logKey(from), logKey(m.First), pebble.Sync); err != nil {
			return s.stop(err)
		}
	}
	m.First, m.Last, m.Seq = s.first, s.last, 0
	m.Session++
	s.keys = m.Keys
	if err := s.openSynced(); err != nil {
		return err
	}
	if err := s.putMeta(m); err != nil { // syncs the directory, too
		return err
	}
	s.bytes = 0
	s.log.Info("raft log opened", "dir", s.dir, "first", s.first, "last", s.last)
	return nil
}

// lastStamp searches the raw bytes of the engine's newest log file for record
// heads of the last session, and returns the newest stamp. It needs no
// knowledge of the engine's framing. A head that a frame boundary cuts in two
// is missed, but the next one is found.
func (s *Store) lastStamp(db string) (newest stamp, err error) {
	names, err := s.disk.List(db)
	if err != nil {
		return newest, fmt.Errorf("raft log in %s: %w", s.dir, err)
	}
	logs := slices.DeleteFunc(names, func(n string) bool { return !strings.HasSuffix(n, ".log") })
	if len(logs) == 0 {
		return newest, s.damaged("the engine's log file is missing")
	}
	b, err := readAll(s.disk, s.disk.PathJoin(db, slices.Max(logs))) // file numbers have leading zeros
	if err != nil {
		return newest, fmt.Errorf("raft log in %s: %w", s.dir, err)
	}
	for {
		i := bytes.Index(b, mark[:])
		if i < 0 {
			return newest, nil
		}
		b = b[i:]
		// Data can contain the mark by chance; its head's checksum then is
		// wrong.
		if _, at, err := decodeHead(b); err == nil && at.session == s.meta.Session && at.after(newest) {
			newest = at
		}
		b = b[1:]
	}
}

// readAll returns the contents of a file.
func readAll(fs vfs.FS, path string) ([]byte, error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// engineLogger passes pebble's messages on.
type engineLogger struct{ s *Store }

// Infof logs at debug level; the engine writes much that operators do not need.
func (l engineLogger) Infof(format string, args ...any) {
	if l.s.log.Enabled(context.Background(), slog.LevelDebug) {
		l.s.log.Debug("raft log engine: " + oneLine(fmt.Sprintf(format, args...)))
	}
}

// Errorf logs a warning. Whether the store can go on is not the engine's
// decision.
func (l engineLogger) Errorf(format string, args ...any) {
	l.s.log.Warn("raft log engine: " + oneLine(fmt.Sprintf(format, args...)))
}

// Fatalf must not return. The fail-stop file system hides failed writes from
// pebble, so this is a fault of the engine itself.
func (l engineLogger) Fatalf(format string, args ...any) {
	panic("raft log engine in " + l.s.dir + ": " + fmt.Sprintf(format, args...))
}

// oneLine returns s with each run of white space replaced by one space.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// sizeOf adds up the sizes of the files below dir, in bytes. Files that the
// engine removes meanwhile count as 0.
func sizeOf(fsys vfs.FS, dir string) (total int64, err error) {
	names, err := fsys.List(dir)
	if err != nil {
		return 0, err
	}
	for _, n := range names {
		info, err := fsys.Stat(fsys.PathJoin(dir, n))
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return 0, err
		case info.IsDir():
			below, err := sizeOf(fsys, fsys.PathJoin(dir, n))
			if err != nil {
				return 0, err
			}
			total += below
		default:
			total += info.Size()
		}
	}
	return total, nil
}

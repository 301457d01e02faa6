package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"berth"
	"berth/internal/agent/record"
	"berth/internal/failpoint"
	"berth/op"
)

// An allocation's file is a list of records, of which the last of its kind
// counts. To put something appends a record: that takes microseconds, while a
// file system takes a good part of a millisecond to put one file in place of
// another, let alone to have it on disk. A file that has grown is written again
// with what counts.

const (
	slack     = 256 << 10 // bytes that a file may have beyond twice what counts
	syncsOnce = 8         // files that are brought to disk at once
)

// The kinds of records. Each is followed by the allocation's ID.
const (
	kindAlloc    = "allocation "
	kindTask     = "task "
	kindReported = "reported "
)

// file is the file of one allocation.
type file struct {
	name string // the allocation's ID

	mu     sync.Mutex // held while writing
	size   int64
	least  int64 // what the records that count take
	torn   bool  // it ends within a record
	unsync bool  // not all is on disk
}

// taskRecord is a record of kindTask.
type taskRecord struct {
	Task  string
	State json.RawMessage
}

// contents is what counts of a file.
type contents struct {
	alloc    json.RawMessage            // as it was received
	tasks    map[string]json.RawMessage // newest state by task
	reported string                     // mark of what servers last took
}

// parse reads a file up to n bytes. The error is io.ErrUnexpectedEOF if the
// last record is not there as a whole: then the contents are what was before.
func parse(id string, b []byte) (c contents, n int, err error) {
	c.tasks = map[string]json.RawMessage{}
	for all := len(b); ; n = all - len(b) {
		what, body, rest, err := record.Next(b)
		if err == io.EOF {
			return c, n, nil
		}
		if err == nil {
			err = c.add(strings.TrimSuffix(what, id), body)
		}
		if err == io.ErrUnexpectedEOF {
			return c, n, err
		}
		if err != nil {
			return c, n, fmt.Errorf("at byte %d: %w", n, err)
		}
		b = rest
	}
}

// add takes over one record of a file. A later record of the same kind, or of
// the same task, replaces an earlier one.
func (c *contents) add(kind string, body []byte) error {
	switch kind {
	case kindAlloc:
		c.alloc = body
		return nil
	case kindReported:
		return json.Unmarshal(body, &c.reported)
	case kindTask:
		var t taskRecord
		err := json.Unmarshal(body, &t)
		c.tasks[t.Task] = t.State
		return err
	}
	return berth.Errorf(berth.Invalid, "%q is no record of this allocation", kind)
}

// encode is a file with nothing but what counts.
func (c *contents) encode(id string) ([]byte, error) {
	b, err := record.Append(nil, kindAlloc+id, c.alloc)
	for _, task := range slices.Sorted(maps.Keys(c.tasks)) {
		if err == nil {
			b, err = record.Append(b, kindTask+id, taskRecord{task, c.tasks[task]})
		}
	}
	if err == nil && c.reported != "" {
		b, err = record.Append(b, kindReported+id, c.reported)
	}
	return b, err
}

// size is about how long encode is.
func (c *contents) size() int64 {
	n := len(c.alloc)
	for _, state := range c.tasks {
		n += len(state)
	}
	return int64(n)
}

// decodeAlloc returns the recorded allocation, which must have that ID and its
// group, or the agent could not run it.
func (c *contents) decodeAlloc(id berth.AllocID) (*op.Alloc, error) {
	if c.alloc == nil {
		return nil, errors.New("the allocation itself is missing")
	}
	a := new(op.Alloc)
	if err := json.Unmarshal(c.alloc, a); err != nil {
		return nil, err
	}
	if a.ID != id || a.Job == nil || a.Job.Group(a.TaskGroup) == nil {
		return nil, fmt.Errorf("it holds allocation %q, group %q, which is incomplete", a.ID, a.TaskGroup)
	}
	return a, nil
}

// PutAlloc records an allocation as it was received.
func (db *DB) PutAlloc(a *op.Alloc) error {
	c := *a
	c.Metrics = nil // why it was placed here: nothing an agent needs
	return db.put(a.ID.String(), kindAlloc, &c)
}

// PutTask records what is known of a task of an allocation that was put. The
// state is JSON.
func (db *DB) PutTask(id, task string, state []byte) error {
	return db.put(id, kindTask, taskRecord{task, state})
}

// PutReported records, by the allocations' IDs, what servers have taken.
// Allocations of which nothing is recorded, as they were deleted meanwhile, are
// passed over.
func (db *DB) PutReported(what map[string]string) error {
	var errs []error
	for id, w := range what {
		if err := db.put(id, kindReported, w); berth.KindOf(err) != berth.NotFound {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// put appends a record to an allocation's file. Only an allocation itself makes
// a new one.
func (db *DB) put(id, kind string, v any) error {
	if err := failpoint.Hit("local/write"); err != nil {
		return err
	}
	b, err := record.Append(nil, kind+id, v)
	if err != nil {
		return err
	}
	db.mu.Lock()
	// Only the allocation itself begins a file: a late record of a task must
	// not bring back one that was deleted.
	f := db.files[id]
	if f == nil && kind == kindAlloc {
		f = &file{name: id}
		db.files[id] = f
	}
	db.mu.Unlock()
	if f == nil {
		return berth.Errorf(berth.NotFound, "allocation %s has no record", id)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	// Appending is cheap. A file that has grown to twice what counts is written
	// again.
	switch {
	case f.size == 0 && kind == kindAlloc:
		return db.create(f, b)
	case f.size == 0: // it could not be written, or was deleted just now
		return berth.Errorf(berth.NotFound, "allocation %s has no record", id)
	case f.torn || f.size+int64(len(b)) > 2*f.least+slack:
		return db.rewrite(f, b)
	}
	return db.append(f, b)
}

// create writes a file that was not there.
func (db *DB) create(f *file, b []byte) error {
	if err := db.allocs.Replace(f.name, b, 0o600); err != nil {
		return err
	}
	db.wrote(f, b)
	return nil
}

// wrote notes that the file as a whole is new.
func (db *DB) wrote(f *file, b []byte) {
	f.size, f.least = int64(len(b)), int64(len(b))
	f.torn, f.unsync = false, true
	db.unsync.Store(true)
}

// appendTo is a variable so that a test can have a disk that is full.
var appendTo = func(f *os.File, b []byte) error {
	_, err := f.Write(b)
	return err
}

// append writes b at the end of the file, without syncing it. After an error
// the file counts as torn and is rewritten before the next record.
func (db *DB) append(f *file, b []byte) error {
	w, err := db.allocs.OpenFile(f.name, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	err = errors.Join(appendTo(w, b), w.Close())
	f.torn = err != nil // some of it may be there
	f.size += int64(len(b))
	f.unsync = true
	return err
}

// rewrite puts a file with what counts, and a record more, in place of one that
// has grown or ends within a record. If the machine crashes before that is on
// disk, some file systems have neither: then the allocation is set aside, and
// not run again if servers know that it has ended.
func (db *DB) rewrite(f *file, more []byte) error {
	b, err := db.allocs.ReadFile(f.name, maxFile)
	if err != nil {
		return err
	}
	_, n, err := parse(f.name, b)
	if err != nil && err != io.ErrUnexpectedEOF {
		return fmt.Errorf("the record of allocation %s: %w", f.name, err)
	}
	c, _, err := parse(f.name, append(b[:n], more...))
	if err == nil {
		b, err = c.encode(f.name)
	}
	if err == nil {
		err = db.allocs.Replace(f.name, b, 0o600)
	}
	if err != nil {
		return err
	}
	db.wrote(f, b)
	return nil
}

// Sync returns when all that was put of the allocations is on disk. Those of
// which nothing is recorded are passed over.
func (db *DB) Sync(ids ...string) error {
	var g errgroup.Group
	g.SetLimit(syncsOnce)
	for _, id := range ids {
		db.mu.Lock()
		f := db.files[id]
		db.mu.Unlock()
		if f == nil {
			continue
		}
		// The mark is taken away first: what is written during the sync sets it
		// again.
		f.mu.Lock()
		unsync := f.unsync
		f.unsync = false
		f.mu.Unlock()
		if unsync {
			g.Go(func() error { return db.sync(f) })
		}
	}
	err := g.Wait()
	// New files need their directory on disk, too.
	if db.unsync.Swap(false) {
		if e := db.allocs.Sync("."); e != nil {
			db.unsync.Store(true)
			return errors.Join(err, e)
		}
	}
	return err
}

// sync brings a file to disk. One that was removed meanwhile is no error.
func (db *DB) sync(f *file) error {
	r, err := db.allocs.OpenFile(f.name, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = errors.Join(unix.Fdatasync(int(r.Fd())), r.Close())
	}
	if err != nil {
		f.mu.Lock()
		f.unsync = true
		f.mu.Unlock()
	}
	return err
}

// Delete forgets an allocation.
func (db *DB) Delete(id string) error {
	if err := failpoint.Hit("local/write"); err != nil {
		return err
	}
	db.mu.Lock()
	f := db.files[id]
	delete(db.files, id)
	db.mu.Unlock()
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.size = 0
	if err := db.allocs.Remove(id); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

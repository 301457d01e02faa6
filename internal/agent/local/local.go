// Package local is what an agent must know after a restart: its allocations as
// it last received them, what it knew of their tasks, and which report servers
// have taken. It is a bbolt database in the agent's state directory; the node's
// ID and secret are files beside it.
//
// Damage never keeps an agent from starting. Every record has a checksum over
// its key and value; an allocation with a record that fails it is set aside as
// a whole and told to the caller, the others are not touched. The file as such
// is checked before bbolt, which trusts its files, may look at it (see
// [checkFile]); what can be read of a damaged one is carried over into a new
// one. What is lost here is found again from servers and supervisors.
package local

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"berth"
	"berth/internal/claim"
	"berth/internal/failpoint"
	"berth/op"
)

const (
	fileDB   = "client.db"
	fileLock = "client.lock"

	damagedKept = 3 // files, newest first
)

// The buckets. Keys of records are "ID/alloc", "ID/reported", "ID/task/NAME":
// one level, so that a check of the file is simple.
var (
	bucketRecords = []byte("records")
	bucketDamaged = []byte("damaged") // records that were set aside, for people
)

// Record is what is known of one allocation.
type Record struct {
	ID       string
	Alloc    *op.Alloc         // as last received; never nil
	Tasks    map[string][]byte // what PutTask was given
	Reported string            // what PutReported was given
}

// Damage is something that could not be read.
type Damage struct {
	ID  string // of the allocation that was set aside; "" if it is not known which
	Err error
}

// Hold holds the directory, which it makes if need be: no other agent uses it
// until the claim is closed. The error is a *claim.HeldError if one still does
// after the wait.
func Hold(dir string, wait claim.Wait) (*claim.Claim, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return claim.Take(filepath.Join(dir, fileLock), wait)
}

// DB is the database. It is safe for concurrent use; Open's caller closes it.
type DB struct {
	bolt *bbolt.DB

	commit sync.Mutex // held by who writes
	broken error      // of the first write that panicked; guarded by commit

	mu   sync.Mutex
	next *group // of writes that wait for commit
}

// group is writes that share a transaction.
type group struct {
	writes []func(*bbolt.Bucket) error
	done   bool // guarded by commit, as is err
	err    error
}

// Open opens the database in a directory that the caller holds, and returns all
// that it has, and what of it is damaged. It is an error if the file system
// does not let us read and write there.
func Open(dir string, log *slog.Logger) (*DB, []Record, []Damage, error) {
	db := &DB{}
	records, damage, err := db.recover(filepath.Join(dir, fileDB), log)
	if err != nil {
		_ = db.Close()
		return nil, nil, nil, err
	}
	return db, records, damage, nil
}

// recover opens the file and loads what it holds, or what can be salvaged.
func (db *DB) recover(path string, log *slog.Logger) ([]Record, []Damage, error) {
	salvaged, err := checkFile(path)
	if err == nil {
		err = db.open(path)
	}
	if err == nil {
		records, damage, loadErr := db.load()
		if loadErr == nil {
			return records, damage, nil
		}
		err = loadErr
	}
	if !errors.As(err, new(*fileError)) {
		return nil, nil, err
	}
	log.Warn("the agent's database is damaged; what can be read of it goes into a new one", "file", path, "records", len(salvaged), "error", err)
	whole := Damage{Err: err}
	if db.bolt != nil {
		_ = guard(db.bolt.Close)
		db.bolt = nil
	}
	if err := setAside(path); err != nil {
		return nil, nil, err
	}
	if err := db.open(path); err != nil {
		return nil, nil, err
	}
	if err := db.put(salvaged); err != nil {
		return nil, nil, err
	}
	records, damage, err := db.load()
	return records, append([]Damage{whole}, damage...), err
}

// fileError is an error about the contents of the file.
type fileError struct{ error }

func (e *fileError) Unwrap() error { return e.error }

// setAside gives the damaged file another name and removes old ones.
func setAside(path string) error {
	if err := os.Rename(path, path+".damaged-"+time.Now().UTC().Format("20060102T150405.000000000")); err != nil {
		return err
	}
	old, err := filepath.Glob(path + ".damaged-*")
	if err != nil {
		return err
	}
	slices.Sort(old)
	for len(old) > damagedKept {
		_ = os.Remove(old[0])
		old = old[1:]
	}
	return nil
}

// open opens the file, which was checked.
func (db *DB) open(path string) error {
	return guard(func() error {
		b, err := bbolt.Open(path, 0o600, &bbolt.Options{
			Timeout:        time.Second,
			NoFreelistSync: true, // a list that is not there cannot be damaged
			FreelistType:   bbolt.FreelistMapType,
		})
		if err != nil {
			if os.IsPermission(err) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EROFS) {
				return err
			}
			return &fileError{err}
		}
		db.bolt = b
		there := false
		if err := b.View(func(tx *bbolt.Tx) error { there = tx.Bucket(bucketRecords) != nil; return nil }); err != nil || there {
			return err
		}
		return b.Update(func(tx *bbolt.Tx) error {
			_, err := tx.CreateBucketIfNotExists(bucketRecords)
			return err
		})
	})
}

// guard turns a panic, and a fault in the mapped file, into a fileError: belt
// and braces, as checkFile should have found whatever makes bbolt panic.
func guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = &fileError{fmt.Errorf("panic: %v", r)}
		}
	}()
	return f()
}

// Close closes the database.
func (db *DB) Close() error {
	if db.bolt == nil {
		return nil
	}
	return db.bolt.Close()
}

// load reads all records and sets aside the allocations that have a damaged
// one.
func (db *DB) load() (records []Record, damage []Damage, err error) {
	byID := map[string]*Record{}
	bad := map[string]error{}
	err = guard(func() error {
		return db.bolt.View(func(tx *bbolt.Tx) error {
			return tx.Bucket(bucketRecords).ForEach(func(k, v []byte) error {
				id, rest, _ := strings.Cut(string(k), "/")
				r := byID[id]
				if r == nil {
					r = &Record{ID: id, Tasks: map[string][]byte{}}
					byID[id] = r
				}
				if err := r.read(rest, k, v); err != nil && bad[id] == nil {
					bad[id] = err
				}
				return nil
			})
		})
	})
	if err != nil {
		return nil, nil, err
	}
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		if byID[id].Alloc == nil && bad[id] == nil {
			bad[id] = errors.New("the allocation itself is missing")
		}
		if bad[id] == nil {
			records = append(records, *byID[id])
			continue
		}
		if err := db.quarantine(id); err != nil {
			return nil, nil, err
		}
		damage = append(damage, Damage{ID: id, Err: bad[id]})
	}
	return records, damage, nil
}

func (r *Record) read(what string, key, value []byte) error {
	payload, err := unseal(key, value)
	if err != nil {
		return err
	}
	task, isTask := strings.CutPrefix(what, "task/")
	switch {
	case isTask:
		r.Tasks[task] = payload
	case what == "reported":
		r.Reported = string(payload)
	case what == "alloc":
		a := new(op.Alloc)
		if err := json.Unmarshal(payload, a); err != nil {
			return fmt.Errorf("record %q: %w", key, err)
		}
		if a.ID.String() != r.ID || a.Job == nil || a.Job.Group(a.TaskGroup) == nil {
			return fmt.Errorf("record %q holds allocation %q, group %q, which is not whole", key, a.ID, a.TaskGroup)
		}
		r.Alloc = a
	default:
		return fmt.Errorf("record %q is of no known kind", key)
	}
	return nil
}

// quarantine moves all records of an allocation out of the way.
func (db *DB) quarantine(id string) error {
	return db.bolt.Update(func(tx *bbolt.Tx) error {
		aside, err := tx.CreateBucketIfNotExists(bucketDamaged)
		if err != nil {
			return err
		}
		records := tx.Bucket(bucketRecords)
		for k, v := range prefixed(records, id) {
			if err := errors.Join(aside.Put(k, v), records.Delete(k)); err != nil {
				return err
			}
		}
		return nil
	})
}

// prefixed returns copies of an allocation's records.
func prefixed(b *bbolt.Bucket, id string) func(yield func(k, v []byte) bool) {
	type pair struct{ k, v []byte }
	var all []pair
	c := b.Cursor()
	for k, v := c.Seek([]byte(id)); k != nil; k, v = c.Next() {
		got, _, _ := strings.Cut(string(k), "/")
		if got != id {
			break
		}
		all = append(all, pair{slices.Clone(k), slices.Clone(v)})
	}
	return func(yield func(k, v []byte) bool) {
		for _, p := range all {
			if !yield(p.k, p.v) {
				return
			}
		}
	}
}

// PutAlloc records an allocation as it was received.
func (db *DB) PutAlloc(a *op.Alloc) error {
	c := *a
	c.Metrics = nil // why it was placed here: nothing an agent needs
	b, err := json.Marshal(&c)
	if err != nil {
		return err
	}
	return db.write(a.ID.String()+"/alloc", b)
}

// PutTask records what is known of a task.
func (db *DB) PutTask(id, task string, state []byte) error {
	return db.write(id+"/task/"+task, state)
}

// PutReported records, by the allocations' IDs, what servers have taken.
// Allocations of which nothing is recorded, as they were deleted meanwhile,
// are passed over.
func (db *DB) PutReported(what map[string]string) error {
	return db.update(func(b *bbolt.Bucket) error {
		for id, w := range what {
			if b.Get([]byte(id+"/alloc")) == nil {
				continue
			}
			key := []byte(id + "/reported")
			if err := b.Put(key, seal(key, []byte(w))); err != nil {
				return err
			}
		}
		return nil
	})
}

// Delete forgets an allocation.
func (db *DB) Delete(id string) error {
	return db.update(func(b *bbolt.Bucket) error {
		for k := range prefixed(b, id) {
			if err := b.Delete(k); err != nil {
				return err
			}
		}
		return nil
	})
}

func (db *DB) write(key string, payload []byte) error {
	return db.update(func(b *bbolt.Bucket) error { return b.Put([]byte(key), seal([]byte(key), payload)) })
}

// update returns when the write is on disk. Writes that come while another is
// on its way there share the next transaction: whoever of them gets to commit
// first does it for all. (bbolt's own Batch works in a goroutine of its own,
// where nobody could catch a panic.)
func (db *DB) update(f func(*bbolt.Bucket) error) error {
	if err := failpoint.Hit("local/write"); err != nil {
		return err
	}
	db.mu.Lock()
	if db.next == nil {
		db.next = new(group)
	}
	g := db.next
	g.writes = append(g.writes, f)
	db.mu.Unlock()

	db.commit.Lock()
	defer db.commit.Unlock()
	if g.done {
		return g.err
	}
	db.mu.Lock()
	db.next = nil
	db.mu.Unlock()
	g.done, g.err = true, db.broken
	if g.err == nil {
		g.err = guard(func() error { return db.transact(g.writes) })
	}
	if errors.As(g.err, new(*fileError)) {
		db.broken = g.err
	}
	return g.err
}

func (db *DB) transact(writes []func(*bbolt.Bucket) error) error {
	return db.bolt.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket(bucketRecords)
		for _, f := range writes {
			if err := f(b); err != nil {
				return err
			}
		}
		return nil
	})
}

// put writes sealed records.
func (db *DB) put(records map[string][]byte) error {
	return db.transact([]func(*bbolt.Bucket) error{func(b *bbolt.Bucket) error {
		for _, k := range slices.Sorted(maps.Keys(records)) {
			if err := b.Put([]byte(k), records[k]); err != nil {
				return err
			}
		}
		return nil
	}})
}

const sealVersion = 1

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func sum(key, payload []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, payload)
}

// seal puts a version and a checksum before a payload. The key is in the sum,
// so a record in another's place is found out.
func seal(key, payload []byte) []byte {
	b := make([]byte, 0, 5+len(payload))
	b = append(b, sealVersion)
	b = binary.BigEndian.AppendUint32(b, sum(key, payload))
	return append(b, payload...)
}

func unseal(key, value []byte) ([]byte, error) {
	if len(value) < 5 || value[0] != sealVersion || binary.BigEndian.Uint32(value[1:]) != sum(key, value[5:]) {
		return nil, berth.Errorf(berth.Invalid, "record %q is damaged", key)
	}
	return slices.Clone(value[5:]), nil
}

// Identity returns the node's ID and secret, which are made once and kept in
// dir. Files that hold neither are replaced: the node is a new one then.
func Identity(dir string, log *slog.Logger) (id berth.NodeID, secret string, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return id, "", err
	}
	text, err := identity(filepath.Join(dir, "client-id"), log)
	if err != nil {
		return id, "", err
	}
	if secret, err = identity(filepath.Join(dir, "secret-id"), log); err != nil {
		return id, "", err
	}
	id, err = berth.ParseID[berth.Node](text)
	return id, secret, err
}

func identity(path string, log *slog.Logger) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	text := strings.TrimSpace(string(b))
	if id, e := berth.ParseID[berth.Node](text); e == nil && !id.IsZero() {
		return id.String(), os.Chmod(path, 0o600)
	}
	if err == nil {
		log.Warn("a file of the node's identity is damaged; the node gets a new one", "file", path)
	}
	text = newUUID()
	return text, replaceFile(path, []byte(text))
}

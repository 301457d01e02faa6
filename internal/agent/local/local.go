// Package local is what an agent must know after a restart: its allocations as
// it last received them, what it knew of their tasks, and which reports servers
// have taken. Each allocation has a file of its own in the agent's state
// directory. The node's ID, its secret and its last contact with servers are
// files beside those.
//
// What is put is there for the next agent, whenever this one is killed. It is on
// disk, and outlives a crash of the machine too, when [DB.Sync] has returned:
// the agent calls that before it tells servers. No process of a task outlives
// such a crash, so until servers were told, nothing is lost that they or the
// supervisors do not tell again.
//
// Damage never keeps an agent from starting. An allocation whose file is damaged
// is set aside as a whole and returned to the caller by name; the others are not
// touched.
package local

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"berth"
	"berth/internal/claim"
	"berth/internal/saferoot"
	"berth/op"
)

// In the state directory.
const (
	dirAllocs  = "allocs"  // one file for each allocation, by its ID
	dirDamaged = "damaged" // what was set aside, for people
	fileLock   = "client.lock"
)

const (
	damagedKept = 16        // files, newest first
	maxFile     = 256 << 20 // bytes; no allocation comes near
)

// Record is what is known of one allocation.
type Record struct {
	ID       string
	Alloc    *op.Alloc         // as last received; never nil
	Tasks    map[string][]byte // what PutTask was given
	Reported string            // what PutReported was given
}

// Damage is a file that could not be read and was set aside.
type Damage struct {
	ID  string // of the allocation; "" if the file's name is not that of one
	Err error  // names the file
}

// Hold holds the directory, which it makes if need be: no other agent uses it
// until the claim is closed. The error is a *claim.HeldError if one still does
// after the wait.
func Hold(dir string, wait claim.Wait) (*claim.Claim, error) {
	if err := claim.MakeDir(dir, 0o700); err != nil {
		return nil, err
	}
	return claim.Take(filepath.Join(dir, fileLock), wait)
}

// DB is the records of all allocations. It is safe for concurrent use; Open's
// caller closes it.
type DB struct {
	log    *slog.Logger
	state  *saferoot.Root // the agent's state directory
	allocs *saferoot.Root // the directory in it with a file for each allocation
	unsync atomic.Bool    // names of files in allocs may not be on disk

	mu    sync.Mutex
	files map[string]*file // by allocation
}

// Open opens the records in a directory that the caller holds, and returns all
// of them, and what is damaged. It is an error if the file system does not let
// us read and write there.
func Open(dir string, log *slog.Logger) (*DB, []Record, []Damage, error) {
	db := &DB{log: log, files: map[string]*file{}}
	records, damage, err := db.open(dir)
	if err != nil {
		return nil, nil, nil, errors.Join(err, db.Close())
	}
	return db, records, damage, nil
}

// open opens or makes the directory and reads all records. Files that cannot be
// understood are set aside and returned as damage, so that one bad file does
// not keep the agent from starting.
func (db *DB) open(dir string) (records []Record, damage []Damage, err error) {
	if db.state, err = saferoot.Open(dir); err != nil {
		return nil, nil, err
	}
	// Anything but a directory of that name would stop the agent for ever.
	if st, err := db.state.Lstat(dirAllocs); err == nil && !st.IsDir() {
		d, err := db.setAside(dirAllocs, "", errors.New("it is not a directory"))
		if err != nil {
			return nil, nil, err
		}
		damage = append(damage, d)
	}
	if err := db.state.Mkdir(dirAllocs, 0o700); err != nil {
		return nil, nil, err
	}
	if db.allocs, err = db.state.Sub(dirAllocs); err != nil {
		return nil, nil, err
	}
	entries, err := db.allocs.ReadDir(".")
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		name := e.Name()
		if strings.HasSuffix(name, ".new") { // of an agent that was killed as it wrote it
			if err := db.allocs.RemoveAll(name); err != nil {
				return nil, nil, err
			}
			continue
		}
		r, err := db.load(name)
		// A file that may not be read is whole, so it is no damage: the agent
		// runs as the wrong user.
		if errors.Is(err, fs.ErrPermission) {
			return nil, nil, err
		}
		if err == nil {
			records = append(records, *r)
			continue
		}
		id := name
		if _, notID := berth.ParseID[berth.Alloc](name); notID != nil {
			id = ""
		}
		d, err := db.setAside(dirAllocs+"/"+name, id, err)
		if err != nil {
			return nil, nil, err
		}
		damage = append(damage, d)
	}
	return records, damage, nil
}

// load reads an allocation's file.
func (db *DB) load(name string) (*Record, error) {
	id, err := berth.ParseID[berth.Alloc](name)
	if err != nil || id.String() != name {
		return nil, errors.New("the name is not an allocation's ID")
	}
	b, err := db.allocs.ReadFile(name, maxFile)
	if err != nil {
		return nil, err
	}
	// A file that ends within a record is what a crash leaves: the whole
	// records before count.
	c, n, err := parse(name, b)
	if err != nil && err != io.ErrUnexpectedEOF {
		return nil, err
	}
	a, allocErr := c.decodeAlloc(id)
	if allocErr != nil {
		return nil, allocErr
	}
	if err != nil {
		db.log.Info("an agent was stopped as it wrote a record; what was written before counts", "file", filepath.Join(db.allocs.Path(), name), "bytes", n)
	}
	r := &Record{ID: name, Alloc: a, Tasks: map[string][]byte{}, Reported: c.reported}
	for task, state := range c.tasks {
		r.Tasks[task] = slices.Clone(state) // not all of b
	}
	db.files[name] = &file{name: name, size: int64(len(b)), least: c.size(), torn: err != nil}
	return r, nil
}

// setAside moves a damaged file out of the way, and removes old ones.
func (db *DB) setAside(path, id string, why error) (Damage, error) {
	d := Damage{ID: id, Err: fmt.Errorf("the file %s is damaged: %w", filepath.Join(db.state.Path(), path), why)}
	if err := db.state.Mkdir(dirDamaged, 0o700); err != nil {
		return d, err
	}
	to := filepath.Join(dirDamaged, time.Now().UTC().Format("20060102T150405.000000000")+"-"+filepath.Base(path))
	if err := os.Rename(filepath.Join(db.state.Path(), path), filepath.Join(db.state.Path(), to)); err != nil {
		return d, err
	}
	old, err := db.state.ReadDir(dirDamaged)
	if err != nil {
		return d, err
	}
	for len(old) > damagedKept { // in order of name, and so of time
		_ = db.state.RemoveAll(dirDamaged + "/" + old[0].Name())
		old = old[1:]
	}
	return d, nil
}

// Close closes the records.
func (db *DB) Close() (err error) {
	for _, r := range []*saferoot.Root{db.allocs, db.state} {
		if r != nil {
			err = errors.Join(err, r.Close())
		}
	}
	return err
}

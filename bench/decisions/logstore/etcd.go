package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"

	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
)

// etcdEngine is etcd's wal package. A log can be read only once, when it is
// opened, from the last snapshot mark to the end. A user of the package
// therefore keeps every entry in memory, as etcd does.
type etcdEngine struct {
	dir     string
	w       *wal.WAL
	first   uint64
	entries [][]byte
}

// openEtcd opens or creates a log. A torn end is repaired once, as etcd does
// it.
func openEtcd(dir string) (engine, error) {
	lg := zap.NewNop()
	e := &etcdEngine{dir: dir, first: 1}
	if !wal.Exist(dir) {
		// Create wants to make the folder itself.
		if err := os.Remove(dir); err != nil {
			return nil, err
		}
		w, err := wal.Create(lg, dir, nil)
		e.w = w
		return e, err
	}
	repaired := false
	for {
		err := e.load(lg)
		if errors.Is(err, io.ErrUnexpectedEOF) && !repaired {
			repaired = true
			if wal.Repair(lg, dir) {
				continue
			}
		}
		if err != nil {
			return nil, err
		}
		return e, nil
	}
}

// load reads the log from the last valid snapshot mark into memory, as etcd's
// users must.
func (e *etcdEngine) load(lg *zap.Logger) error {
	marks, err := wal.ValidSnapshotEntries(lg, e.dir)
	if err != nil {
		return err
	}
	mark := &walpb.Snapshot{}
	if len(marks) > 0 {
		mark = marks[len(marks)-1]
	}
	w, err := wal.Open(lg, e.dir, mark)
	if err != nil {
		return err
	}
	_, _, ents, err := w.ReadAll()
	if err != nil {
		w.Close()
		return err
	}
	e.w, e.first, e.entries = w, mark.GetIndex()+1, nil
	for _, x := range ents {
		e.entries = append(e.entries, x.GetData())
	}
	return nil
}

// last returns the index of the last entry; in an empty log that is first-1.
func (e *etcdEngine) last() uint64 { return e.first + uint64(len(e.entries)) - 1 }

// Append implements engine.
func (e *etcdEngine) Append(first uint64, entries [][]byte) error {
	ents := make([]*raftpb.Entry, len(entries))
	for i, b := range entries {
		ents[i] = &raftpb.Entry{Term: new(uint64(1)), Index: new(first + uint64(i)), Data: b}
	}
	err := e.w.Save(&raftpb.HardState{Term: new(uint64(1)), Commit: new(first + uint64(len(entries)) - 1)}, ents)
	if err == nil {
		e.entries = append(e.entries, entries...)
	}
	return err
}

// Get implements engine, from memory.
func (e *etcdEngine) Get(i uint64) ([]byte, error) {
	if i < e.first || i > e.last() {
		return nil, fmt.Errorf("no entry %d", i)
	}
	return e.entries[i-e.first], nil
}

// Bounds implements engine.
func (e *etcdEngine) Bounds() (uint64, uint64, error) {
	if len(e.entries) == 0 {
		return 0, 0, nil
	}
	return e.first, e.last(), nil
}

// DeletePrefix implements engine. The package only marks what is not needed;
// the files are deleted here.
func (e *etcdEngine) DeletePrefix(to uint64) error {
	if err := e.w.SaveSnapshot(&walpb.Snapshot{Index: &to, Term: new(uint64(1)), ConfState: &raftpb.ConfState{}}); err != nil {
		return err
	}
	e.entries = append([][]byte(nil), e.entries[to+1-e.first:]...)
	e.first = to + 1
	if err := e.w.ReleaseLockTo(to); err != nil {
		return err
	}
	// The package deletes no files: every segment but the last that begins at
	// or before the mark's successor goes.
	files, _ := filepath.Glob(filepath.Join(e.dir, "*.wal"))
	sort.Strings(files)
	keep := 0
	for i, f := range files {
		var seq, index uint64
		fmt.Sscanf(filepath.Base(f), "%016x-%016x.wal", &seq, &index)
		if index <= to {
			keep = i
		}
	}
	for _, f := range files[:keep] {
		if err := os.Remove(f); err != nil {
			return err
		}
	}
	return nil
}

// DeleteSuffix leaves the entries in the file; the next ones written in their
// place win when it is read.
func (e *etcdEngine) DeleteSuffix(from uint64) error {
	e.entries = e.entries[:from-e.first]
	return nil
}

// Close implements engine.
func (e *etcdEngine) Close() error { return e.w.Close() }

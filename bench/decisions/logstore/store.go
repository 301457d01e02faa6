package main

import (
	"log/slog"

	"berth/internal/consensus/logstore"

	"github.com/hashicorp/raft"
)

// storeEngine is what was built on the choice: package consensus/logstore.
type storeEngine struct{ s *logstore.Store }

// openStore opens or creates a log with Berth's own store.
func openStore(dir string) (engine, error) {
	s, err := logstore.Open(dir, logstore.Options{Logger: slog.New(slog.DiscardHandler)})
	return &storeEngine{s}, err
}

// Append implements engine.
func (e *storeEngine) Append(first uint64, entries [][]byte) error {
	logs := make([]*raft.Log, len(entries))
	for i, b := range entries {
		logs[i] = &raft.Log{Index: first + uint64(i), Term: 1, Data: b}
	}
	return e.s.StoreLogs(logs)
}

// Get implements engine.
func (e *storeEngine) Get(i uint64) ([]byte, error) {
	var l raft.Log
	err := e.s.GetLog(i, &l)
	return l.Data, err
}

// Bounds implements engine.
func (e *storeEngine) Bounds() (first, last uint64, err error) {
	if first, err = e.s.FirstIndex(); err != nil {
		return 0, 0, err
	}
	last, err = e.s.LastIndex()
	return first, last, err
}

// DeletePrefix implements engine.
func (e *storeEngine) DeletePrefix(to uint64) error { return e.s.DeleteRange(0, to) }

// DeleteSuffix implements engine.
func (e *storeEngine) DeleteSuffix(from uint64) error { return e.s.DeleteRange(from, 1<<62) }

// Close implements engine.
func (e *storeEngine) Close() error { return e.s.Close() }

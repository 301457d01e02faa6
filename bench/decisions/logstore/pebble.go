package main

import (
	"bytes"
	"encoding/binary"
	"os"
	"strconv"

	"github.com/cockroachdb/pebble/v2"
)

// pebbleEngine is pebble as it comes: its own file system calls, its own
// handling of a failed write. The store above it is measured as "logstore".
type pebbleEngine struct{ db *pebble.DB }

// memTableMB returns the size of the memtable in MiB. An environment variable
// can change it.
func memTableMB() uint64 {
	if n, err := strconv.ParseUint(os.Getenv("MEMTABLE_MB"), 10, 16); err == nil {
		return n
	}
	return 8
}

// openPebble opens or creates a log.
func openPebble(dir string) (engine, error) {
	db, err := pebble.Open(dir, &pebble.Options{
		FormatMajorVersion:          pebble.FormatTableFormatV6,
		MemTableSize:                memTableMB() << 20,
		MemTableStopWritesThreshold: 3,
		Logger:                      quiet{},
	})
	if err != nil {
		return nil, err
	}
	return &pebbleEngine{db}, nil
}

// quiet drops pebble's chatter; a fatal error ends the process, as pebble's
// own logger does.
type quiet struct{}

// Infof drops the message.
func (quiet) Infof(string, ...any) {}

// Errorf drops the message.
func (quiet) Errorf(string, ...any) {}

// Fatalf ends the process, as the engine expects.
func (quiet) Fatalf(format string, args ...any) {
	fatalf("pebble: fatal: "+format, args...)
}

// Append implements engine.
func (e *pebbleEngine) Append(first uint64, entries [][]byte) error {
	b := e.db.NewBatch()
	defer b.Close()
	for i, v := range entries {
		if err := b.Set(key(first+uint64(i)), v, nil); err != nil {
			return err
		}
	}
	return b.Commit(pebble.Sync)
}

// Get implements engine.
func (e *pebbleEngine) Get(i uint64) ([]byte, error) {
	v, closer, err := e.db.Get(key(i))
	if err != nil {
		return nil, err
	}
	defer closer.Close()
	return bytes.Clone(v), nil
}

// Bounds implements engine.
func (e *pebbleEngine) Bounds() (first, last uint64, err error) {
	it, err := e.db.NewIter(&pebble.IterOptions{LowerBound: []byte("l"), UpperBound: []byte("m")})
	if err != nil {
		return 0, 0, err
	}
	defer it.Close()
	if it.First() {
		first = binary.BigEndian.Uint64(it.Key()[1:])
	}
	if it.Last() {
		last = binary.BigEndian.Uint64(it.Key()[1:])
	}
	return first, last, it.Error()
}

// DeletePrefix implements engine.
func (e *pebbleEngine) DeletePrefix(to uint64) error {
	return e.db.DeleteRange(key(0), key(to+1), pebble.Sync)
}

// DeleteSuffix implements engine.
func (e *pebbleEngine) DeleteSuffix(from uint64) error {
	return e.db.DeleteRange(key(from), []byte("m"), pebble.Sync)
}

// Close implements engine.
func (e *pebbleEngine) Close() error { return e.db.Close() }

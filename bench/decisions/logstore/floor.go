package main

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// floor is no candidate: a preallocated file that is written and synced, with
// no checks and no way to read. It shows what the disk asks for by itself.
type floor struct {
	f   *os.File
	at  int64
	end int64
}

// openFloor creates the file. What an earlier run wrote is lost.
func openFloor(dir string) (engine, error) {
	f, err := os.Create(filepath.Join(dir, "floor.dat"))
	return &floor{f: f}, err
}

// Append writes the entries and syncs them, in space allocated 64 MiB at a
// time, so that the sync need not write metadata.
func (e *floor) Append(first uint64, entries [][]byte) error {
	for _, b := range entries {
		for e.at+int64(len(b)) > e.end {
			if err := unix.Fallocate(int(e.f.Fd()), 0, e.end, 64<<20); err != nil {
				return err
			}
			e.end += 64 << 20
		}
		if _, err := e.f.WriteAt(b, e.at); err != nil {
			return err
		}
		e.at += int64(len(b))
	}
	return unix.Fdatasync(int(e.f.Fd()))
}

// errFloor is the answer to everything but appending, which is all that the
// floor measures.
var errFloor = errors.New("the floor cannot read")

// Get returns errFloor.
func (e *floor) Get(uint64) ([]byte, error) { return nil, errFloor }

// Bounds returns errFloor.
func (e *floor) Bounds() (uint64, uint64, error) { return 0, 0, errFloor }

// DeletePrefix returns errFloor.
func (e *floor) DeletePrefix(uint64) error { return errFloor }

// DeleteSuffix returns errFloor.
func (e *floor) DeleteSuffix(uint64) error { return errFloor }

// Close implements engine.
func (e *floor) Close() error { return e.f.Close() }

// allocated returns the bytes that a file takes on disk.
func allocated(path string) int64 {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil {
		return 0
	}
	return st.Blocks * 512
}

//go:build faults

package logstore

import (
	"bytes"
	"strings"

	"berth/internal/failpoint"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// forgetful is a log file that reports a sync without doing it: everything
// written stays in the memory of the process until the file is closed. The
// fault runner plants this defect and must find it. Otherwise only a power cut
// would show what a missing sync loses.
type forgetful struct {
	vfs.File
	unsynced bytes.Buffer
}

// plantForgetful makes a log file forgetful if the failpoint consensus/unsynced
// is armed.
func plantForgetful(name string, file vfs.File, err error) (vfs.File, error) {
	if err != nil || !strings.HasSuffix(name, ".log") || failpoint.Hit("consensus/unsynced") == nil {
		return file, err
	}
	return &forgetful{File: file}, nil
}

// Write keeps b in memory.
func (f *forgetful) Write(b []byte) (int, error) { return f.unsynced.Write(b) }

// Sync reports success and stores nothing: that is the fault.
func (f *forgetful) Sync() error { return nil }

// SyncData is Sync.
func (f *forgetful) SyncData() error { return nil }

// SyncTo is Sync. It claims that the whole file was synced.
func (f *forgetful) SyncTo(int64) (full bool, err error) { return true, nil }

// Preallocate does nothing, because the file is in memory.
func (f *forgetful) Preallocate(int64, int64) error { return nil }

// Close writes what was held back.
func (f *forgetful) Close() error {
	if _, err := f.File.Write(f.unsynced.Bytes()); err != nil {
		return err
	}
	return f.File.Close()
}

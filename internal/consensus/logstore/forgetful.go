//go:build faults

package logstore

import (
	"bytes"
	"strings"

	"berth/internal/failpoint"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// forgetful is a log file that says that it is synced and is not: what is
// written to it stays in the memory of the process until it is closed. It is a
// defect that the fault runner plants and must find, since nothing less than a
// power cut would show what a missing sync loses.
type forgetful struct {
	vfs.File
	unsynced bytes.Buffer
}

// plantForgetful makes a log file forgetful if the failpoint
// consensus/unsynced says so.
func plantForgetful(name string, file vfs.File, err error) (vfs.File, error) {
	if err != nil || !strings.HasSuffix(name, ".log") || failpoint.Hit("consensus/unsynced") == nil {
		return file, err
	}
	return &forgetful{File: file}, nil
}

func (f *forgetful) Write(b []byte) (int, error)         { return f.unsynced.Write(b) }
func (f *forgetful) Sync() error                         { return nil }
func (f *forgetful) SyncData() error                     { return nil }
func (f *forgetful) SyncTo(int64) (full bool, err error) { return true, nil }
func (f *forgetful) Preallocate(int64, int64) error      { return nil }

// Close writes what was kept back.
func (f *forgetful) Close() error {
	if _, err := f.File.Write(f.unsynced.Bytes()); err != nil {
		return err
	}
	return f.File.Close()
}

package logstore

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// failStop is a file system that stops at the first failed write. From then on
// it reports success for every change and makes none, so the disk stays as a
// crash at that moment would have left it.
//
// Pebble ends the process when it cannot write its log or manifest. A server
// should report the failure, stop leading and shut down cleanly instead. So
// pebble never sees the failure, and the caller of a write asks the fail-stop
// file system afterwards. Nothing that the stopped file system accepted is ever
// acknowledged.
type failStop struct {
	vfs.FS
	failed chan struct{} // closed with the first failure

	mu  sync.Mutex
	err error // the first failure
}

// newFailStop returns inner as a file system that stops at its first error.
func newFailStop(inner vfs.FS) *failStop { return &failStop{FS: inner, failed: make(chan struct{})} }

// Err returns the first failure.
func (f *failStop) Err() error {
	select {
	case <-f.failed:
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.err
	default:
		return nil
	}
}

// fail records err and closes the channel failed. Only the first error counts.
func (f *failStop) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = err
		close(f.failed)
	}
}

// do makes a change to the disk unless one has failed before. Errors that the
// engine may expect are returned.
func (f *failStop) do(change func() error) error {
	if f.Err() != nil {
		return nil
	}
	err := change()
	if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) ||
		errors.Is(err, vfs.ErrUnsupported) || errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	f.fail(err)
	return nil
}

// open is do for a change that returns a file. If that failed, it returns a
// file in memory.
func (f *failStop) open(change func() (vfs.File, error)) (file vfs.File, err error) {
	err = f.do(func() (err error) {
		file, err = change()
		return err
	})
	if err != nil {
		return nil, err
	}
	if file == nil {
		file = vfs.NewMemFile(nil)
	}
	return &failStopFile{file, f}, nil
}

// Create creates a file. Pebble's markers are files whose names point to
// another file, its manifest. After a power cut the new marker may exist
// without the manifest, unless the directory is synced in between.
func (f *failStop) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if strings.HasPrefix(f.PathBase(name), "marker.") {
		if err := syncDir(f, f.PathDir(name)); err != nil {
			return nil, err
		}
	}
	return f.open(func() (vfs.File, error) {
		file, err := f.FS.Create(name, c)
		return plantForgetful(name, file, err)
	})
}

// OpenReadWrite implements vfs.FS.
func (f *failStop) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	return f.open(func() (vfs.File, error) { return f.FS.OpenReadWrite(name, c, o...) })
}

// ReuseForWrite implements vfs.FS.
func (f *failStop) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return f.open(func() (vfs.File, error) {
		file, err := f.FS.ReuseForWrite(oldname, newname, c)
		return plantForgetful(newname, file, err)
	})
}

// OpenDir opens a directory to sync it.
func (f *failStop) OpenDir(name string) (vfs.File, error) {
	file, err := f.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &failStopFile{file, f}, nil
}

// Link implements vfs.FS.
func (f *failStop) Link(oldname, newname string) error {
	return f.do(func() error { return f.FS.Link(oldname, newname) })
}

// Remove implements vfs.FS.
func (f *failStop) Remove(name string) error {
	return f.do(func() error { return f.FS.Remove(name) })
}

// RemoveAll implements vfs.FS.
func (f *failStop) RemoveAll(name string) error {
	return f.do(func() error { return f.FS.RemoveAll(name) })
}

// Rename implements vfs.FS.
func (f *failStop) Rename(oldname, newname string) error {
	return f.do(func() error { return f.FS.Rename(oldname, newname) })
}

// MkdirAll implements vfs.FS.
func (f *failStop) MkdirAll(dir string, perm os.FileMode) error {
	return f.do(func() error { return f.FS.MkdirAll(dir, perm) })
}

// Unwrap returns the file system below.
func (f *failStop) Unwrap() vfs.FS { return f.FS }

// failStopFile is a file of a failStop.
type failStopFile struct {
	vfs.File
	fs *failStop
}

// Write reports success even on a stopped disk: the engine would retry or end
// the process otherwise. The store asks for the error itself.
func (f *failStopFile) Write(b []byte) (int, error) {
	return len(b), f.fs.do(func() error { return whole(f.File.Write(b))(len(b)) })
}

// WriteAt is Write at an offset.
func (f *failStopFile) WriteAt(b []byte, at int64) (int, error) {
	return len(b), f.fs.do(func() error { return whole(f.File.WriteAt(b, at))(len(b)) })
}

// whole turns a short write into an error.
func whole(n int, err error) func(int) error {
	return func(want int) error {
		if err == nil && n < want {
			return errors.New("short write")
		}
		return err
	}
}

// Preallocate implements vfs.File.
func (f *failStopFile) Preallocate(offset, length int64) error {
	return f.fs.do(func() error { return f.File.Preallocate(offset, length) })
}

// Sync implements vfs.File. A failed sync is never repeated: the kernel may
// have dropped the pages.
func (f *failStopFile) Sync() error { return f.fs.do(f.File.Sync) }

// SyncData implements vfs.File.
func (f *failStopFile) SyncData() error { return f.fs.do(f.File.SyncData) }

// SyncTo implements vfs.File. full is true if the whole file was synced.
func (f *failStopFile) SyncTo(length int64) (full bool, err error) {
	full = true // on a stopped disk nothing is left to sync
	err = f.fs.do(func() (err error) {
		full, err = f.File.SyncTo(length)
		return err
	})
	return full, err
}

// Close closes the file also after a failure. An error here counts as a
// failure, because some file systems report lost writes this way.
func (f *failStopFile) Close() error {
	if err := f.File.Close(); err != nil {
		f.fs.fail(err)
	}
	return nil
}

// isNoSpace reports whether err means that the disk is full or the quota used
// up.
func isNoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// isIOError reports whether the operating system returned an error other than
// "no such file": a missing file counts as damage.
func isIOError(err error) bool {
	var n syscall.Errno
	return errors.As(err, &n) && n != syscall.ENOENT
}

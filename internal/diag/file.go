package diag

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// File is a log file that is rotated: when it is too large or too old it gets
// another name, with the time in it, and a new one begins.
type File struct {
	Path     string        // of the file that is written
	MaxBytes int64         // 0: no limit
	MaxAge   time.Duration // 0: no limit
	MaxFiles int           // older files that are kept; 0: all, -1: none

	mu    sync.Mutex
	to    *os.File
	size  int64
	began time.Time
	now   func() time.Time // nil: time.Now
}

// Open opens the file for appending, and makes its folder.
func (f *File) Open() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.now == nil {
		f.now = time.Now
	}
	return f.open()
}

// open opens the file.
func (f *File) open() error {
	if err := os.MkdirAll(filepath.Dir(f.Path), 0o755); err != nil {
		return err
	}
	to, err := os.OpenFile(f.Path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o640)
	if err != nil {
		return err
	}
	st, err := to.Stat()
	if err != nil {
		to.Close()
		return err
	}
	f.to, f.size, f.began = to, st.Size(), f.now()
	return nil
}

// Write implements io.Writer. A line is never torn between two files.
func (f *File) Write(line []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.to == nil {
		return 0, os.ErrClosed
	}
	full := f.MaxBytes > 0 && f.size > 0 && f.size+int64(len(line)) > f.MaxBytes
	if full || f.MaxAge > 0 && f.now().Sub(f.began) >= f.MaxAge {
		if err := f.rotate(); err != nil {
			return 0, err
		}
	}
	n, err := f.to.Write(line)
	f.size += int64(n)
	return n, err
}

// rotate gives the file another name and begins a new one.
func (f *File) rotate() error {
	f.to.Close()
	f.to = nil
	if f.size > 0 {
		ext := filepath.Ext(f.Path)
		if err := os.Rename(f.Path, fmt.Sprintf("%s-%019d%s", strings.TrimSuffix(f.Path, ext), f.now().UnixNano(), ext)); err != nil {
			return err
		}
	}
	f.prune()
	return f.open()
}

// prune removes the oldest files beyond those that are kept.
func (f *File) prune() {
	if f.MaxFiles == 0 {
		return
	}
	old := f.Rotated()
	for _, path := range old[:max(0, len(old)-max(0, f.MaxFiles))] {
		_ = os.Remove(path) // the next rotation tries again
	}
}

// Rotated returns the paths of the files that were rotated, the oldest first.
func (f *File) Rotated() (out []string) {
	ext := filepath.Ext(f.Path)
	all, _ := filepath.Glob(escapeGlob(strings.TrimSuffix(f.Path, ext)) + "-*" + escapeGlob(ext))
	for _, path := range all {
		stamp := strings.TrimSuffix(strings.TrimPrefix(path, strings.TrimSuffix(f.Path, ext)+"-"), ext)
		if len(stamp) == 19 && strings.Trim(stamp, "0123456789") == "" {
			out = append(out, path)
		}
	}
	slices.Sort(out)
	return out
}

// escapeGlob returns a pattern that matches a path alone.
func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// Close ends writing.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.to == nil {
		return nil
	}
	err := f.to.Close()
	f.to = nil
	return err
}

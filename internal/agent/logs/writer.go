package logs

import (
	"fmt"
	"os"

	"berth"
	"berth/internal/saferoot"
)

// Writer appends to a stream's newest file and goes on to the next when it is
// full. One goroutine uses it.
type Writer struct {
	dir          *saferoot.Root
	task, stream string
	maxFiles     int   // kept, the newest included
	maxSize      int64 // of a file, in bytes

	out   *os.File // nil if none could be opened
	index int      // number of the current file
	size  int64    // of the current file, in bytes
	lost  int64    // bytes that could not be written since the last that could
	cause error    // why
}

// NewWriter goes on with the newest file in dir, which it does not close.
// maxSize is in bytes.
func NewWriter(dir *saferoot.Root, task, stream string, maxFiles int, maxSize int64) (*Writer, error) {
	if err := checkStream(task, stream); err != nil {
		return nil, err
	}
	if maxFiles < 1 || maxSize < 1 {
		return nil, berth.Errorf(berth.Invalid, "logs: %d files of %d bytes: must be at least one of each", maxFiles, maxSize)
	}
	w := &Writer{dir: dir, task: task, stream: stream, maxFiles: maxFiles, maxSize: maxSize}
	files, err := list(dir, task, stream)
	if err != nil {
		return nil, err
	}
	if n := len(files); n > 0 {
		w.index = files[n-1].index
	}
	if err := w.open(); err != nil {
		return nil, err
	}
	w.trim()
	return w, nil
}

// open opens the file at index. What is there and is no regular file was put
// there by a task; the next number is taken instead.
func (w *Writer) open() error {
	for {
		f, err := w.dir.OpenFile(FileName(w.task, w.stream, w.index), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
		if berth.KindOf(err) == berth.Invalid {
			w.index++
			continue
		}
		if err != nil {
			return err
		}
		st, err := f.Stat()
		if err != nil {
			_ = f.Close()
			return err
		}
		w.out, w.size = f, st.Size()
		return nil
	}
}

// Write writes all of p, into as many files as it takes. It returns no error:
// what cannot be written is counted, so that the copying of a task's output
// goes on.
func (w *Writer) Write(p []byte) (int, error) {
	all := len(p)
	if w.lost > 0 {
		p = append(fmt.Appendf(nil, "\n[%d bytes of output lost: %v]\n", w.lost, w.cause), p...)
	}
	for len(p) > 0 {
		n, err := w.some(p)
		p = p[n:]
		if err != nil {
			w.lost, w.cause = w.lost+int64(min(len(p), all)), err
			return all, nil
		}
		w.lost, w.cause = 0, nil
	}
	return all, nil
}

// some writes what still goes into the file.
func (w *Writer) some(p []byte) (int, error) {
	if w.out == nil || w.size >= w.maxSize {
		if err := w.next(); err != nil {
			return 0, err
		}
	}
	n, err := w.out.Write(p[:min(int64(len(p)), w.maxSize-w.size)])
	w.size += int64(n)
	return n, err
}

// next closes the current file and opens the one after it, then removes the
// oldest ones.
func (w *Writer) next() error {
	if w.out != nil {
		_ = w.out.Close()
		w.out = nil
		w.index++
	}
	if err := w.open(); err != nil {
		return err
	}
	w.trim()
	return nil
}

// trim removes the files that are too many. Failing to is not worth losing
// output for; the next rotation tries again.
func (w *Writer) trim() {
	files, err := list(w.dir, w.task, w.stream)
	if err != nil {
		return
	}
	for len(files) > w.maxFiles {
		_ = w.dir.RemoveAll(files[0].name)
		files = files[1:]
	}
}

// Position returns the number of the newest file and its size in bytes: what is
// written next begins there, or in the next file if this one is full.
func (w *Writer) Position() (index int, size int64) { return w.index, w.size }

// Close closes the newest file.
func (w *Writer) Close() error {
	if w.out == nil {
		return nil
	}
	return w.out.Close()
}

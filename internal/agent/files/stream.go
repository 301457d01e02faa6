package files

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"berth"
	"berth/internal/saferoot"
	"berth/op"
)

// What can happen to a file that is followed, in the words of Nomad's API.
const (
	deleted   = "file deleted"
	truncated = "file truncated"
)

const (
	frameSize = 64 << 10
	// A follower looks at its file this often: soon after something was
	// written, seldom when nothing was.
	lookSoon  = 50 * time.Millisecond
	lookLate  = 500 * time.Millisecond
	heartbeat = 10 * time.Second
)

// isNotDir reports whether a path led through something that is no directory.
func isNotDir(err error) bool {
	return errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP)
}

// Stream reads a file in frames, in order, each byte once. Following, it waits
// for more until ctx ends, which is no error, or ended says that nobody writes
// any more and all is read; it says when the file was truncated, and goes on
// at its new start. A file that was removed or replaced is the end, and the last
// frame says so. Now and then it hands out an empty frame, by which a caller
// finds out that nobody listens. It returns the first error of emit.
func Stream(ctx context.Context, root *saferoot.Root, q *op.FileSection, ended func() bool, emit func(*op.StreamFrame) error) error {
	p, err := Clean(q.Path)
	if err != nil {
		return err
	}
	if p == "." {
		return berth.Errorf(berth.Invalid, "path: %q is a directory, not a file", berth.Clip(q.Path, 100))
	}
	f, err := root.OpenFile(p, os.O_RDONLY, 0)
	if err != nil {
		return told(err, q.Path)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return told(err, q.Path)
	}
	r := &reader{root: root, path: p, in: f, first: st, left: q.Limit, emit: emit, beat: time.Now()}
	if r.at, err = start(q, st.Size()); err != nil {
		return err
	}
	return r.run(ctx, q.Follow, ended)
}

// start is where reading begins. An offset past either end is that end.
func start(q *op.FileSection, size int64) (int64, error) {
	if q.Offset < 0 {
		return 0, berth.Errorf(berth.Invalid, "offset: must not be negative, got %d", q.Offset)
	}
	switch q.Origin {
	case "", "start":
		return min(q.Offset, size), nil
	case "end":
		return max(0, size-q.Offset), nil
	}
	return 0, berth.Errorf(berth.Invalid, "origin: must be start or end, got %q", berth.Clip(q.Origin, 64))
}

// reader is one call of Stream.
type reader struct {
	root  *saferoot.Root
	path  string
	in    *os.File
	first fs.FileInfo // of the file, to tell it from one that replaces it
	at    int64
	left  int64 // bytes that may still be read; 0 or less is no limit
	emit  func(*op.StreamFrame) error
	beat  time.Time // when the last frame was sent
	buf   [frameSize]byte
}

// run reads to the end, and goes on from there if it follows.
func (r *reader) run(ctx context.Context, follow bool, ended func() bool) error {
	wait := lookSoon
	for {
		// Asked first, so that what was written before is read after.
		over := !follow || ended()
		n, full, err := r.drain(ctx)
		if err != nil || full || ctx.Err() != nil {
			return err
		}
		gone, err := r.changed()
		switch {
		case err != nil || gone:
			return err
		case n > 0:
			wait = lookSoon
		case over:
			return nil
		default:
			wait = min(wait*2, lookLate)
		}
		if time.Since(r.beat) >= heartbeat {
			if err := r.send(&op.StreamFrame{}); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// send hands out a frame.
func (r *reader) send(f *op.StreamFrame) error {
	r.beat = time.Now()
	return r.emit(f)
}

// drain hands out what the file holds now. full says that the limit is reached.
func (r *reader) drain(ctx context.Context) (total int64, full bool, err error) {
	limited := r.left > 0
	for ctx.Err() == nil {
		b := r.buf[:]
		if limited {
			b = b[:min(int64(len(b)), r.left)]
		}
		n, err := r.in.ReadAt(b, r.at)
		if n > 0 {
			if err := r.send(&op.StreamFrame{Offset: r.at, Data: append([]byte(nil), b[:n]...), File: r.path}); err != nil {
				return total, false, err
			}
			r.at, total = r.at+int64(n), total+int64(n)
			if r.left -= int64(n); limited && r.left == 0 {
				return total, true, nil
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return total, false, err
		}
	}
	return total, false, nil
}

// changed starts over if the file is shorter than what was read of it. gone says
// that the path is that of another file now, or of none.
func (r *reader) changed() (gone bool, err error) {
	st, err := r.in.Stat()
	if err != nil {
		return false, err
	}
	now, err := r.root.Lstat(r.path)
	if err != nil || !os.SameFile(now, r.first) {
		return true, r.send(&op.StreamFrame{File: r.path, FileEvent: deleted})
	}
	if st.Size() < r.at {
		r.at = 0
		return false, r.send(&op.StreamFrame{File: r.path, FileEvent: truncated})
	}
	return false, nil
}

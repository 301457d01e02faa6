package logs

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"berth"
	"berth/internal/saferoot"
	"berth/op"
)

// The origins that an offset counts from.
const (
	FromStart = "start"
	FromEnd   = "end"
)

// What can happen to a file that is being read, in the words of Nomad's API.
const (
	FileDeleted   = "file deleted"
	FileTruncated = "file truncated"
)

const (
	frameSize = 64 << 10
	// A follower looks at its file this often: soon after output, seldom when
	// a task is quiet, so that a thousand of them cost next to nothing.
	lookSoon  = 50 * time.Millisecond
	lookLate  = 500 * time.Millisecond
	heartbeat = 10 * time.Second
)

// Request says what to read.
type Request struct {
	Task   string
	Stream string // Stdout or Stderr; "" is Stdout
	Origin string // FromStart or FromEnd; "" is FromStart
	Offset int64  // bytes from the origin, over all files of the stream as one
	// File is the file that Offset counts from, named as in frames, so that a
	// reader can go on where it was; "" is all files of the stream. With it,
	// Origin must be FromStart. If it is gone, reading begins with the next.
	File   string
	Follow bool

	// Ended says that the task will write no more, so that following ends when
	// all is read; nil is never.
	Ended func() bool
}

// Stream reads a task's output from dir and hands it to emit in frames, in
// order, each byte once. Following, it waits for more until ctx ends, which is
// no error, and hands out an empty frame now and then, by which a caller finds
// out that nobody listens any more. It returns the first error of emit. A task
// that wrote nothing yet is an empty stream; no such stream is NotFound.
//
// Frame.Offset is where in Frame.File the data begins.
func Stream(ctx context.Context, dir *saferoot.Root, req Request, emit func(*op.StreamFrame) error) error {
	if req.Stream == "" {
		req.Stream = Stdout
	}
	if err := checkStream(req.Task, req.Stream); err != nil {
		return err
	}
	if req.Offset < 0 {
		return berth.Errorf(berth.Invalid, "offset %d is negative; it counts bytes from the origin", req.Offset)
	}
	r := reader{dir: dir, req: req, emit: emit, beat: time.Now(), file: file{index: -1}}
	defer r.close()
	if err := r.seek(); err != nil {
		return err
	}
	return r.run(ctx)
}

// reader is one call of Stream. It holds one file open at a time.
type reader struct {
	dir  *saferoot.Root
	req  Request
	emit func(*op.StreamFrame) error // its first error ends the reader

	file file      // the newest that was opened or passed over; index -1 before the first
	in   *os.File  // nil if it is not there
	at   int64     // offset in it
	beat time.Time // when the last frame was sent
	buf  [frameSize]byte
}

// close closes the open file, if any.
func (r *reader) close() {
	if r.in != nil {
		_ = r.in.Close()
		r.in = nil
	}
}

// seek opens the file that the wanted offset is in. An offset past either end
// is that end.
func (r *reader) seek() error {
	files, err := list(r.dir, r.req.Task, r.req.Stream)
	if err != nil {
		return err
	}
	type sized struct {
		file
		size int64
	}
	from, err := r.from()
	if err != nil {
		return err
	}
	var all []sized
	var total int64
	// Sizes are of this moment. A file may be rotated away while they are read.
	for _, f := range files {
		st, err := r.dir.Lstat(f.name)
		if errors.Is(err, fs.ErrNotExist) || err == nil && !st.Mode().IsRegular() {
			continue
		}
		if err != nil {
			return err
		}
		if f.index < from {
			r.file = f // passed over
			continue
		}
		all = append(all, sized{f, st.Size()})
		total += st.Size()
	}
	// From either end, the offset becomes bytes to pass over from the start.
	skip := min(r.req.Offset, total)
	if r.req.File != "" && (len(all) == 0 || all[0].index != from) {
		skip = 0
	} else if r.req.File != "" {
		skip = min(skip, all[0].size)
	}
	switch r.req.Origin {
	case FromStart, "":
	case FromEnd:
		skip = total - skip
	default:
		return berth.Errorf(berth.Invalid, "unknown origin %q: want start or end", r.req.Origin)
	}
	// If the file is gone by now, the next one is the closest there is.
	for i, f := range all {
		if skip < f.size || i == len(all)-1 {
			if ok, err := r.open(f.file); ok || err != nil {
				r.at = skip
				return err
			}
		}
		skip = max(0, skip-f.size)
	}
	return nil
}

// from returns the index of the file that the request begins in.
func (r *reader) from() (int, error) {
	if r.req.File == "" {
		return 0, nil
	}
	name := r.req.File[strings.LastIndexByte(r.req.File, '/')+1:]
	digits, ok := strings.CutPrefix(name, r.req.Task+"."+r.req.Stream+".")
	n, err := strconv.Atoi(digits)
	switch {
	case !ok || err != nil || n < 0:
		return 0, berth.Errorf(berth.Invalid, "file: %q is not a file of the %s of task %q, such as %s/%s", berth.Clip(r.req.File, 100), r.req.Stream, r.req.Task,
			Dir, FileName(r.req.Task, r.req.Stream, 0))
	case r.req.Origin != "" && r.req.Origin != FromStart:
		return 0, berth.Errorf(berth.Invalid, "origin: must be start with a file, got %q", berth.Clip(r.req.Origin, 64))
	}
	return n, nil
}

// open goes to a file; false if it is gone.
func (r *reader) open(f file) (bool, error) {
	in, err := r.dir.OpenFile(f.name, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) || berth.KindOf(err) == berth.Invalid {
		return false, nil // rotated away just now, or put there by a task
	}
	if err != nil {
		return false, err
	}
	r.close()
	r.file, r.in, r.at = f, in, 0
	return true, nil
}

// run hands out what there is and, if the request follows, what is added, until
// the task has ended, ctx ends or emit fails.
func (r *reader) run(ctx context.Context) error {
	wait := lookSoon
	for {
		// Asked in this order, nothing falls between: what was written before
		// the next file appeared, and before the task ended, is read after.
		ended := !r.req.Follow || r.req.Ended != nil && r.req.Ended()
		next, err := r.next()
		if err != nil {
			return err
		}
		n, err := r.drain(ctx)
		if err != nil || ctx.Err() != nil {
			return err
		}
		moved, err := r.advance(next)
		if err != nil {
			return err
		}
		switch {
		case moved:
			continue
		case ended:
			return nil
		case n > 0:
			wait = lookSoon
		default:
			wait = min(wait*2, lookLate)
		}
		// Only a reader that has caught up looks for this.
		if err := r.truncated(); err != nil {
			return err
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

// send hands out a frame and puts off the next heartbeat.
func (r *reader) send(f *op.StreamFrame) error {
	r.beat = time.Now()
	return r.emit(f)
}

// drain hands out what the file holds now. It stops for ctx between frames, as
// a task can write as fast as we read.
func (r *reader) drain(ctx context.Context) (total int64, err error) {
	for r.in != nil && ctx.Err() == nil {
		n, err := r.in.ReadAt(r.buf[:], r.at)
		if n > 0 {
			data := append([]byte(nil), r.buf[:n]...)
			if err := r.send(&op.StreamFrame{Offset: r.at, Data: data, File: Dir + "/" + r.file.name}); err != nil {
				return total, err
			}
			r.at += int64(n)
			total += int64(n)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// next returns the file after the one that is open, or nil.
func (r *reader) next() (*file, error) {
	files, err := list(r.dir, r.req.Task, r.req.Stream)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		if f.index > r.file.index {
			return &f, nil
		}
	}
	return nil, nil
}

// advance goes to the next file, saying so if the one that was read is gone.
func (r *reader) advance(next *file) (bool, error) {
	if next == nil {
		return false, nil
	}
	if r.in != nil {
		if _, err := r.dir.Lstat(r.file.name); errors.Is(err, fs.ErrNotExist) {
			if err := r.send(&op.StreamFrame{File: Dir + "/" + r.file.name, FileEvent: FileDeleted}); err != nil {
				return false, err
			}
		}
	}
	ok, err := r.open(*next)
	if !ok && err == nil {
		// It is no file of ours, or went away: count it as read.
		r.close()
		r.file = *next
	}
	return true, err
}

// truncated starts over if the file is shorter than what was read of it.
func (r *reader) truncated() error {
	if r.in == nil {
		return nil
	}
	st, err := r.in.Stat()
	if err != nil || st.Size() >= r.at {
		return err
	}
	r.at = 0
	return r.send(&op.StreamFrame{File: Dir + "/" + r.file.name, FileEvent: FileTruncated})
}

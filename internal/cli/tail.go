package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"
	"time"

	"berth"
	"berth/internal/rest"
	"berth/op"
)

// section is what is asked of a file or of a task's output: from where on, and
// whether to wait for more.
type section struct {
	origin string // start or end
	offset int64
	file   string // of an output: the file that offset counts from; "" is all
	follow bool
}

// reads returns the stream of a section.
type opener func(ctx context.Context, from section) iter.Seq2[*op.StreamFrame, error]

// part is the part of a text that a user asks for.
type part struct {
	follow, tail bool
	lines        int   // from the end; 0 is 10 with tail
	bytes        int64 // from the end; wins over tail
}

// shared lets several streams write to one output, a piece at a time.
type shared struct {
	mu       sync.Mutex
	out, err io.Writer
	wrote    bool // something was printed to out
}

// write prints one piece of output.
func (s *shared) write(b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wrote = s.wrote || len(b) > 0
	_, err := s.out.Write(b)
	return err
}

// note prints a remark to standard error, between two pieces of output.
func (s *shared) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.err, format+"\n", args...)
}

// lineWriter is where output goes.
type lineWriter interface {
	write(b []byte) error
	note(format string, args ...any)
}

// tailing prints a file or one output of a task.
type tailing struct {
	*call
	out     lineWriter
	verbose bool // remark on what happened to the file
	read    opener

	file string // where the last frame ended
	next int64
	any  bool // there was a frame
}

// print prints a part.
func (t *tailing) print(ctx context.Context, p part) error {
	from := section{origin: "start", follow: p.follow}
	switch {
	case p.bytes > 0:
		from.origin, from.offset = "end", p.bytes
	case p.lines > 0 || p.tail:
		n := p.lines
		if n == 0 {
			n = 10
		}
		// The server counts in bytes, so the lines are found here.
		end, err := t.lastLines(ctx, n)
		if err != nil {
			return err
		}
		if err := t.out.write(end); err != nil || !p.follow {
			return err
		}
		// It goes on exactly where these lines end.
		if t.any {
			from.file, from.offset = t.file, t.next
		}
	}
	return t.copy(ctx, from)
}

// Limits of going on after a connection was lost.
const (
	maxReconnects  = 20 // without any output in between
	reconnectPause = time.Second
	maxPause       = 10 * time.Second
)

// copy prints the text as it arrives. Following, it goes on where it was after a
// connection was lost.
func (t *tailing) copy(ctx context.Context, from section) error {
	for failed := 0; ; failed++ {
		got, err := t.once(ctx, from)
		if got {
			failed = 0
		}
		if err == nil || !from.follow || !t.any || failed == maxReconnects || !lostConnection(err) || ctx.Err() != nil {
			return err
		}
		if failed == 0 {
			t.out.note("The connection was lost, and the output goes on when it is back: %s", clean(err.Error()))
		}
		if err := rest.For(ctx, min(reconnectPause<<min(failed, 5), maxPause)); err != nil {
			return context.Cause(ctx)
		}
		from.origin, from.file, from.offset = "start", t.file, t.next
	}
}

// lostConnection reports whether an error says that the way to the file was lost,
// not that there is no such file or right.
func lostConnection(err error) bool {
	if isWriteError(err) {
		return false
	}
	switch berth.KindOf(err) {
	case "", berth.Unavailable, berth.NoLeader, berth.Limited:
		return true
	}
	return false
}

// writeError is the error of our own output.
type writeError struct{ error }

// isWriteError reports whether our own output failed.
func isWriteError(err error) bool {
	var failed *writeError
	return errors.As(err, &failed)
}

// once prints one stream to its end. got reports whether there was any output.
func (t *tailing) once(ctx context.Context, from section) (got bool, err error) {
	for f, err := range t.read(ctx, from) {
		if err != nil {
			return got, err
		}
		if f.FileEvent != "" && t.verbose {
			t.out.note("%s: %s", clean(f.File), clean(f.FileEvent))
		}
		t.at(f)
		got = true
		if err := t.out.write(f.Data); err != nil {
			return got, &writeError{err}
		}
	}
	return got, nil
}

// at remembers where a frame ends.
func (t *tailing) at(f *op.StreamFrame) {
	t.any, t.file, t.next = true, f.File, f.Offset+int64(len(f.Data))
}

// An estimate of the length of a line, and the most that is read to find the
// last lines, in bytes.
const (
	lineGuess = 120
	maxTail   = 64 << 20
)

// lastLines returns the last n lines. It reads from the end, and further back
// if that was not enough.
func (t *tailing) lastLines(ctx context.Context, n int) ([]byte, error) {
	from := section{origin: "end"}
	for from.offset = min(int64(n)*lineGuess, maxTail); ; from.offset *= 4 {
		var all bytes.Buffer
		for f, err := range t.read(ctx, from) {
			if err != nil {
				return nil, err
			}
			t.at(f)
			all.Write(f.Data)
		}
		end, whole := cutLines(all.Bytes(), n)
		if whole || int64(all.Len()) < from.offset || from.offset >= maxTail {
			return end, nil
		}
	}
}

// cutLines returns the last n lines of text. complete reports that the text has
// more than these; otherwise the first one may be cut off.
func cutLines(text []byte, n int) (end []byte, complete bool) {
	at := len(text)
	if at > 0 && text[at-1] == '\n' {
		at--
	}
	for range n {
		if at = bytes.LastIndexByte(text[:at], '\n'); at < 0 {
			return text, false
		}
	}
	return text[at+1:], true
}

// Package diag is what an agent tells about its own process: its log as it is
// written, profiles, and the machine as the process sees it. It knows nothing of
// clusters; what callers may see is decided elsewhere.
package diag

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
)

// Log is a log that can be followed while it is written, also below the level of
// its main output.
type Log struct {
	Level slog.LevelVar // of the main output

	mu        sync.Mutex
	followers map[*Follower]bool
	lowest    slog.Level // of the followers; meaningless without any
}

// Follower collects what is logged after it was made.
type Follower struct {
	log     *Log
	handler slog.Handler // writes into buf, which mu of the Log guards
	level   slog.Level
	buf     bytes.Buffer
	lost    int           // lines since the last that was sent
	ready   chan struct{} // holds one value when there is something in buf
}

// maxWaiting bounds what waits for a follower, in bytes: who reads too slowly
// loses lines, and is told how many.
const maxWaiting = 512 << 10

// Format is how the lines of a log are written.
type Format struct {
	JSON   bool // one object each
	Source bool // with file and line of the code
}

// Handler returns a handler that writes to a main output and to those who follow.
func (l *Log) Handler(main slog.Handler) slog.Handler { return &handler{log: l, main: main} }

// Options returns the options of a main output.
func (l *Log) Options(f Format) *slog.HandlerOptions {
	return &slog.HandlerOptions{Level: &l.Level, AddSource: f.Source}
}

// Follow returns a follower of what is logged from now on at a level or above. It
// must be closed.
func (l *Log) Follow(level slog.Level, f Format) *Follower {
	x := &Follower{log: l, level: level, ready: make(chan struct{}, 1)}
	o := &slog.HandlerOptions{Level: level, AddSource: f.Source}
	x.handler = slog.NewTextHandler(&x.buf, o)
	if f.JSON {
		x.handler = slog.NewJSONHandler(&x.buf, o)
	}
	l.change(x, true)
	return x
}

// Ready returns a channel that has a value when there are lines to take.
func (x *Follower) Ready() <-chan struct{} { return x.ready }

// Take returns the lines since the last call, empty if there are none.
func (x *Follower) Take() []byte {
	x.log.mu.Lock()
	defer x.log.mu.Unlock()
	out := bytes.Clone(x.buf.Bytes())
	x.buf.Reset()
	return out
}

// Close stops collecting.
func (x *Follower) Close() { x.log.change(x, false) }

// change adds or removes a follower.
func (l *Log) change(x *Follower, in bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.followers == nil {
		l.followers = map[*Follower]bool{}
	}
	if in {
		l.followers[x] = true
	} else {
		delete(l.followers, x)
	}
	first := true
	for x := range l.followers {
		if first || x.level < l.lowest {
			l.lowest, first = x.level, false
		}
	}
}

// wants reports whether a follower wants records of a level.
func (l *Log) wants(level slog.Level) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.followers) > 0 && level >= l.lowest
}

// handler passes records on to the main output and to followers.
type handler struct {
	log  *Log
	main slog.Handler
	with []func(slog.Handler) slog.Handler // the attributes and groups so far
}

// Enabled implements slog.Handler.
func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.main.Enabled(ctx, level) || h.log.wants(level)
}

// WithAttrs implements slog.Handler.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return h.derive(func(to slog.Handler) slog.Handler { return to.WithAttrs(attrs) })
}

// WithGroup implements slog.Handler.
func (h *handler) WithGroup(name string) slog.Handler {
	return h.derive(func(to slog.Handler) slog.Handler { return to.WithGroup(name) })
}

// derive returns a handler with one more step.
func (h *handler) derive(step func(slog.Handler) slog.Handler) slog.Handler {
	return &handler{h.log, step(h.main), append(h.with[:len(h.with):len(h.with)], step)}
}

// Handle implements slog.Handler. What followers do never fails the main output.
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	h.tell(ctx, r)
	if h.main.Enabled(ctx, r.Level) {
		return h.main.Handle(ctx, r)
	}
	return nil
}

// tell gives a record to those who follow.
func (h *handler) tell(ctx context.Context, r slog.Record) {
	h.log.mu.Lock()
	defer h.log.mu.Unlock()
	for x := range h.log.followers {
		if r.Level < x.level {
			continue
		}
		if x.buf.Len() > maxWaiting {
			x.lost++
			continue
		}
		if x.lost > 0 {
			note := slog.NewRecord(r.Time, slog.LevelWarn, "lines of the log were left out: the reader is too slow", 0)
			note.AddAttrs(slog.Int("lines", x.lost))
			_ = x.handler.Handle(ctx, note)
			x.lost = 0
		}
		to := x.handler
		for _, step := range h.with {
			to = step(to)
		}
		_ = to.Handle(ctx, r.Clone()) // a buffer takes everything
		select {
		case x.ready <- struct{}{}:
		default:
		}
	}
}

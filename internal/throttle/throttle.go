// Package throttle logs what strangers can cause any number of times. Of lines
// of one kind it writes a few in a period and counts the rest, so that nobody
// can fill a disk or hide other lines by sending garbage.
package throttle

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Every is the period in which lines of one kind are counted.
const Every = 10 * time.Second

// Log writes lines to another log, a few of each kind in a period. It is safe
// for use by many goroutines.
type Log struct {
	to    *slog.Logger
	burst int // lines of one kind in a period

	mu    sync.Mutex
	kinds map[string]*kind
}

// kind is what was logged of one kind of line.
type kind struct {
	began   time.Time // of the period
	written int       // in the period
	skipped int       // since the last line
}

// New returns a Log that writes at most burst lines of one kind in a period.
func New(to *slog.Logger, burst int) *Log {
	return &Log{to: to, burst: burst, kinds: map[string]*kind{}}
}

// Warn logs a warning. Its message is its kind and must be a constant; the
// details are in args, as of slog.
func (l *Log) Warn(msg string, args ...any) { l.Line(msg, slog.LevelWarn, msg, args...) }

// Line logs a line of a kind. Kinds are kept for ever, so there must be few. The
// line that follows skipped ones says how many they were.
func (l *Log) Line(of string, level slog.Level, msg string, args ...any) {
	ctx := context.Background()
	if !l.to.Enabled(ctx, level) {
		return
	}
	now := time.Now()
	l.mu.Lock()
	k := l.kinds[of]
	if k == nil {
		k = &kind{}
		l.kinds[of] = k
	}
	if now.Sub(k.began) >= Every {
		k.began, k.written = now, 0
	}
	if k.written >= l.burst {
		k.skipped++
		l.mu.Unlock()
		return
	}
	k.written++
	skipped := k.skipped
	k.skipped = 0
	// The lock is not held while the line is written.
	l.mu.Unlock()
	if skipped > 0 {
		args = append(args, "more_like_it", skipped)
	}
	l.to.Log(ctx, level, msg, args...)
}

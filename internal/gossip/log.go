package gossip

import (
	"log"
	"log/slog"
	"strings"

	"berth/internal/throttle"
)

// linesMost is how many lines of one place in the libraries are logged in a
// period. Anyone can make them log a line, with a packet that means nothing.
const linesMost = 10

// newLogger returns a logger for serf and memberlist, whose lines look like
// "[WARN] serf: text". Their level INFO becomes DEBUG, because this package
// logs those events itself. Lines are of one kind if one statement logs them.
// knew reports whether the server knew others before it started.
func newLogger(to *slog.Logger, knew bool) *log.Logger {
	return log.New(&lines{to: throttle.New(to, linesMost), knew: knew}, "", log.Lshortfile)
}

// lines is a writer that logs each line of the gossip libraries at its level.
// The lines begin with file and line of the statement that logs them.
type lines struct {
	to   *throttle.Log
	knew bool
}

// levels maps the libraries' levels to ours.
var levels = map[string]slog.Level{"DEBUG": slog.LevelDebug, "INFO": slog.LevelDebug, "WARN": slog.LevelWarn, "ERR": slog.LevelError, "ERROR": slog.LevelError}

// Write implements io.Writer.
func (l *lines) Write(b []byte) (int, error) {
	from, text, _ := strings.Cut(strings.TrimSpace(string(b)), ": ")
	level := slog.LevelDebug
	if word, rest, ok := strings.Cut(strings.TrimPrefix(text, "["), "] "); ok && strings.HasPrefix(text, "[") {
		if known, ok := levels[word]; ok {
			level, text = known, rest
		}
	}
	if strings.HasSuffix(text, "Shutdown without a Leave") { // as [Pool.Run] promises
		level = slog.LevelDebug
	}
	if !l.knew && strings.HasSuffix(text, "Failed to re-join any previously known node") { // it was alone, and is
		level = slog.LevelDebug
	}
	l.to.Line(from, level, text)
	return len(b), nil
}

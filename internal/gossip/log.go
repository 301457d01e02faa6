package gossip

import (
	"context"
	"log"
	"log/slog"
	"strings"
)

// newLogger returns a logger for serf and memberlist, whose lines look like
// "[WARN] serf: text". Their level INFO becomes DEBUG, because this package
// logs those events itself.
func newLogger(to *slog.Logger) *log.Logger { return log.New(&lines{to}, "", 0) }

// lines is a writer that logs each line of the gossip libraries at its level.
type lines struct{ to *slog.Logger }

// levels maps the libraries' levels to ours.
var levels = map[string]slog.Level{"DEBUG": slog.LevelDebug, "INFO": slog.LevelDebug, "WARN": slog.LevelWarn, "ERR": slog.LevelError, "ERROR": slog.LevelError}

// Write implements io.Writer.
func (l *lines) Write(b []byte) (int, error) {
	text := strings.TrimSpace(string(b))
	level := slog.LevelDebug
	if word, rest, ok := strings.Cut(strings.TrimPrefix(text, "["), "] "); ok && strings.HasPrefix(text, "[") {
		if known, ok := levels[word]; ok {
			level, text = known, rest
		}
	}
	if strings.HasSuffix(text, "Shutdown without a Leave") { // as [Pool.Run] promises
		level = slog.LevelDebug
	}
	l.to.Log(context.Background(), level, text)
	return len(b), nil
}

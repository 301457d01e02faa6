package plugin

import (
	"bytes"
	"context"
	"log/slog"

	"github.com/hashicorp/go-hclog"

	"berth"
)

// lineKept is how much of a line of a plugin's log is kept.
const lineKept = 2000

// logger returns an hclog.Logger that writes to log. go-plugin passes on through
// it what plugins write to their log.
func logger(log *slog.Logger) hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{Level: hclog.Info, Output: &lines{log}, DisableTime: true})
}

// lines passes lines such as "[WARN]  text" on to a log.
type lines struct{ log *slog.Logger }

// Write implements io.Writer.
func (l *lines) Write(b []byte) (int, error) {
	level, text := slog.LevelInfo, bytes.TrimSpace(b)
	for word, is := range map[string]slog.Level{"[WARN]": slog.LevelWarn, "[ERROR]": slog.LevelError, "[INFO]": slog.LevelInfo} {
		if rest, ok := bytes.CutPrefix(text, []byte(word)); ok {
			level, text = is, bytes.TrimSpace(rest)
			break
		}
	}
	l.log.Log(context.Background(), level, "plugin: "+berth.Clip(string(text), lineKept))
	return len(b), nil
}

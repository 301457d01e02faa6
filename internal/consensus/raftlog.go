package consensus

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"berth/internal/throttle"
)

// logger returns a logger for the Raft library, which passes errors on to log;
// nil is the default one. A server that is down has one twice a second for as
// long as it is a member, so of equal lines about one server few are written.
func logger(log *slog.Logger) hclog.Logger {
	l := hclog.NewInterceptLogger(&hclog.LoggerOptions{Name: "raft", Level: hclog.Off, Output: io.Discard})
	l.RegisterSink(&raftLog{throttle.New(cmp.Or(log, slog.Default()), 1)})
	return l
}

// raftLog writes the lines of the Raft library to another log.
type raftLog struct{ to *throttle.Log }

// Accept implements [hclog.SinkAdapter]. The details of a line are pairs of a
// name and a value.
func (l *raftLog) Accept(name string, level hclog.Level, msg string, details ...any) {
	if level < hclog.Error {
		return
	}
	kind, args := msg, make([]any, 0, len(details))
	for i := 0; i+1 < len(details); i += 2 {
		key, value := fmt.Sprint(details[i]), details[i+1]
		switch v := value.(type) {
		case raft.Server:
			value = v.Address
		case hclog.Format: // a format and its operands
			if len(v) > 0 {
				value = fmt.Sprintf(fmt.Sprint(v[0]), v[1:]...)
			}
		}
		if key == "peer" || key == "target" { // another server
			kind += " " + fmt.Sprint(value)
		}
		args = append(args, strings.ReplaceAll(key, " ", "_"), value)
	}
	l.to.Line(kind, slog.LevelError, name+": "+msg, args...)
}

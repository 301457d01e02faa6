package daemon

import (
	"io"
	"log/slog"

	"berth"
	"berth/internal/config"
	"berth/internal/diag"
)

// Log is the log of an agent: to a writer, and to the file and the syslog of its
// configuration.
type Log struct {
	*slog.Logger
	all  *diag.Log
	file *diag.File // nil: none
}

// OpenLog opens the log that a configuration asks for. The caller must close it.
func OpenLog(conf *config.Config, out io.Writer) (*Log, error) {
	l := &Log{all: &diag.Log{}}
	l.all.Level.Set(conf.LogLevel)
	o := l.all.Options(diag.Format{Source: conf.Log.Location})
	to := []slog.Handler{l.lines(conf, out, o)}
	if c := &conf.Log; c.File != "" {
		l.file = &diag.File{Path: c.File, MaxBytes: int64(c.RotateBytes), MaxAge: c.RotateDuration, MaxFiles: c.RotateFiles}
		if err := l.file.Open(); err != nil {
			return nil, berth.Errorf(berth.Invalid, "log_file: %w", err)
		}
		to = append(to, l.lines(conf, l.file, o))
	}
	if conf.Log.Syslog {
		h, err := diag.Syslog("", "", conf.Log.Facility, "berth", o, conf.LogJSON)
		if err != nil {
			l.Close()
			return nil, berth.Errorf(berth.Invalid, "enable_syslog: %w", err)
		}
		to = append(to, h)
	}
	main := to[0]
	if len(to) > 1 {
		main = slog.NewMultiHandler(to...)
	}
	l.Logger = slog.New(l.all.Handler(main))
	return l, nil
}

// lines returns a handler that writes lines of text, or of JSON.
func (l *Log) lines(conf *config.Config, to io.Writer, o *slog.HandlerOptions) slog.Handler {
	if conf.LogJSON {
		return slog.NewJSONHandler(to, o)
	}
	return slog.NewTextHandler(to, o)
}

// Close closes the log file.
func (l *Log) Close() {
	if l.file != nil {
		_ = l.file.Close()
	}
}

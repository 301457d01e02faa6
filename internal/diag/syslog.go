package diag

import (
	"bytes"
	"context"
	"log/slog"
	"log/syslog"
	"strings"
	"sync"
)

// Syslog returns a handler that writes to syslog with a facility, such as LOCAL0,
// and the priority that a record's level stands for. network and address are
// empty for the syslog of this machine.
func Syslog(network, address, facility, tag string, o *slog.HandlerOptions, json bool) (slog.Handler, error) {
	w, err := syslog.Dial(network, address, facilities[strings.ToUpper(facility)]|syslog.LOG_INFO, tag)
	if err != nil {
		return nil, err
	}
	s := &sys{to: w}
	var inner slog.Handler = slog.NewTextHandler(&s.line, o)
	if json {
		inner = slog.NewJSONHandler(&s.line, o)
	}
	return &sysHandler{s, inner}, nil
}

// facilities are those of syslog by name.
var facilities = map[string]syslog.Priority{
	"KERN": syslog.LOG_KERN, "USER": syslog.LOG_USER, "MAIL": syslog.LOG_MAIL, "DAEMON": syslog.LOG_DAEMON, "AUTH": syslog.LOG_AUTH,
	"SYSLOG": syslog.LOG_SYSLOG, "LPR": syslog.LOG_LPR, "NEWS": syslog.LOG_NEWS, "UUCP": syslog.LOG_UUCP, "CRON": syslog.LOG_CRON,
	"AUTHPRIV": syslog.LOG_AUTHPRIV, "FTP": syslog.LOG_FTP, "LOCAL0": syslog.LOG_LOCAL0, "LOCAL1": syslog.LOG_LOCAL1,
	"LOCAL2": syslog.LOG_LOCAL2, "LOCAL3": syslog.LOG_LOCAL3, "LOCAL4": syslog.LOG_LOCAL4, "LOCAL5": syslog.LOG_LOCAL5,
	"LOCAL6": syslog.LOG_LOCAL6, "LOCAL7": syslog.LOG_LOCAL7,
}

// sys is a connection to syslog, and the line that is being written.
type sys struct {
	mu   sync.Mutex
	line bytes.Buffer
	to   *syslog.Writer
}

// sysHandler writes lines of one set of attributes.
type sysHandler struct {
	sys   *sys
	inner slog.Handler // into the line
}

// Enabled implements slog.Handler.
func (h *sysHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.inner.Enabled(ctx, level)
}

// WithAttrs implements slog.Handler.
func (h *sysHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &sysHandler{h.sys, h.inner.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h *sysHandler) WithGroup(name string) slog.Handler {
	return &sysHandler{h.sys, h.inner.WithGroup(name)}
}

// Handle implements slog.Handler.
func (h *sysHandler) Handle(ctx context.Context, r slog.Record) error {
	h.sys.mu.Lock()
	defer h.sys.mu.Unlock()
	h.sys.line.Reset()
	if err := h.inner.Handle(ctx, r); err != nil {
		return err
	}
	line := strings.TrimSuffix(h.sys.line.String(), "\n")
	switch {
	case r.Level >= slog.LevelError:
		return h.sys.to.Err(line)
	case r.Level >= slog.LevelWarn:
		return h.sys.to.Warning(line)
	case r.Level >= slog.LevelInfo:
		return h.sys.to.Info(line)
	}
	return h.sys.to.Debug(line)
}

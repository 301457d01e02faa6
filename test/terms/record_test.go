//go:build faults

package terms

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	"berth"
	"berth/internal/state"
	"berth/test/record"
)

// listen records the events of a server that runs, from now until it ends.
func (s *streams) listen(x *member) {
	if s.heard[x.Server] {
		return
	}
	s.heard[x.Server] = true
	handler, addr := x.Handler(), x.addr
	s.agents.Go(func() {
		for at := ""; at != s.record.Path(addr); { // else it has ended
			at = s.record.Path(addr)
			r, w := io.Pipe()
			s.agents.Go(func() {
				q := httptest.NewRequestWithContext(s.life, http.MethodGet, at, nil)
				q.RemoteAddr = "10.2.0.2:1"
				handler.ServeHTTP(&streamed{http.Header{}, w}, q)
				w.Close()
			})
			s.record.Read(addr, r)
		}
	})
}

// streamed is an answer that is read while it is written.
type streamed struct {
	header http.Header
	io.Writer
}

// Header implements http.ResponseWriter.
func (w *streamed) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *streamed) WriteHeader(int) {}

// Flush implements http.Flusher.
func (w *streamed) Flush() {}

// told returns the recorder when it knows what has happened until now: time does
// not pass before it does.
func (s *streams) told() *record.Recorder {
	time.Sleep(time.Millisecond)
	return s.record
}

// follows checks that an incarnation went with all it owned before the next one
// came, and that nothing is of both.
func (s *streams) follows(old, next berth.UID) {
	s.t.Helper()
	s.went(old, next.Text('j'))
	made := map[string]bool{}
	for _, e := range s.told().Made(old.Text('j'), 0) {
		made[e.UID] = true
	}
	for _, e := range s.told().Made(next.Text('j'), 0) {
		if made[e.UID] {
			s.t.Errorf("it is of the incarnation before, too: %v", &e)
		}
	}
}

// went checks that a job went after all that it owned.
func (s *streams) went(old berth.UID, next string) {
	s.t.Helper()
	s.wait("its end is recorded", func(*state.Snapshot) bool {
		return s.record.Index("Deleted", old.Text('j')) > 0 && (next == "" || s.record.Index("Added", next) > 0)
	})
	for _, m := range s.told().Order(old.Text('j'), next) {
		s.t.Error(m)
	}
}

// since returns the job events of a type after an index.
func (s *streams) jobs(typ string, after uint64) (out []string) {
	for _, e := range s.told().Events() {
		if e.Kind == berth.KindJob && e.Type == typ && e.Index > after {
			out = append(out, e.UID)
		}
	}
	return out
}

// said is what servers say in their logs that is of concern.
type said struct {
	mu    sync.Mutex
	lines []string
}

// Enabled implements slog.Handler.
func (l *said) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

// Handle implements slog.Handler.
func (l *said) Handle(_ context.Context, r slog.Record) error {
	line := r.Message
	r.Attrs(func(a slog.Attr) bool { line += fmt.Sprint(" ", a); return true })
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
	return nil
}

// WithAttrs implements slog.Handler.
func (l *said) WithAttrs([]slog.Attr) slog.Handler { return l }

// WithGroup implements slog.Handler.
func (l *said) WithGroup(string) slog.Handler { return l }

// of returns the lines that hold a text.
func (l *said) of(text string) (out []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if strings.Contains(line, text) {
			out = append(out, line)
		}
	}
	return slices.Clone(out)
}

// counted checks that the leader has counted refusals.
func (s *streams) counted(codes ...string) {
	s.t.Helper()
	code, text := s.do(s.list[s.leader()], http.MethodGet, "/v1/metrics", "")
	for _, x := range codes {
		if code != http.StatusOK || !strings.Contains(text, "stream.refused") || !strings.Contains(text, fmt.Sprintf("%q", x)) {
			s.t.Errorf("%s was not counted: %d", x, code)
		}
	}
}

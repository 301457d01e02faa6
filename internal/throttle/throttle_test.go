package throttle

import (
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	_ "berth/internal/onethread"
)

// textLog logs lines without a time.
func textLog(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

// Each kind of line has its own count, and the line after skipped ones reports
// how many they were.
func TestAFewLinesOfEachKind(t *testing.T) {
	for _, c := range []struct {
		burst int
		want  string
	}{
		{1, "level=WARN msg=a\nlevel=WARN msg=b n=1\nlevel=WARN msg=a more_like_it=4\n"},
		{2, "level=WARN msg=a\nlevel=WARN msg=b n=1\nlevel=WARN msg=a\nlevel=WARN msg=b n=1\nlevel=WARN msg=a more_like_it=3\n"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var out strings.Builder
			l := New(textLog(&out), c.burst)
			for range 5 {
				l.Warn("a")
				l.Warn("b", "n", 1)
			}
			time.Sleep(Every)
			l.Warn("a")
			if out.String() != c.want {
				t.Errorf("with a burst of %d, logged\n%s", c.burst, &out)
			}
		})
	}
}

// A line below the log's level costs no count.
func TestDisabledLinesAreNotCounted(t *testing.T) {
	var out strings.Builder
	l := New(textLog(&out), 1)
	for range 3 {
		l.Line("a", slog.LevelDebug, "detail")
	}
	l.Line("a", slog.LevelInfo, "news")
	if out.String() != "level=INFO msg=news\n" {
		t.Errorf("logged\n%s", &out)
	}
}

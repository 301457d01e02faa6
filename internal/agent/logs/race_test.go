package logs

import (
	"fmt"
	"strings"
	"testing"

	"berth/internal/hostile"
	"berth/internal/saferoot"
	"berth/op"
)

// While a task swaps a log file, or a directory on the way to it, for a link, only its
// own output is read, and written nowhere else.
func TestNoRaceReadsOrWritesOtherLogs(t *testing.T) {
	y := hostile.NewYard(t)
	y.Beside(t, "logs/web.stdout.0", "web.stdout.0", "web.stdout.1")
	root, err := saferoot.Open(y.In)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	const file = "alloc/logs/web.stdout.0"
	for _, p := range []string{"alloc", "alloc/logs", file} {
		if err := root.MkdirAll("alloc/logs", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := root.Replace(file, []byte("mine"), 0o644); err != nil {
			t.Fatal(err)
		}
		read := 0
		y.Race(t, p, 500, func() {
			_ = root.Replace(file, []byte("mine"), 0o644) // the oldest files go
			dir, err := root.Sub("alloc/logs")            // as an agent does for each request
			if err != nil {
				return
			}
			defer dir.Close()
			var b strings.Builder
			_ = Stream(t.Context(), dir, Request{Task: "web"}, func(f *op.StreamFrame) error {
				b.Write(f.Data)
				return nil
			})
			if text := strings.ReplaceAll(b.String(), "mine", ""); text != "" {
				t.Errorf("read %q", b.String())
			}
			read += b.Len()
			if w, err := NewWriter(dir, "web", Stdout, 2, 12); err == nil {
				fmt.Fprint(w, "mine")
				_ = w.Close()
			}
		})
		t.Logf("%s: read %d bytes", p, read)
		y.Untouched(t, p)
		if err := root.RemoveAll("alloc"); err != nil {
			t.Fatal(err)
		}
	}
}

package logs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth"
	"berth/internal/hostile"
	"berth/internal/saferoot"
	"berth/op"
)

// Names of tasks that are none are refused, and links in place of log files are
// neither read nor written through.
func TestTheCorpusReadsNoOtherLogs(t *testing.T) {
	y := hostile.NewYard(t)
	dir, err := saferoot.Open(y.In)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	stream := func(r Request) (string, error) {
		var b strings.Builder
		err := Stream(t.Context(), dir, r, func(f *op.StreamFrame) error {
			b.Write(f.Data)
			return nil
		})
		return b.String(), err
	}
	for _, n := range hostile.Names() {
		for _, r := range []Request{{Task: n}, {Task: "web", Stream: n}, {Task: n, Stream: Stderr, Origin: FromEnd, Offset: 10}} {
			if r.Task == "web" && n == "" {
				continue // the default
			}
			if text, err := stream(r); text != "" || berth.KindOf(err) != berth.Invalid && !(len(n) > 200 && err != nil) && !harmless(n) {
				t.Errorf("%.80q: %.80q, %v", n, text, err)
			}
		}
		if w, err := NewWriter(dir, n, Stdout, 1, 10); err == nil && !harmless(n) {
			_ = w.Close()
			t.Errorf("%.80q is written", n)
		}
	}
	for _, n := range hostile.Odd() {
		if text, _ := stream(Request{Task: n}); text != "" {
			t.Errorf("%.80q: %.80q", n, text)
		}
	}
	y.Untouched(t, "names")
	for i, link := range y.Spread(t, y.In) {
		task := fmt.Sprintf("web%d", i)
		file := task + ".stdout.0"
		if err := os.Rename(filepath.Join(y.In, link), filepath.Join(y.In, file)); err != nil {
			t.Fatal(err)
		}
		if text, _ := stream(Request{Task: task}); text != "" {
			t.Errorf("%s is read: %.80q", link, text)
		}
		w, err := NewWriter(dir, task, Stdout, 2, 1000)
		if err == nil {
			fmt.Fprint(w, "mine")
			if err := w.Close(); err != nil {
				t.Error(err)
			}
		}
		if text, _ := stream(Request{Task: task}); text != "" && text != "mine" {
			t.Errorf("%s is read after a write: %.80q", link, text)
		}
		if err := dir.RemoveAll(file); err != nil {
			t.Fatal(err)
		}
	}
	y.Untouched(t, "links")
}

// harmless are names that only a path could be harmful in.
func harmless(n string) bool { return n == strings.Repeat("a", 256) }

package task

import (
	"bytes"
	"compress/gzip"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"berth"
	"berth/internal/agent/driver"
	"berth/internal/hostile"
	"berth/internal/saferoot"
)

// Templates are read and written, and artifacts placed, below the task's directory and
// that which tasks share, whatever a job calls them and whatever links a task made.
func TestTheCorpusStaysInTheTask(t *testing.T) {
	y := hostile.NewYard(t)
	at, _ := unready(t, `{"Name":"app","Driver":"mock_driver","Templates":[{"EmbeddedTmpl":"x","DestPath":"local/x"}]}`, newVariables())
	root, err := saferoot.Open(y.In)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	at.out.AllocDir, at.place.AllocDir = root, root.Path()
	for _, d := range []string{"app/local/logs/deep", "app/secrets", "alloc/data", "alloc/logs", "other/secrets", ".supervise", ".fetch"} {
		if err := root.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := root.Replace("other/secrets/key", []byte("of another task"), 0o600); err != nil {
		t.Fatal(err)
	}
	links := y.Spread(t, y.In+"/app/local")
	paths := append(hostile.Names(), hostile.Odd()...)
	for _, n := range append(hostile.Names(), hostile.Odd()...) {
		paths = append(paths, "local/"+n, "${NOMAD_TASK_DIR}/"+n, "${NOMAD_ALLOC_DIR}/"+n)
	}
	for _, n := range links {
		for _, below := range []string{"/made", "/keep", "/secret", "/etc/passwd", "/outside/keep"} {
			paths = append(paths, "local/"+n+below)
		}
	}
	at.task.Templates = append([]berth.Template(nil), at.task.Templates...)
	written := 0
	for _, p := range paths {
		place, err := at.inside("x", p)
		if err == nil && !strings.HasPrefix(place, "app/") && place != "alloc" && !strings.HasPrefix(place, "alloc/") {
			t.Errorf("%.80q is %q", p, place)
		}
		at.task.Templates[0].DestPath = p
		if at.writeTemplate(0, []byte("x")) == nil {
			written++
		}
		at.task.Templates[0].SourcePath, at.task.Templates[0].DestPath = p, "local/out"
		if r, err := newRenderer(at); err == nil && strings.Contains(r.texts[0].Text, hostile.Secret) {
			t.Errorf("%.80q is read", p)
		}
		at.task.Templates[0].SourcePath = ""
	}
	for _, n := range links {
		if err := root.Remove("app/local/" + n); err != nil {
			t.Errorf("%s: %v", n, err)
		}
	}
	y.Untouched(t, "templates")
	top, err := os.ReadDir(y.In)
	if err != nil || len(top) != 5 {
		t.Errorf("there are %v, %v", top, err)
	}
	for _, d := range []string{".supervise", ".fetch", "alloc/logs", "other"} {
		if list, err := root.ReadDir(d); err != nil || d != "other" && len(list) > 0 || d == "other" && len(list) != 1 {
			t.Errorf("%s has %v, %v", d, list, err)
		}
	}
	t.Logf("%d of %d paths are harmless", written, len(paths))
}

// An archive that is too large once unpacked ends the task's start with an event that
// says so, and is not tried again.
func TestABombIsAnEvent(t *testing.T) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write(make([]byte, 8<<20))
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(b.Bytes()) }))
	defer s.Close()
	_, root, _, err := ready(t, `{"Name":"app","Driver":"mock_driver","Artifacts":[{"GetterSource":"`+s.URL+`/bomb.gz","RelativeDest":"local/"}]}`, newVariables())
	if eventOf(err) != berth.EventDownloadFailed || driver.IsRecoverable(err) || !strings.Contains(err.Error(), "more than 100 times its size") {
		t.Errorf("%q: %v", eventOf(err), err)
	}
	if left, err := root.ReadDir("app/local"); err == nil && len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

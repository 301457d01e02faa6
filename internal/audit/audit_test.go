package audit

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// write appends n entries.
func write(t *testing.T, l *Log, n int) {
	t.Helper()
	for i := range n {
		if err := l.Write(Payload{ID: fmt.Sprint(i), Stage: Received, Request: Request{Endpoint: "/v1/jobs", Operation: "GET"}}); err != nil {
			t.Fatal(err)
		}
	}
}

// open opens a log in a directory.
func open(t *testing.T, dir string, change func(*Config)) *Log {
	t.Helper()
	c := Config{Path: filepath.Join(dir, "audit.log")}
	if change != nil {
		change(&c)
	}
	l, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// Each change of each line is found: a byte that is another, a line that is
// missing, twice, or elsewhere.
func TestChangesAreFound(t *testing.T) {
	dir := t.TempDir()
	write(t, open(t, dir, nil), 6)
	path := filepath.Join(dir, "audit.log")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := Verify(path); err != nil || c.Lines != 6 || c.First != 1 || c.Last != 6 || c.Prev != "" || len(c.Hash) != 64 {
		t.Fatalf("%+v, %v", c, err)
	}
	found := func(name string, text []byte) {
		t.Helper()
		other := filepath.Join(t.TempDir(), "changed.log")
		if err := os.WriteFile(other, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Verify(other); err == nil {
			t.Errorf("%s: not found", name)
		}
	}
	for i := range whole {
		changed := bytes.Clone(whole)
		changed[i] ^= 1
		found(fmt.Sprint("byte ", i), changed)
	}
	lines := bytes.SplitAfter(whole, []byte("\n"))
	found("a line is missing", bytes.Join([][]byte{lines[0], lines[2], lines[3]}, nil))
	found("a line is twice", bytes.Join([][]byte{lines[0], lines[0], lines[1]}, nil))
	found("lines are exchanged", bytes.Join([][]byte{lines[1], lines[0]}, nil))
	found("the end is cut", whole[:len(whole)-1])
}

// A log goes on where it was, also after a crash in the middle of a line, and over
// files that were put aside.
func TestTheChainGoesOn(t *testing.T) {
	dir := t.TempDir()
	small := func(c *Config) { c.MaxBytes, c.MaxFiles = 700, 3 }
	l := open(t, dir, small)
	write(t, l, 7)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "audit.log"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"seq":8,"prev":"half a li`); err != nil {
		t.Fatal(err)
	}
	f.Close()
	l = open(t, dir, small)
	write(t, l, 5)
	files, err := filepath.Glob(filepath.Join(dir, "audit-*.log"))
	if err != nil || len(files) != 3 {
		t.Fatalf("%v, %v", files, err)
	}
	c, err := Verify(append(files, filepath.Join(dir, "audit.log"))...)
	if err != nil || c.Last != 12 || c.First == 1 || c.Prev == "" {
		t.Errorf("%+v, %v", c, err)
	}
	// An empty file follows what was put aside.
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	last, err := filepath.Glob(filepath.Join(dir, "audit-*.log"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(last[len(last)-1])
	if err != nil || os.Remove(filepath.Join(dir, "audit.log")) != nil {
		t.Fatal(err)
	}
	write(t, open(t, dir, small), 1)
	next, err := os.ReadFile(filepath.Join(dir, "audit.log"))
	if err != nil {
		t.Fatal(err)
	}
	if err := (&Chain{}).read("both", bytes.NewReader(append(text, next...))); err != nil {
		t.Error(err)
	}
}

// A file is put aside when it is old.
func TestOldFilesArePutAside(t *testing.T) {
	dir, now := t.TempDir(), time.Unix(1000, 0)
	l := open(t, dir, func(c *Config) { c.MaxAge, c.Now = time.Hour, func() time.Time { return now } })
	write(t, l, 2)
	now = now.Add(time.Hour)
	write(t, l, 1)
	if files, err := filepath.Glob(filepath.Join(dir, "audit-*.log")); err != nil || len(files) != 1 || !strings.HasSuffix(files[0], "-00000000000000000002.log") {
		t.Errorf("%v, %v", files, err)
	}
}

// A damaged log is not gone on with.
func TestADamagedLogIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "audit.log"), []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Config{Path: filepath.Join(dir, "audit.log")}); err == nil || !strings.Contains(err.Error(), "move the file away") {
		t.Error(err)
	}
}

func TestGlob(t *testing.T) {
	for _, x := range []struct {
		pattern, s string
		want       bool
	}{
		{"*", "/v1/jobs", true}, {"/v1/*", "/v1/jobs", true}, {"/v1/jobs", "/v1/jobs", true}, {"/v1/job", "/v1/jobs", false},
		{"/v1/*/stats", "/v1/client/stats", true}, {"/v1/*/stats", "/v1/client/stat", false}, {"*jobs*", "/v1/jobs/x", true}, {"a*a", "a", false},
	} {
		if got := glob(x.pattern, x.s); got != x.want {
			t.Errorf("%s of %s: %v", x.pattern, x.s, got)
		}
	}
}

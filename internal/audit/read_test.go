package audit_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/internal/audit"
)

// pages reads a whole log, n lines at a time.
func pages(t *testing.T, l *audit.Log, n int) (out []audit.Line) {
	t.Helper()
	token := ""
	for range 1000 {
		got := 0
		next, err := l.Newest(token, func(x audit.Line) bool {
			if got == n {
				return false
			}
			got++
			out = append(out, x)
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
		if token = next; token == "" {
			return out
		}
	}
	t.Fatal("it does not end")
	return nil
}

// The log is read back from its newest line, over the files that were put aside,
// in pages of any size; what is written meanwhile does not disturb that.
func TestReadingBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	l, err := audit.Open(audit.Config{Path: path, MaxBytes: 2000})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if got := pages(t, l, 3); len(got) != 0 {
		t.Errorf("an empty log has %v", got)
	}
	write := func(n int) {
		if err := l.Write(audit.Payload{ID: fmt.Sprint(n), Stage: audit.Complete, Request: audit.Request{Operation: "GET", Endpoint: "/v1/jobs", Route: "job.list"}}); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 40 {
		write(n + 1)
	}
	if files, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*")); len(files) < 3 {
		t.Fatalf("it is in %v", files)
	}
	for _, n := range []int{1, 3, 7, 100} {
		got := pages(t, l, n)
		if len(got) != 40 {
			t.Fatalf("%d lines in pages of %d", len(got), n)
		}
		for i, x := range got {
			if x.Problem != "" || x.Seq != uint64(40-i) || x.Entry.Payload.ID != fmt.Sprint(40-i) {
				t.Errorf("pages of %d: line %d is %+v", n, i, x)
			}
		}
	}
	// A page goes on where the one before it ended, although lines were added.
	n := 0
	next, err := l.Newest("", func(audit.Line) bool { n++; return n <= 5 })
	if err != nil || next == "" {
		t.Fatal(next, err)
	}
	for n := range 20 {
		write(41 + n)
	}
	var first audit.Line
	if _, err := l.Newest(next, func(x audit.Line) bool { first = x; return false }); err != nil || first.Seq != 35 || first.Problem != "" {
		t.Errorf("it goes on with %+v, %v", first, err)
	}
	for _, bad := range []string{"x", "1.2", "0.0.", "1.-1.a", "9999.10.a"} {
		if _, err := l.Newest(bad, func(audit.Line) bool { return true }); err == nil || !strings.Contains(err.Error(), "next_token") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// A line that was changed is told, and so is one whose follower was removed; what
// is whole is read all the same.
func TestReadingFindsChanges(t *testing.T) {
	for name, change := range map[string]func([][]byte) [][]byte{
		"changed": func(l [][]byte) [][]byte {
			l[4] = bytes.Replace(l[4], []byte("job.list"), []byte("job.stop"), 1)
			return l
		},
		"removed": func(l [][]byte) [][]byte { return append(l[:4:4], l[5:]...) },
		"swapped": func(l [][]byte) [][]byte { l[4], l[5] = l[5], l[4]; return l },
		"no line": func(l [][]byte) [][]byte { l[4] = []byte("nothing"); return l },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "audit.log")
			l, err := audit.Open(audit.Config{Path: path})
			if err != nil {
				t.Fatal(err)
			}
			for n := range 10 {
				if err := l.Write(audit.Payload{ID: fmt.Sprint(n), Stage: audit.Complete, Request: audit.Request{Route: "job.list"}}); err != nil {
					t.Fatal(err)
				}
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			lines := change(bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n")))
			if err := os.WriteFile(path, append(bytes.Join(lines, []byte("\n")), '\n'), 0o600); err != nil {
				t.Fatal(err)
			}
			if l, err = audit.Open(audit.Config{Path: path}); err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			for _, n := range []int{1, 4, 100} {
				problems, whole := 0, 0
				for _, x := range pages(t, l, n) {
					if x.Problem != "" {
						problems++
					} else {
						whole++
					}
				}
				if problems == 0 || whole < 6 {
					t.Errorf("pages of %d: %d problems, %d lines that are whole", n, problems, whole)
				}
			}
		})
	}
}

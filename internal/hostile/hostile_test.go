package hostile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// entryPoints are the ways by which names come from outside, and the package whose
// tests try them.
var entryPoints = map[string]string{
	"artifacts": "agent/fetch", "templates": "agent/task", "migration of disks": "agent/disk", "alloc fs": "agent/files", "logs": "agent/logs",
	"host volumes": "agent/hostvolume", "CSI volumes and plugins": "agent/csi", "secret providers": "agent/secretprovider", "paths of the agent": "saferoot",
}

// The corpus has 300 cases that differ, and each entry point is tried with all of
// them.
func TestCorpus(t *testing.T) {
	y := NewYard(t)
	seen := map[string]bool{}
	for _, all := range [][]string{Names(), Odd(), y.Links()} {
		for _, s := range all {
			seen[s] = true
		}
	}
	if len(seen) < 300 {
		t.Errorf("%d different cases; want 300", len(seen))
	}
	for what, dir := range entryPoints {
		files, err := filepath.Glob("../" + dir + "/*_test.go")
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			text.Write(b)
		}
		if !strings.Contains(text.String(), "hostile.Names()") || !strings.Contains(text.String(), ".Links()") && !strings.Contains(text.String(), ".Spread(") {
			t.Errorf("%s: the tests of %s do not try the corpus", what, dir)
		}
	}
	t.Logf("%d cases: %d names, %d odd names, %d links, at %d entry points", len(seen), len(Names()), len(Odd()), len(y.Links()), len(entryPoints))
}

// raced are the entry points whose paths tasks can change meanwhile.
var raced = []string{"artifacts", "templates", "migration of disks", "alloc fs", "logs", "host volumes", "paths of the agent"}

// Each of them is tried while somebody swaps what it works on for links.
func TestRaces(t *testing.T) {
	for _, what := range raced {
		files, err := filepath.Glob("../" + entryPoints[what] + "/*_test.go")
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			found = found || strings.Contains(string(b), "y.Race(t, ")
		}
		if !found {
			t.Errorf("%s: the tests of %s do not race", what, entryPoints[what])
		}
	}
}

// A race is lost by who looks at a path and then opens it, and by who opens what a path
// leads to.
func TestARaceCanBeLost(t *testing.T) {
	y := NewYard(t)
	y.Beside(t, "deep/keep")
	file := filepath.Join(y.In, "deep/keep")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"deep", "deep/keep"} {
		for looks, lost := 0, false; !lost; {
			y.Race(t, p, 1000, func() {
				for _, at := range []string{filepath.Join(y.In, "deep"), file} {
					if st, err := os.Lstat(at); err != nil || st.Mode()&os.ModeSymlink != 0 {
						return
					}
				}
				looks++
				if b, _ := os.ReadFile(file); string(b) == Secret {
					lost = true
				}
			})
			t.Logf("%s: lost: %v, after %d looks", p, lost, looks)
		}
		y.Untouched(t, p)
	}
}

// What leads out is seen.
func TestTheYardTells(t *testing.T) {
	y := NewYard(t)
	y.Spread(t, y.In)
	if got := Escapes(t, y.In); len(got) != len(y.Links()) {
		t.Errorf("%d of %d links are seen", len(got), len(y.Links()))
	}
}

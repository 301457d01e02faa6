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

// What leads out is seen.
func TestTheYardTells(t *testing.T) {
	y := NewYard(t)
	y.Spread(t, y.In)
	if got := Escapes(t, y.In); len(got) != len(y.Links()) {
		t.Errorf("%d of %d links are seen", len(got), len(y.Links()))
	}
}

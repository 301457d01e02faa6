package process

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth"
	"berth/internal/saferoot"
)

// Each task has a number of its own, and keeps it: a second Numbers, as that of the
// next agent, finds it again. It can be given away when the directory is gone.
func TestEachTaskHasANumberOfItsOwn(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give directories away")
	}
	allocs := t.TempDir()
	roots := map[string]*saferoot.Root{}
	task := func(alloc, name string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(allocs, alloc, name), 0o711); err != nil {
			t.Fatal(err)
		}
		root, err := saferoot.Open(filepath.Join(allocs, alloc))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = root.Close() })
		roots[alloc] = root
	}
	for _, x := range [][2]string{{"a", "web"}, {"a", "db"}, {"b", "web"}, {"c", "web"}} {
		task(x[0], x[1])
	}
	n := &Numbers{Range: Range{910_000, 910_002}}
	is := func(alloc, name string, want uint32) {
		t.Helper()
		if got, err := n.Of(roots[alloc], name); err != nil || got != want {
			t.Errorf("%s/%s is %d, %v; want %d", alloc, name, got, err, want)
		}
	}
	is("a", "web", 910_000)
	is("a", "db", 910_001)
	is("b", "web", 910_002)
	is("a", "web", 910_000)
	if _, err := n.Of(roots["c"], "web"); berth.KindOf(err) != berth.Unavailable || !strings.Contains(err.Error(), "client.users") {
		t.Errorf("none is left: %v", err)
	}
	n = &Numbers{Range: Range{910_000, 910_002}} // the next agent
	is("b", "web", 910_002)
	if err := os.RemoveAll(filepath.Join(allocs, "a", "db")); err != nil {
		t.Fatal(err)
	}
	is("c", "web", 910_001)
}

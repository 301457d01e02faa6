package files

import (
	"strings"
	"testing"

	"berth/internal/hostile"
	"berth/internal/saferoot"
	"berth/op"
)

// Whatever path is asked for, and whatever links a task has made, nothing beside the
// allocation's directory is read, listed or described.
func TestTheCorpusReadsNothingOutside(t *testing.T) {
	y := hostile.NewYard(t)
	root, err := saferoot.Open(y.In)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := root.MkdirAll("web/local/logs/deep", 0o755); err != nil {
		t.Fatal(err)
	}
	links := y.Spread(t, y.In+"/web/local")
	var paths []string
	for _, n := range append(hostile.Names(), hostile.Odd()...) {
		paths = append(paths, n, "web/local/"+n)
	}
	for _, n := range links {
		for _, below := range []string{"", "/keep", "/secret", "/etc/passwd", "/outside/keep", "/."} {
			paths = append(paths, "web/local/"+n+below)
		}
	}
	for _, p := range paths {
		if text, err := content(root, op.FileSection{Path: p}); text != "" || err == nil {
			t.Errorf("%.80q is read: %.80q", p, text)
		}
		list, _ := List(root, p)
		for _, f := range list {
			if known := f.Name == "web" || f.Name == "local" || f.Name == "logs" || f.Name == "deep" || strings.HasPrefix(f.Name, "link"); !known {
				t.Errorf("%.80q has %q", p, f.Name)
			}
		}
		if st, err := Stat(root, p); err == nil && !st.IsDir && !strings.HasPrefix(st.FileMode, "L") {
			t.Errorf("%.80q is described: %+v", p, st)
		}
	}
	for _, n := range links {
		if err := root.Remove("web/local/" + n); err != nil {
			t.Fatal(err)
		}
	}
	y.Untouched(t, "reading")
}

package csi

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"berth/internal/hostile"
)

// Directories of plugins are the same depth below the agent's directory whatever a
// plugin, a task or an allocation is called, and a link in place of a socket or of a
// mounted volume is neither called nor given to a task.
func TestTheCorpusIsNoPlugin(t *testing.T) {
	y := hostile.NewYard(t)
	m := Open(Config{Dir: y.In, Log: slog.New(slog.DiscardHandler)})
	seen := map[string]string{}
	for _, n := range append(hostile.Names(), hostile.Odd()...) {
		for what, dir := range map[string]string{"s": m.SocketDir("a", n), "v": m.VolumeDir(n)} {
			if filepath.Dir(dir) != filepath.Join(y.In, what) {
				t.Errorf("%.80q has %s", n, dir)
			}
			if other, taken := seen[dir]; taken && other != n {
				t.Errorf("%.80q and %.80q have one directory", n, other)
			}
			seen[dir] = n
		}
		if err := m.MakeDirs("a", n, n); err != nil {
			t.Errorf("%.80q: %v", n, err)
		}
	}
	y.Untouched(t, "names")
	for _, n := range y.Spread(t, y.In) {
		path := filepath.Join(y.In, n)
		if conn, err := connect(t.Context(), path); err == nil {
			_ = conn.Close()
			t.Errorf("%s was called", n)
		}
		if err := isMount(path); err == nil {
			t.Errorf("%s is taken for a mounted volume", n)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	y.Untouched(t, "links")
}

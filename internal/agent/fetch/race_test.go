package fetch

import (
	"errors"
	"os"
	"testing"

	"berth/internal/hostile"
	"berth/internal/saferoot"
)

// While a task swaps the destination of an artifact, or a directory on the way to it,
// for a link, nothing is placed, made, replaced or given away anywhere else.
func TestNoRacePlacesOutside(t *testing.T) {
	y := hostile.NewYard(t)
	y.Beside(t, "app/sub/keep", "sub/keep", "local/app/sub/keep")
	root, err := saferoot.Open(y.In)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	owner := saferoot.Adoption{UID: -1, GID: -1}
	if os.Geteuid() == 0 {
		owner = saferoot.Adoption{UID: 12345, GID: 12345}
	}
	for _, p := range []string{"task/local", "task/local/app", "task/local/app/sub", "task/local/app/sub/keep"} {
		if err := errors.Join(root.MkdirAll("task/local/app/sub", 0o755), root.Replace("task/local/app/sub/keep", []byte("mine"), 0o644)); err != nil {
			t.Fatal(err)
		}
		placed := 0
		// What the agent does with what was fetched, many times.
		y.Race(t, p, 500, func() {
			dir := t.TempDir()
			from, err := saferoot.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer from.Close()
			err = errors.Join(from.MkdirAll("tree/sub", 0o755), from.Replace("tree/sub/keep", []byte("new"), 0o644), from.Replace("tree/made", []byte("new"), 0o644))
			if err != nil {
				t.Fatal(err)
			}
			if makeParents(root, "task/local/made", owner) == nil && root.Adopt(from, "tree", "task/local/app", owner) == nil {
				placed++
			}
		})
		t.Logf("%s: placed %d times", p, placed)
		y.Untouched(t, p)
		if err := root.RemoveAll("task"); err != nil {
			t.Fatal(err)
		}
	}
	// And a whole fetch, with its process, a few times.
	r := newRig(t, Config{})
	r.files["/app.tgz"] = tarGz(t, entry{name: "app/sub/keep", text: "new"}, entry{name: "app/made", text: "new"})
	r.root = root
	if err := root.MkdirAll("task/local/app/sub", 0o755); err != nil {
		t.Fatal(err)
	}
	y.Race(t, "task/local/app", 10, func() { _ = r.get(t, Artifact{Source: "URL/app.tgz"}, "task/local") })
	y.Untouched(t, "fetched")
}

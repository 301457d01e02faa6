package disk

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"berth"
	"berth/internal/hostile"
	"berth/internal/saferoot"
	"berth/op"
)

// raced is a yard with the directory of an allocation, whose data a task that has not
// ended swaps for links.
func raced(t *testing.T) (*hostile.Yard, *saferoot.Root) {
	t.Helper()
	y := hostile.NewYard(t)
	y.Beside(t, "sub/keep", "data/sub/keep")
	root, err := saferoot.Open(y.In)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	if err := errors.Join(root.MkdirAll("alloc/data/sub", 0o755), root.Replace("alloc/data/sub/keep", []byte("mine"), 0o644)); err != nil {
		t.Fatal(err)
	}
	return y, root
}

// Only what is below the allocation's directory is read for another node, and copied
// to it.
func TestNoRaceCopiesFromOutside(t *testing.T) {
	y, root := raced(t)
	source := func(_ context.Context, p op.DiskPart) (*op.DiskAnswer, error) {
		a, err := Read(root, p)
		if err != nil { // of a kind after which nobody asks again
			err = berth.Errorf(berth.Invalid, "%w", err)
		}
		return a, err
	}
	for _, p := range []string{"alloc/data", "alloc/data/sub", "alloc/data/sub/keep"} {
		read, copied := 0, 0
		y.Race(t, p, 300, func() {
			if got, err := Read(root, op.DiskPart{Path: "alloc/data/sub/keep"}); err == nil {
				if string(got.Data) != "mine" {
					t.Errorf("%s: read %q", p, got.Data)
				}
				read++
			}
			if got, err := Read(root, op.DiskPart{Path: "alloc/data/sub", List: true}); err == nil {
				for _, e := range got.Entries {
					if e.Name != "keep" && e.Name != "keep.aside" || e.Kind == op.DiskFile && e.Size != 4 {
						t.Errorf("%s: listed %+v", p, e)
					}
				}
			}
		})
		y.Race(t, p, 20, func() {
			to, err := saferoot.Open(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer to.Close()
			if _, err := (Copy{Dirs: dirs[:1], Tell: quiet, Bytes: 1 << 20, Files: 200, From: source}).Run(t.Context(), to); err == nil {
				copied++
			}
			for _, what := range hostile.Escapes(t, to.Path()) {
				t.Errorf("%s: copied: %s", p, what)
			}
		})
		t.Logf("%s: read %d times, copied %d times", p, read, copied)
		y.Untouched(t, p)
	}
}

// What moves on one node is a directory: no link takes its place on the way.
func TestNoRaceMovesALink(t *testing.T) {
	y, root := raced(t)
	moved := 0
	y.Race(t, "alloc/data", 500, func() {
		dir := t.TempDir()
		to, err := saferoot.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer to.Close()
		err = Move(root, to, dirs[:1])
		for _, what := range hostile.Escapes(t, dir) {
			t.Errorf("moved: %s, %v", what, err)
		}
		there, here := filepath.Join(dir, "alloc/data"), filepath.Join(y.In, "alloc/data")
		if st, err := os.Lstat(there); err == nil && st.IsDir() {
			moved++
			for os.Rename(there, here) != nil { // the other side has a link there, and takes it away
			}
		}
	})
	t.Logf("moved %d times", moved)
	y.Untouched(t, "moving")
}

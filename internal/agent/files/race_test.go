package files

import (
	"testing"

	"berth/internal/hostile"
	"berth/internal/saferoot"
	"berth/op"
)

// While a task swaps a file, or a directory on the way to it, for a link, only the real
// ones are read, listed and described.
func TestNoRaceReadsOutside(t *testing.T) {
	y := hostile.NewYard(t)
	y.Beside(t, "sub/keep")
	root, err := saferoot.Open(y.In)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	const dir, mine = "web/local/sub", "mine"
	if err := root.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := root.Replace(dir+"/keep", []byte(mine), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"web/local", dir, dir + "/keep"} {
		read, listed := 0, 0
		y.Race(t, p, 500, func() {
			text, err := content(root, op.FileSection{Path: dir + "/keep"})
			if text != "" && text != mine {
				t.Errorf("read %q, %v", text, err)
			}
			if text == mine {
				read++
			}
			list, _ := List(root, dir)
			for _, f := range list {
				// keep.aside is the file, or the link to be, in the moment of the swap.
				if f.Name != "keep" && f.Name != "keep.aside" || f.FileMode[0] != 'L' && f.Size != int64(len(mine)) {
					t.Errorf("listed %+v", f)
				}
				listed++
			}
			if st, err := Stat(root, dir+"/keep"); err == nil && st.FileMode[0] != 'L' && st.Size != int64(len(mine)) {
				t.Errorf("described %+v", st)
			}
		})
		t.Logf("%s: read %d times, %d files listed", p, read, listed)
		y.Untouched(t, p)
		if text, err := content(root, op.FileSection{Path: dir + "/keep"}); text != mine {
			t.Errorf("after the race: %q, %v", text, err)
		}
	}
}

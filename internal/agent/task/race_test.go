package task

import (
	"errors"
	"os"
	"testing"

	"berth"
	"berth/internal/hostile"
	"berth/internal/saferoot"
)

// While a task swaps the source of a template, its destination, a file that it shows,
// or a directory on the way, for a link, nothing else is read, written or given away.
func TestNoRaceRendersOutside(t *testing.T) {
	y := hostile.NewYard(t)
	y.Beside(t, "in/keep", "local/in/keep")
	at, _ := unready(t, `{"Name":"app","Driver":"mock_driver","Templates":[{"EmbeddedTmpl":"x","DestPath":"local/x"}]}`, newVariables())
	root, err := saferoot.Open(y.In)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	at.out.AllocDir, at.place.AllocDir = root, root.Path()
	uid := -1
	if os.Geteuid() == 0 {
		uid = 12345
	}
	source := berth.Template{SourcePath: "local/in/keep", DestPath: "local/out"}
	texts := map[string]bool{"mine": true, "new": true}
	for _, p := range []string{"app/local", "app/local/in", "app/local/in/keep"} {
		if err := errors.Join(root.MkdirAll("app/local/in", 0o755), root.Replace("app/local/in/keep", []byte("mine"), 0o644)); err != nil {
			t.Fatal(err)
		}
		written, read := 0, 0
		y.Race(t, p, 500, func() {
			for _, dest := range []string{"local/in/keep", "local/in/made/x", "local/in/made"} {
				at.task.Templates = []berth.Template{{DestPath: dest, Uid: &uid, Gid: &uid}}
				if at.writeTemplate(0, []byte("new")) == nil {
					written++
				}
			}
			at.task.Templates = []berth.Template{source}
			r, err := newRenderer(at)
			if err == nil && !texts[r.texts[0].Text] {
				t.Errorf("%s: the source is %q", p, r.texts[0].Text)
			}
			at.task.Templates = nil
			if r, err = newRenderer(at); err != nil {
				t.Fatal(err)
			}
			if v, err := r.file("local/in/keep"); err == nil && !v.Missing {
				if !texts[v.Text] {
					t.Errorf("%s: the file is %q", p, v.Text)
				}
				read++
			}
		})
		t.Logf("%s: written %d times, read %d times", p, written, read)
		y.Untouched(t, p)
		if err := root.RemoveAll("app"); err != nil {
			t.Fatal(err)
		}
	}
}

package saferoot

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"berth"
	"berth/internal/hostile"
)

// Names that are odd are taken as they are, and links are never gone through: each way
// to reach a file is tried with all of the corpus.
func TestTheCorpusStaysInside(t *testing.T) {
	y := hostile.NewYard(t)
	r, err := Open(y.In)
	must(t, err)
	defer r.Close()
	for what, f := range entries {
		for _, n := range hostile.Odd() {
			_ = f(r, n)             // it may go well
			must(t, r.RemoveAll(n)) // but stays below
		}
		y.Untouched(t, what)
	}
	for _, below := range []string{"", "/keep", "/secret", "/etc/passwd", "/outside/made"} {
		for what, f := range entries {
			links := y.Spread(t, y.In)
			for _, n := range links {
				if err := f(r, n+below); err == nil && below != "" && what != "all" { // of what is not there is nothing to remove
					t.Errorf("%s goes through %s%s", what, n, below)
				}
			}
			for _, n := range links {
				must(t, r.RemoveAll(n))
			}
			y.Untouched(t, what+below)
		}
	}
}

// A hostile task swaps a file, or a directory on the way to it, for a link, as often as
// it can. Whoever wins, only the real file is read, changed or removed: by each way to
// reach a file.
func TestSwapRaceIsNeverLost(t *testing.T) {
	y := hostile.NewYard(t)
	y.Beside(t, "deep/keep", "logs/deep/keep")
	r, err := Open(y.In)
	must(t, err)
	defer r.Close()
	for what, f := range entries {
		for _, p := range []string{"logs", "logs/deep", "logs/deep/keep"} {
			must(t, errors.Join(r.MkdirAll("logs/deep", 0o755), r.Replace("logs/deep/keep", []byte("mine"), 0o644)))
			y.Race(t, p, 200, func() {
				for _, at := range []string{"logs/deep/keep", "logs/deep", "logs/keep", "logs/deep/made"} {
					_ = f(r, at)
				}
				if b, err := r.ReadFile("logs/deep/keep", 100); err == nil && len(b) > 0 && string(b) != "mine" && string(b) != "x" {
					t.Errorf("%s %s: read %q", what, p, b)
				}
				_ = r.MkdirAll("logs/deep", 0o755) // as it was, for the next time
				_ = r.Replace("logs/deep/keep", []byte("mine"), 0o644)
			})
			y.Untouched(t, what+" "+p)
			must(t, r.RemoveAll("logs"))
		}
	}
}

// A directory that becomes a link between the look and the move is not taken.
func TestWhatIsTakenIsADirectory(t *testing.T) {
	y := hostile.NewYard(t)
	r, err := Open(y.In)
	must(t, err)
	defer r.Close()
	must(t, errors.Join(r.MkdirAll("from/data", 0o755), r.Mkdir("to", 0o755)))
	for _, to := range append(y.Links(), "data.aside") {
		err := r.take(r, "from/data", "to/data", func() {
			must(t, os.Rename(filepath.Join(y.In, "from/data"), filepath.Join(y.In, "from/data.aside")))
			must(t, os.Symlink(to, filepath.Join(y.In, "from/data")))
		})
		if berth.KindOf(err) != berth.Invalid {
			t.Errorf("a link to %s: %v", to, err)
		}
		if _, err := r.Lstat("to/data"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a link to %s was taken: %v", to, err)
		}
		must(t, os.Rename(filepath.Join(y.In, "from/data.aside"), filepath.Join(y.In, "from/data")))
	}
	y.Untouched(t, "taken")
	must(t, r.Take(r, "from/data", "to/data"))
}

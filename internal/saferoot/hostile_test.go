package saferoot

import (
	"testing"

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

package secretprovider

import (
	"os"
	"path/filepath"
	"testing"

	"berth/internal/hostile"
)

// Nothing but a program in the directory is a provider: no name leads elsewhere, and no
// link does.
func TestTheCorpusIsNoProvider(t *testing.T) {
	y := hostile.NewYard(t)
	p := &Providers{Dir: y.In}
	for _, n := range append(hostile.Names(), hostile.Odd()...) {
		if f, err := p.open(n); err == nil {
			_ = f.Close()
			t.Errorf("%.80q is a provider", n)
		}
	}
	for _, n := range y.Spread(t, y.In) {
		if f, err := p.open(n); err == nil {
			_ = f.Close()
			t.Errorf("%s is a provider", n)
		}
		if err := os.Remove(filepath.Join(y.In, n)); err != nil {
			t.Fatal(err)
		}
	}
	y.Untouched(t, "providers")
}

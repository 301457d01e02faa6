package consensus

import (
	"testing"
	"time"
)

// A write during which the machine stood still, as a laptop that is closed,
// does not hang: the disk had no time to end it. One that takes as long while
// the process runs does.
func TestAMachineThatStoodStillHasNoHungDisk(t *testing.T) {
	var g guard
	tick := func(n int) {
		for range n {
			g.passed(0, watchEvery)
		}
	}
	tick(3)
	end := g.begin()
	g.passed(0, time.Hour)
	if took := g.hung(); took > hangs {
		t.Errorf("after an hour of standing still a write has taken %s", took)
	}
	end()
	if took := g.hung(); took != 0 {
		t.Errorf("after its end it has taken %s", took)
	}
	defer g.begin()()
	tick(int(hangs/watchEvery) + 1)
	if took := g.hung(); took <= hangs {
		t.Errorf("after more than %s of looking a write has taken %s", hangs, took)
	}
	// A look that itself takes long, since the disk hangs, counts in full.
	g.begin()
	g.passed(2*hangs, watchEvery)
	if took := g.hung(); took <= hangs {
		t.Errorf("a look at the disk took %s, and the write %s", 2*hangs, took)
	}
}

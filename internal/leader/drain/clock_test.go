package drain_test

import (
	"testing"
	"time"

	"berth/internal/leader/drain"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// A clock that is put back makes no drain longer than its deadline: neither for
// the leader that saw it, nor for the next.
func TestAClockThatIsPutBack(t *testing.T) {
	w := newWorld(t)
	for _, line := range []string{"node n1", "node n2", "job sums type=batch", "a1 sums g[0] n1", "drain n1 deadline=1h"} {
		for _, l := range statetest.Lines(t, line) {
			w.line(l)
		}
	}
	now := w.now.Add(-24 * time.Hour)
	for _, c := range []*drain.Controller{w.c, drain.New([32]byte{2})} {
		do, again := c.Step(w.store.Snapshot(), now)
		if len(do) > 0 || again.Sub(now) > time.Hour {
			t.Fatalf("after the clock was put back: %d commands, again in %v", len(do), again.Sub(now))
		}
		if do, _ = c.Step(w.store.Snapshot(), now.Add(time.Hour-time.Second)); len(do) > 0 {
			t.Error("the drain is forced before its deadline")
		}
		do, _ = c.Step(w.store.Snapshot(), now.Add(time.Hour))
		if len(do) != 1 {
			t.Fatalf("an hour later there are %d commands", len(do))
		}
		if m, ok := do[0].(*state.MigrateAllocs); !ok || len(m.Allocs) != 1 {
			t.Errorf("%+v", do[0])
		}
	}
}

package events

import (
	"testing"
	"testing/synctest"
	"time"

	"berth"
	"berth/internal/state"
)

// What happened is counted for a minute, by namespace, each thing once.
func TestRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		alloc := func(space string, status berth.ClientStatus) *berth.Alloc {
			return &berth.Alloc{Job: &berth.Job{Namespace: space}, Client: status}
		}
		eval := func(s string) *berth.Eval { return &berth.Eval{Namespace: "a", Status: s} }
		b := &Buffer{}
		add := func(c ...state.Change) { b.minute.add(time.Now(), c) }
		sees := func(want Rates, spaces ...string) {
			t.Helper()
			got := b.LastMinute(func(n string) bool {
				for _, s := range spaces {
					if s == n {
						return true
					}
				}
				return false
			})
			if got != want {
				t.Errorf("in %v: got %+v, want %+v", spaces, got, want)
			}
		}
		pending, running, failed := alloc("a", berth.ClientPending), alloc("a", berth.ClientRunning), alloc("a", berth.ClientFailed)
		add(state.Change{New: pending, By: applyPlan}, state.Change{New: alloc("b", berth.ClientPending), By: applyPlan},
			state.Change{New: eval(berth.EvalPending)}, state.Change{Old: eval(berth.EvalPending), New: eval(berth.EvalComplete)})
		time.Sleep(30 * time.Second)
		add(state.Change{Old: pending, New: running, By: reportAllocs}, state.Change{Old: running, New: running, By: reportAllocs})
		add(state.Change{Old: running, New: failed, By: reportAllocs}, state.Change{Old: failed, By: reportAllocs})
		sees(Rates{Placed: 1, Started: 1, Failed: 1, Evaluated: 1}, "a")
		sees(Rates{Placed: 2, Started: 1, Failed: 1, Evaluated: 1}, "a", "b")
		sees(Rates{})
		time.Sleep(31 * time.Second)
		sees(Rates{Started: 1, Failed: 1}, "a", "b")
		time.Sleep(time.Minute)
		sees(Rates{}, "a", "b")
	})
}

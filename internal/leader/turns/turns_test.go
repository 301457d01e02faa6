package turns_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"berth"
	"berth/internal/leader/turns"
	_ "berth/internal/onethread"
	"berth/internal/schedule"
	"berth/internal/state"
	"berth/internal/state/statetest"
	"berth/op"
)

// world is a group of allocations that run.
type world struct {
	t      testing.TB
	store  *state.Store
	log    *statetest.Log
	m      *turns.Monitor
	allocs []*berth.Alloc
}

// newWorld returns a job with so many allocations, of which most restart at a time.
func newWorld(t testing.TB, count, most int) *world {
	store, log := statetest.New(t, statetest.AddNode(1, 40000, 40000))
	w := &world{t: t, store: store, log: log, m: turns.New(store)}
	log.Must(t, &state.SetNodeStatus{ID: statetest.ID[berth.Node](1), Status: berth.NodeReady, Now: 1})
	job := statetest.Job(t, fmt.Sprintf(`{"ID":"web","TaskGroups":[{"Name":"g","Count":%d,"Update":{"MaxParallel":%d,"HealthCheck":"task_states"}}]}`, count, max(count, most)))
	job.TaskGroups[0].Update.MaxParallel = most
	for range (count + most - 1) / most { // a deployment places so many at a time, and the next when they are healthy
		log.Must(t, statetest.Register(job, 1+int(store.Snapshot().Index)))
		for e := range store.Snapshot().OpenEvals(berth.EvalPending) {
			log.Must(t, schedule.Decide(store.Snapshot(), e, 0, time.Unix(1000, 0)).Plan)
		}
		for a := range store.Snapshot().AllocsOf(job.Key()) {
			yes := true
			w.report(a, berth.ClientRunning, &yes)
		}
	}
	for a := range store.Snapshot().AllocsOf(job.Key()) {
		w.allocs = append(w.allocs, a)
	}
	if len(w.allocs) != count {
		t.Fatalf("%d are placed, want %d", len(w.allocs), count)
	}
	return w
}

// report reports how an allocation fares.
func (w *world) report(a *berth.Alloc, how berth.ClientStatus, healthy *bool) {
	u := state.AllocUpdate{ID: a.ID, Client: how}
	if healthy != nil && a.Rest().DeploymentStatus == nil {
		u.Deployment = &berth.AllocDeploymentStatus{Healthy: healthy, Timestamp: time.Unix(1, 0)}
	}
	w.log.Must(w.t, &state.ReportAllocs{Node: a.NodeID, Updates: []state.AllocUpdate{u}, Now: 1})
}

// wants asks for a turn, and fails the test if the answer is another.
func (w *world) wants(i int, given bool, waits ...string) {
	w.t.Helper()
	a := w.m.Tell(w.allocs[i].ID, op.TurnWanted)
	if a.Given != given || !given && a.Again <= 0 {
		w.t.Errorf("allocation %d: %+v, want given %v", i, a, given)
	}
	for _, text := range waits {
		if !strings.Contains(a.Waits, text) {
			w.t.Errorf("allocation %d waits for %q, want %q", i, a.Waits, text)
		}
	}
}

func (w *world) tell(i int, how string) { w.m.Tell(w.allocs[i].ID, how) }

// As many as the update block says restart at a time; the next goes when one is
// healthy again.
func TestOneAfterAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 4, 2)
		w.wants(0, true)
		w.wants(1, true)
		w.wants(0, true) // its answer was lost
		w.wants(2, false, w.allocs[0].ID.Short(), "restarts")
		w.tell(0, op.TurnTaken)
		w.tell(0, op.TurnOver)
		w.wants(2, true)
		w.wants(3, false, "restarts")
		w.tell(1, op.TurnOver)
		w.wants(3, true)
	})
}

// After a failure nobody gets a turn but the one that failed: with newer data, or
// because a person restarts it.
func TestAFailureStopsTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3, 2)
		w.wants(0, true)
		w.tell(0, op.TurnFailed)
		w.wants(1, false, w.allocs[0].ID.Short(), "failed after its restart")
		time.Sleep(turns.Lease - time.Second)
		w.tell(0, op.TurnFailed)
		time.Sleep(turns.Lease - time.Second)
		w.wants(1, false, "failed after its restart")
		w.wants(0, true)
		w.wants(1, true)
		w.tell(0, op.TurnOver)
		w.wants(2, true)
	})
}

// One that ended and has no replacement counts, and so does a replacement that is
// not known to be healthy.
func TestUnhealthyAllocationsCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3, 1)
		w.wants(0, true)
		w.report(w.allocs[0], berth.ClientFailed, nil)
		w.wants(1, false, w.allocs[0].ID.Short(), "is not healthy")
		for e := range w.store.Snapshot().OpenEvals(berth.EvalPending) {
			w.log.Must(t, schedule.Decide(w.store.Snapshot(), e, 0, time.Unix(9000, 0)).Plan)
		}
		var next *berth.Alloc
		for a := range w.store.Snapshot().AllocsOf(w.allocs[0].Key()) {
			if a.Rest().Previous == w.allocs[0].ID {
				next = a
			}
		}
		if next == nil {
			t.Skip("the replacement comes later")
		}
		w.wants(1, false, next.ID.Short())
		w.report(next, berth.ClientRunning, nil)
		w.wants(1, false, next.ID.Short(), "is not healthy")
		yes := true
		w.report(next, berth.ClientRunning, &yes)
		w.wants(1, true)
	})
}

// A turn of which nothing is heard is over after its time.
func TestSilentTurnsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2, 1)
		w.wants(0, true)
		time.Sleep(turns.Lease - time.Second)
		w.wants(1, false)
		time.Sleep(2 * time.Second)
		w.wants(1, true)
	})
}

// A new leader gives no turn before it has heard of those that are taken; a group
// that is newer than its term has none.
func TestANewLeaderListensFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3, 1)
		w.wants(0, true)
		w.m = turns.New(w.store)
		w.wants(1, false, "new leader")
		time.Sleep(op.TurnRenewal)
		w.tell(0, op.TurnTaken)
		time.Sleep(turns.Lease - op.TurnRenewal)
		w.wants(1, false, w.allocs[0].ID.Short())
		w.tell(0, op.TurnOver)
		w.wants(1, true)
		young := newWorld(t, 2, 1)
		young.wants(0, true)
	})
}

// Whatever agents tell, no more than the update block allows have a turn, and after
// a failure no healthy one gets one.
func TestTurnsAreBounded(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		count, most := rapid.IntRange(1, 5).Draw(rt, "count"), rapid.IntRange(1, 3).Draw(rt, "most")
		w := newWorld(t, count, most)
		has := map[int]string{}
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			i := rapid.IntRange(0, count-1).Draw(rt, "allocation")
			how := rapid.SampledFrom([]string{op.TurnWanted, op.TurnFailed, op.TurnOver}).Draw(rt, "how")
			if how == op.TurnFailed && has[i] != op.TurnTaken {
				continue
			}
			failed := 0
			for _, x := range has {
				if x == op.TurnFailed {
					failed++
				}
			}
			a := w.m.Tell(w.allocs[i].ID, how)
			switch {
			case how != op.TurnWanted:
				has[i] = how
			case a.Given && failed > 0 && (has[i] == "" || has[i] == op.TurnOver):
				rt.Fatalf("a healthy one has a turn after a failure")
			case a.Given:
				has[i] = op.TurnTaken
			}
			taken := 0
			for _, x := range has {
				if x == op.TurnTaken {
					taken++
				}
			}
			if taken > most {
				rt.Fatalf("%d have a turn, at most %d may", taken, most)
			}
		}
	})
}

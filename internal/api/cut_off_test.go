package api

import (
	"math/rand/v2"
	"testing"
	"time"

	"berth"
	"berth/internal/schedule"
	"berth/internal/state"
	"berth/internal/state/statetest"
	"berth/op"
)

// A batch allocation that its agent stopped, because it reached no server, has
// not finished: the report raises one evaluation for each job, and that places
// the instance again. One that has completed raises none.
func TestABatchAllocationThatWasCutOffIsPlacedAgain(t *testing.T) {
	for _, c := range []struct {
		name, event string
		evals       int
	}{
		{"cut off", berth.EventCutOff, 1},
		{"completed", berth.EventTerminated, 0},
	} {
		store, log := statetest.New(t, &state.BeginTerm{Term: 3}, statetest.AddNode(1, 4000, 4000))
		now := time.Unix(1_000_000, 0)
		decide := func() (n int) {
			for e := range store.Snapshot().OpenEvals(berth.EvalPending) {
				log.Must(t, schedule.Decide(store.Snapshot(), e, 0, now).Plan)
				n++
			}
			return n
		}
		log.Must(t, statetest.Register(statetest.Job(t, `{"ID": "job", "Type": "batch", "TaskGroups": [
			{"Name": "g", "Count": 2, "Disconnect": {"StopOnClientAfter": 60000000000}}]}`), 100))
		decide()
		in := &op.ReportAllocs{}
		for a := range store.Snapshot().Allocs() {
			in.Alloc = append(in.Alloc, &op.AllocReport{ID: a.ID, NodeID: a.NodeID, ClientStatus: berth.ClientComplete, TaskStates: map[string]*berth.TaskState{
				"task": {State: berth.TaskDead, FinishedAt: now, Events: []berth.TaskEvent{berth.NewTaskEvent(c.event, now)}},
			}})
		}
		report := func() {
			w := &Write{Snapshot: store.Snapshot(), Now: now, Rand: rand.NewChaCha8([32]byte{byte(log.Tip().Index)}), Options: op.Write{AuthToken: "secret-1"}}
			ch, err := reportAllocs(w, in)
			if err != nil {
				t.Fatal(err)
			}
			log.Must(t, ch.Commands...)
		}
		report()
		if n := decide(); n != c.evals || store.Snapshot().Count(state.Allocs) != 2+2*c.evals {
			t.Errorf("%s: %d evaluations, and then %d allocations", c.name, n, store.Snapshot().Count(state.Allocs))
		}
		report() // again, because its answer was lost
		if n := decide(); n != 0 {
			t.Errorf("%s: the same report again raises %d evaluations", c.name, n)
		}
	}
}

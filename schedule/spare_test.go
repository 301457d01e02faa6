package schedule_test

import (
	"fmt"
	"testing"
	"time"

	"berth"
	"berth/schedule"
	"berth/state"
	"berth/state/statetest"
)

// update is a cluster on which the first version of a job runs, as many
// instances as have room, and the decision about the second.
func update(t *testing.T, first, second string, nodes ...*state.RegisterNode) (*state.Store, schedule.Decision) {
	t.Helper()
	store, log := statetest.New(t)
	for _, n := range nodes {
		log.Must(t, n)
	}
	decide := func(text string, eval int) schedule.Decision {
		log.Must(t, statetest.Register(statetest.Job(t, text), eval))
		s := store.Snapshot()
		return schedule.Decide(s, s.Eval(statetest.ID[berth.Eval](eval)), 0, time.Unix(9, 0))
	}
	log.Must(t, decide(first, 1).Plan)
	for a := range store.Snapshot().Allocs() {
		log.Must(t, &state.ReportAllocs{Node: a.NodeID, Updates: []state.AllocUpdate{{ID: a.ID, Client: berth.ClientRunning}}, Now: 2})
	}
	return store, decide(second, 2)
}

func sized(cpu, count int) string {
	return fmt.Sprintf(`{"ID":"web","TaskGroups":[{"Name":"g","Count":%d,"Resources":{"CPU":%d,"MemoryMB":100}}]}`, count, cpu)
}

// A version that has no place anywhere, whatever ends, leaves the old one
// alone: it runs on, and the evaluation waits for room.
func TestAVersionWithoutAPlaceStopsNothing(t *testing.T) {
	_, d := update(t, sized(800, 2), sized(5000, 2), statetest.AddNode(1, 2000, 4000))
	if len(d.Plan.Stop) != 0 || len(d.Plan.Place) != 0 {
		t.Errorf("stops %v, places %v", d.Plan.Stop, d.Plan.Place)
	}
	if d.Plan.End.Blocked == nil || d.Plan.End.Queued["g"] != 2 {
		t.Errorf("%+v", d.Plan.End)
	}
}

// Where the end of the old version makes the room that the new one needs, the
// old one is stopped, and the new one waits for that.
func TestAVersionThatWaitsForTheOldOneToEnd(t *testing.T) {
	_, d := update(t, sized(1500, 1), sized(1800, 1), statetest.AddNode(1, 2000, 4000))
	if len(d.Plan.Stop) != 1 || len(d.Plan.Place) != 0 || d.Plan.End.Blocked == nil {
		t.Errorf("stops %v, places %v, ends %+v", d.Plan.Stop, d.Plan.Place, d.Plan.End)
	}
}

// Of several instances as many are stopped as the new version has room for
// when they have ended.
func TestAsManyAreStoppedAsHaveAPlace(t *testing.T) {
	_, d := update(t, sized(1000, 4), sized(1500, 4), statetest.AddNode(1, 2000, 4000), statetest.AddNode(2, 2000, 4000))
	if len(d.Plan.Stop) != 2 || len(d.Plan.Place) != 0 || d.Plan.End.Queued["g"] != 4 {
		t.Errorf("stops %v, places %v, ends %+v", d.Plan.Stop, d.Plan.Place, d.Plan.End)
	}
}

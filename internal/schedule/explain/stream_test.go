package explain

import (
	"testing"
	"time"

	"berth"
	"berth/internal/state"
	"berth/internal/state/statetest"
	"berth/op"
)

// What a stream job comes to is counted by its plan: which processing elements
// are new, are launched anew because what they are changes, stay, and go.
func TestElementsOfAPlan(t *testing.T) {
	store, log := statetest.New(t)
	job := func(width, cpu int) *berth.Job { return statetest.Job(t, statetest.StreamText("flow", width, cpu, "")) }
	want := func(what string, j *berth.Job, src, work op.GroupChanges) {
		t.Helper()
		d, err := Plan(store.Snapshot(), &state.RegisterJob{Job: j, Now: time.Unix(9, 0).UnixNano()}, time.Unix(9, 0))
		if err != nil {
			t.Fatal(what, err)
		}
		if d.Changes["src"] != src || d.Changes["work"] != work {
			t.Errorf("%s: %+v", what, d.Changes)
		}
		if u := d.Desired["work"]; int(u.Place+u.DestructiveUpdate) != work.Created || int(u.Stop+u.DestructiveUpdate) != work.Destroyed || int(u.Ignore) != work.Kept {
			t.Errorf("%s: %+v", what, u)
		}
	}
	want("new", job(3, 100), op.GroupChanges{Created: 1}, op.GroupChanges{Created: 3})

	log.Must(t, &state.RegisterJob{Job: job(3, 100), Now: 1})
	plan, err := statetest.Planned(store.Snapshot(), store.Snapshot().StreamOf(berth.JobKey{Namespace: "default", ID: "flow"}))
	if err != nil {
		t.Fatal(err)
	}
	row := store.Snapshot().StreamOf(berth.JobKey{Namespace: "default", ID: "flow"})
	c := &state.PlanSubmission{Key: row.Key, UID: row.UID, Plan: plan, Now: 2}
	log.Must(t, c)
	want("the same", job(3, 100), op.GroupChanges{Kept: 1}, op.GroupChanges{Kept: 3})
	want("other work", job(3, 200), op.GroupChanges{Kept: 1}, op.GroupChanges{Created: 3, Destroyed: 3})
	want("narrower", job(1, 100), op.GroupChanges{Created: 1, Destroyed: 1}, op.GroupChanges{Created: 1, Destroyed: 3})
}

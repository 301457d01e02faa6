package state_test

import (
	"testing"

	"berth"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// A job that was stopped waits for no place any more: at once, not when an
// evaluation has seen that.
func TestNothingOfAStoppedJobWaits(t *testing.T) {
	tx := state.Begin(state.New().Snapshot())
	web := berth.JobKey{Namespace: berth.DefaultNamespace, ID: "web"}
	for _, c := range []state.Command{
		statetest.Register(statetest.Job(t, `{"ID":"web","TaskGroups":[{"Name":"g","Count":2}]}`), 1),
		&state.ApplyPlan{Eval: statetest.ID[berth.Eval](1), Now: 2, End: &state.EvalEnd{
			Status: berth.EvalComplete, Queued: map[string]int{"g": 2}, Failed: map[string]*berth.AllocMetric{"g": {}}, Missed: &berth.Missed{},
			Blocked: &state.NewEval{ID: statetest.ID[berth.Eval](2), TriggeredBy: berth.TriggerQueuedAllocs},
		}},
	} {
		if r := tx.Apply(c); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	if n := tx.Summary(web).Groups[0].Queued; n != 2 {
		t.Fatalf("%d wait before the job is stopped", n)
	}
	stop := &state.StopJob{Key: web, Now: 3}
	stop.Eval.ID, stop.Eval.TriggeredBy, stop.Eval.Cause = statetest.ID[berth.Eval](3), berth.TriggerJobDeregister, berth.Cause{Kind: berth.CauseUser}
	if r := tx.Apply(stop); r.Err != nil {
		t.Fatal(r.Err)
	}
	if n := tx.Summary(web).Groups[0].Queued; n != 0 {
		t.Errorf("%d wait after the job was stopped", n)
	}
}

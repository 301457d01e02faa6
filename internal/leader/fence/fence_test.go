package fence_test

import (
	"testing"
	"time"

	"berth"
	"berth/internal/leader"
	"berth/internal/leader/fence"
	"berth/internal/schedule"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// world is a job that may run for a minute without servers, on a node, and
// another node.
type world struct {
	*statetest.Log
	t    *testing.T
	job  *berth.Job
	ctrl *fence.Controller
	now  time.Time
}

func newWorld(t *testing.T) *world {
	_, log := statetest.New(t, &state.BeginTerm{Term: 3})
	w := &world{Log: log, t: t, ctrl: fence.New([32]byte{1}), now: time.Unix(1000, 0)}
	w.job = statetest.Job(t, `{"ID": "job", "TaskGroups": [{"Name": "g", "Disconnect": {"StopOnClientAfter": 60000000000}}]}`)
	log.Must(t, statetest.AddNode(1, 1000, 1000), statetest.Register(w.job, 100))
	w.decide()
	log.Must(t, statetest.AddNode(2, 1000, 1000))
	log.Must(t, &state.ReportAllocs{Node: statetest.ID[berth.Node](1), Updates: []state.AllocUpdate{{ID: w.alloc().ID, Client: berth.ClientRunning}}})
	return w
}

// alloc returns the oldest allocation.
func (w *world) alloc() (oldest *berth.Alloc) {
	for a := range w.Tip().Allocs() {
		if oldest == nil || a.CreateIndex < oldest.CreateIndex {
			oldest = a
		}
	}
	return oldest
}

// decide decides what is pending.
func (w *world) decide() {
	w.t.Helper()
	for e := range w.Tip().OpenEvals(berth.EvalPending) {
		w.Must(w.t, schedule.Decide(w.Tip(), e, 0, w.now).Plan)
	}
}

// step lets the controller do what it wants, and returns the number of
// evaluations and when it wants to look again.
func (w *world) step() (evals int, again time.Duration) {
	w.t.Helper()
	do, at := w.ctrl.Step(w.Tip(), w.now)
	leader.Stamp(w.Tip().Term, do...)
	for _, c := range do {
		evals += len(c.(*state.CreateEvals).Evals)
	}
	w.Must(w.t, do...)
	if at.IsZero() {
		return evals, 0
	}
	return evals, at.Sub(w.now)
}

func (w *world) down() {
	w.Must(w.t, &state.SetNodeStatus{ID: statetest.ID[berth.Node](1), Status: berth.NodeDown, Seed: [16]byte{9}, Now: w.now.UnixNano()})
	w.decide()
}

// What may run for a minute without servers is replaced when it has certainly
// stopped, not before, and by a leader that began in between too.
func TestASuccessorWaitsUntilItsPredecessorHasStopped(t *testing.T) {
	w := newWorld(t)
	if evals, again := w.step(); evals != 0 || again != 0 {
		t.Errorf("while the node is up: %d evaluations, again after %v", evals, again)
	}
	w.down()
	if a := w.alloc(); a.Client != berth.ClientRunning || w.Tip().Count(state.Allocs) != 1 {
		t.Fatalf("%s at once, and %d allocations", a.Client, w.Tip().Count(state.Allocs))
	}
	const wait = 61*time.Second + 5*time.Second + berth.FenceMargin // a second for rounding, and the kill timeout
	if evals, again := w.step(); evals != 0 || again != wait {
		t.Errorf("%d evaluations, again after %v, want %v", evals, again, wait)
	}
	w.now = w.now.Add(30 * time.Second)
	w.ctrl = fence.New([32]byte{2})
	if evals, again := w.step(); evals != 0 || again != wait-30*time.Second {
		t.Errorf("the next leader: %d evaluations, again after %v", evals, again)
	}
	w.now = w.now.Add(wait - 30*time.Second)
	if evals, again := w.step(); evals != 1 || again == 0 {
		t.Errorf("%d evaluations, again after %v", evals, again)
	}
	if evals, _ := w.step(); evals != 0 {
		t.Errorf("%d evaluations while one is being decided", evals)
	}
	w.decide()
	if a := w.alloc(); a.Client != berth.ClientLost || w.Tip().Count(state.Allocs) != 2 {
		t.Errorf("%s, and %d allocations", a.Client, w.Tip().Count(state.Allocs))
	}
	if evals, again := w.step(); evals != 0 || again != 0 {
		t.Errorf("at the end: %d evaluations, again after %v", evals, again)
	}
}

// A foreground deletion holds on until then, and ends by itself.
func TestADeletionWaitsUntilWhatItDeletesHasStopped(t *testing.T) {
	w := newWorld(t)
	w.down()
	w.Must(t, &state.DeleteJob{Key: w.job.Key(), Policy: berth.Foreground, Intent: berth.IntentUser, Now: 5,
		Eval: state.EvalSeed{ID: statetest.ID[berth.Eval](500), TriggeredBy: berth.TriggerJobDeregister, Cause: berth.Cause{Kind: berth.CauseUser}}})
	w.decide()
	uid := w.Tip().Job(w.job.Key()).UID
	if n := w.Tip().Blocking(w.job.Key(), uid); n != 1 {
		t.Fatalf("%d allocations hold the job, want 1", n)
	}
	_, again := w.step()
	w.now = w.now.Add(again)
	if evals, _ := w.step(); evals != 1 {
		t.Errorf("%d evaluations", evals)
	}
	w.decide()
	if n := w.Tip().Blocking(w.job.Key(), uid); n != 0 || w.Tip().Count(state.Allocs) != 1 {
		t.Errorf("%d allocations hold the job, of %d", n, w.Tip().Count(state.Allocs))
	}
}

// A node that is heard again has nothing to wait for.
func TestANodeThatIsBackIsLeftAlone(t *testing.T) {
	w := newWorld(t)
	w.down()
	_, again := w.step()
	w.Must(t, &state.SetNodeStatus{ID: statetest.ID[berth.Node](1), Status: berth.NodeReady, Seed: [16]byte{8}, Now: w.now.UnixNano()})
	w.decide()
	w.now = w.now.Add(again)
	if evals, again := w.step(); evals != 0 || again != 0 || w.alloc().Client != berth.ClientRunning {
		t.Errorf("%d evaluations, again after %v, %s", evals, again, w.alloc().Client)
	}
}

// A batch allocation that was cut off is placed again, though the evaluation
// that its report should have raised is lost. That one evaluation looked is
// enough, whatever became of it.
func TestAnAuditFindsWhatWasCutOff(t *testing.T) {
	w := newWorld(t)
	w.job = statetest.Job(t, `{"ID": "batch", "Type": "batch", "TaskGroups": [{"Name": "g", "Count": 1, "Disconnect": {"StopOnClientAfter": 60000000000}}]}`)
	w.Must(t, statetest.Register(w.job, 200))
	w.decide()
	cut := func() (id berth.AllocID) {
		for a := range w.Tip().AllocsOf(w.job.Key()) {
			if !a.Ended() {
				id = a.ID
				w.Must(t, &state.ReportAllocs{Node: a.NodeID, Updates: []state.AllocUpdate{{ID: a.ID, Client: berth.ClientComplete, Tasks: state.PackTaskStates(
					map[string]*berth.TaskState{"task": {State: berth.TaskDead, FinishedAt: w.now, Events: []berth.TaskEvent{berth.NewTaskEvent(berth.EventCutOff, w.now)}}})}}})
			}
		}
		return id
	}
	w.step()
	id := cut()
	w.now = w.now.Add(leader.Audit)
	if evals, _ := w.step(); evals != 1 {
		t.Fatalf("%d evaluations", evals)
	}
	if evals, _ := w.step(); evals != 0 {
		t.Errorf("%d evaluations while one is being decided", evals)
	}
	w.decide()
	if next := w.Tip().Alloc(id).Rest().Next; next.IsZero() {
		t.Fatal("it was not placed again")
	}
	// Nothing is owed for one that an evaluation looked at.
	cut()
	w.Must(t, &state.CreateEvals{Now: w.now.UnixNano(), Evals: []state.EvalFor{{Key: w.job.Key(), EvalSeed: state.EvalSeed{
		ID: statetest.ID[berth.Eval](300), TriggeredBy: berth.TriggerAllocFailure, Cause: berth.Cause{Kind: berth.CauseSystem}}}}})
	w.Must(t, &state.CancelEvals{IDs: []berth.EvalID{statetest.ID[berth.Eval](300)}, Now: w.now.UnixNano()})
	w.now = w.now.Add(leader.Audit)
	if evals, _ := w.step(); evals != 0 {
		t.Errorf("%d evaluations after one", evals)
	}
}

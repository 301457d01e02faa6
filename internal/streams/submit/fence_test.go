package submit_test

import (
	"testing"
	"time"

	"berth"
	"berth/internal/state"
)

// lose marks the node of a job's first running allocation as down, as if its
// agent were frozen: what runs there goes on.
func (w *world) lose(k berth.JobKey) (left *berth.Alloc) {
	w.Helper()
	for a := range w.tip().AllocsOf(k) {
		if a.Client == berth.ClientRunning && (left == nil || a.CreateIndex < left.CreateIndex) {
			left = a
		}
	}
	if left == nil {
		w.Fatal("nothing runs")
	}
	w.do(&state.SetNodeStatus{ID: left.NodeID, Status: berth.NodeDown, Seed: [16]byte{77}, Now: w.now.UnixNano()})
	return left
}

// twice returns the names of which more than one allocation may be running.
func (w *world) twice(k berth.JobKey) (names []string) {
	seen := map[string]bool{}
	for a := range w.tip().AllocsOf(k) {
		if a.Ended() {
			continue
		}
		if seen[a.Name()] {
			names = append(names, a.Name())
		}
		seen[a.Name()] = true
	}
	return names
}

// A group that asks for it never runs twice, though the leader is lost in the
// middle of a submission and a node falls silent whose tasks go on: the next
// incarnation waits until the tasks of the first have certainly stopped.
func TestTheNextIncarnationWaitsForTasksOnASilentNode(t *testing.T) {
	w := newWorld(t, 4, ssd)
	k := w.register(telemetry(`{"Name": "sink",`, `{"Name": "sink", "Disconnect": {"StopOnClientAfter": 60000000000},`))
	first := w.row(k).UID
	for w.row(k).Phase == berth.PhaseSubmission { // until the first element runs
		running := false
		for a := range w.tip().AllocsOf(k) {
			running = running || a.Client == berth.ClientRunning
		}
		if running {
			break
		}
		w.step()
		w.schedule()
		w.agents()
	}
	left := w.lose(k)
	if left.Group.Name != "sink" {
		t.Fatalf("%s runs first", left.Name())
	}
	w.term()
	w.settle()
	if row := w.row(k); row.UID != first || w.tip().Deletion(k) == nil {
		t.Fatalf("the job is %v, and its first incarnation may still run", row.UID)
	}
	w.now = w.now.Add(left.Group.Fence() - 2*time.Second)
	w.settle()
	if row := w.row(k); row.UID != first {
		t.Errorf("the job is %v before the time is over", row.UID)
	}
	w.now = w.now.Add(5 * time.Second)
	w.settle()
	w.whole(k, 5, 1)
	if row := w.row(k); row.UID == first || row.Recovery.Count != 1 {
		t.Errorf("%v, %+v", row.UID, row.Recovery)
	}
}

// A processing element on a node that falls silent is launched again when its
// tasks have certainly stopped; one that does not ask for that, at once.
func TestALaunchWaitsForTasksOnASilentNode(t *testing.T) {
	for _, fenced := range []bool{true, false} {
		w := newWorld(t, 4, ssd)
		text := telemetry()
		if fenced {
			text = telemetry(`{"Name": "sink",`, `{"Name": "sink", "Disconnect": {"StopOnClientAfter": 60000000000},`)
		}
		k := w.register(text)
		w.settle()
		left := w.lose(k)
		w.settle()
		placed := func() (n int) {
			for a := range w.tip().AllocsOf(k) {
				if a.Name() == left.Name() && a.Live() && a.ID != left.ID {
					n++
				}
			}
			return n
		}
		if got := placed(); fenced && got != 0 || !fenced && got != 1 {
			t.Errorf("fenced %v: %d successors at once", fenced, got)
		}
		w.now = w.now.Add(2 * time.Minute)
		w.settle()
		if placed() != 1 || len(w.twice(k)) > 0 || w.tip().Alloc(left.ID).Client != berth.ClientLost {
			t.Errorf("fenced %v: %d successors after the time is over, %v twice", fenced, placed(), w.twice(k))
		}
	}
}

// An element whose agent stopped it because no server was reached has not
// completed: it is launched again, also if its policy is to let it end.
func TestWhatWasCutOffIsLaunchedAgain(t *testing.T) {
	w := newWorld(t, 4, ssd)
	k := w.register(telemetry(`{"Name": "sink",`, `{"Name": "sink", "Disconnect": {"StopOnClientAfter": 60000000000},`))
	w.settle()
	left := w.lose(k)
	w.do(&state.SetNodeStatus{ID: left.NodeID, Status: berth.NodeReady, Seed: [16]byte{78}, Now: w.now.UnixNano()})
	w.do(&state.ReportAllocs{Node: left.NodeID, Now: w.now.UnixNano(), Updates: []state.AllocUpdate{{ID: left.ID, Client: berth.ClientComplete, Tasks: state.PackTaskStates(
		map[string]*berth.TaskState{"main": {State: berth.TaskDead, FinishedAt: w.now, Events: []berth.TaskEvent{berth.NewTaskEvent(berth.EventCutOff, w.now)}}})}}})
	w.settle()
	w.whole(k, 5, 0)
}

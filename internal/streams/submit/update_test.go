package submit_test

import (
	"strings"
	"testing"
	"time"

	"berth"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// A region gets wider, and narrower: what has other peers is launched anew, what
// has none is left as it is, IDs are never used again, and what is not planned
// any more is swept kind by kind.
func TestWidth(t *testing.T) {
	w := newWorld(t, 6, ssd)
	alone := []string{`{"Name": "sink",`, `{"Name": "alone", "Stream": {}}, {"Name": "sink",`}
	k := w.register(telemetry(alone...))
	w.settle()
	before := w.pes(k)
	uid := w.row(k).UID
	w.did = nil
	w.register(telemetry(append(alone, `"Width": 3`, `"Width": 5`)...))
	w.settle()
	w.whole(k, 8, 0)
	if row := w.row(k); row.UID != uid || row.Generation != 1 {
		t.Errorf("%+v", row)
	}
	for _, pe := range []string{"alone[0]#4 x1", "sink[0]#5 x2", "source[0]#0 x2", "transform[2]#3 x2", "transform[3]#6 x1", "transform[4]#7 x1"} {
		if !strings.Contains(w.pes(k), pe) {
			t.Errorf("%s: want %s; before %s", w.pes(k), pe, before)
		}
	}
	w.did = nil
	w.register(telemetry(append(alone, `"Width": 3`, `"Width": 2`)...))
	w.settle()
	w.whole(k, 5, 0)
	got := w.history()
	if i := strings.Index(got, "collect"); i < 0 || got[i:] != `collect map[ProcessingElement:3]
collect map[Export:3]
collect map[Endpoint:3]
collect map[Config:3]
CompleteSubmission
` {
		t.Errorf("swept was\n%s", got)
	}
	w.register(telemetry(append(alone, `"Width": 3`, `"Width": 3`)...))
	w.settle()
	if !strings.Contains(w.pes(k), "transform[2]#8 x1") {
		t.Errorf("%s: the ID of transform[2] is given again", w.pes(k))
	}
}

// The leader is lost in the middle of an update. By default the next one goes on
// with it, and nothing is launched twice; a job can ask to begin anew.
func TestAnUpdateIsInterrupted(t *testing.T) {
	for _, how := range []string{berth.InterruptResume, berth.InterruptRecreate} {
		for at := 1; at < 20; at++ {
			w := newWorld(t, 6, ssd)
			policy := []string{`"Timeout": "5m"`, `"Timeout": "5m", "InterruptedUpdate": "` + how + `"`}
			k := w.register(telemetry(policy...))
			w.settle()
			uid := w.row(k).UID
			w.register(telemetry(append(policy, `"Width": 3`, `"Width": 5`)...))
			n := 0
			w.after = func(state.Command) bool { n++; return n == at }
			for n < at && (w.step() || w.schedule() || w.agents()) {
			}
			w.after = nil
			done := w.row(k).Phase == berth.PhaseSubmitted
			w.term()
			w.settle()
			w.whole(k, 7, 0)
			row := w.row(k)
			if anew := row.UID != uid; anew != (how == berth.InterruptRecreate && !done) {
				t.Errorf("%s, step %d, done %t: it began anew: %t", how, at, done, anew)
			}
			most := uint64(2)
			if row.UID != uid {
				most = 1
			}
			for pe := range w.tip().ResourcesOf(row.UID, berth.KindPE) {
				if pe.PE.Launch > most {
					t.Errorf("%s, step %d: %s was launched %d times", how, at, pe.Name, pe.PE.Launch)
				}
			}
		}
	}
}

// What a user registers in the middle of a submission waits until that is over;
// during a recovery it is what begins anew.
func TestAnUpdateMeanwhile(t *testing.T) {
	other := telemetry(`"Width": 3`, `"Width": 1`)
	w := newWorld(t, 4, ssd)
	k := w.register(telemetry())
	for range 10 {
		w.step()
		w.schedule()
	}
	w.register(other)
	w.settle()
	w.whole(k, 3, 0)
	if row := w.row(k); row.Generation != 1 || row.Version != 1 {
		t.Errorf("%+v", row)
	}

	w = newWorld(t, 4, ssd)
	k = w.register(telemetry())
	for range 10 {
		w.step()
		w.schedule()
	}
	w.term()
	w.step()
	w.register(other)
	w.settle()
	w.whole(k, 3, 1)
	if row := w.row(k); row.Generation != 0 || row.Version != 1 || row.Recovery.Count != 1 {
		t.Errorf("%+v", row)
	}
}

// ends reports of what a processing element runs that it ended.
func (w *world) ends(k berth.JobKey, pe string, status berth.ClientStatus) {
	w.Helper()
	for a := range w.tip().AllocsOf(k) {
		if a.Name() == string(k.ID)+"."+pe && a.Live() {
			w.do(&state.ReportAllocs{Node: a.NodeID, Now: w.now.UnixNano(), Updates: []state.AllocUpdate{{ID: a.ID, Client: status}}})
			return
		}
	}
	w.Fatalf("%s does not run", pe)
}

func (w *world) alloc(k berth.JobKey, pe string) *berth.Alloc {
	for a := range w.tip().AllocsOf(k) {
		if a.Name() == string(k.ID)+"."+pe && a.Live() {
			return a
		}
	}
	w.Fatalf("%s does not run", pe)
	return nil
}

// What ends is launched again as the group's policy says.
func TestRestarts(t *testing.T) {
	policy := func(s string) []string {
		return []string{`"Isolated": true}`, `"Isolated": true}, "Policy": {` + s + `}`}
	}
	user := func(w *world, k berth.JobKey) {
		w.do(&state.StopAlloc{ID: w.alloc(k, "sink[0]").ID, Eval: w.seed(berth.TriggerAllocStop), Now: 1})
	}
	failed := func(w *world, k berth.JobKey) { w.ends(k, "sink[0]", berth.ClientFailed) }
	completed := func(w *world, k berth.JobKey) { w.ends(k, "sink[0]", berth.ClientComplete) }
	down := func(w *world, k berth.JobKey) {
		w.do(&state.SetNodeStatus{ID: w.alloc(k, "sink[0]").NodeID, Status: berth.NodeDown, Now: 7, Seed: [16]byte{7}})
	}
	drain := func(w *world, k berth.JobKey) {
		a := w.alloc(k, "sink[0]")
		w.do(&state.UpdateDrain{ID: a.NodeID, Spec: &berth.DrainSpec{Deadline: time.Hour}, Seed: [16]byte{8}, Now: 7},
			&state.MigrateAllocs{Node: a.NodeID, Allocs: []berth.AllocID{a.ID}, Seed: [16]byte{9}, Now: 8})
	}
	for _, x := range []struct {
		name   string
		policy []string
		do     func(*world, berth.JobKey)
		why    string
	}{
		{"failed", nil, failed, "failed"},
		{"failed, and stays", policy(`"RestartFailed": false`), failed, ""},
		{"completed", nil, completed, ""},
		{"completed, and again", policy(`"RestartCompleted": true`), completed, "completed"},
		{"stopped by a user", nil, user, "user"},
		{"stopped by a user, and stays", policy(`"RestartDeleted": false`), user, ""},
		{"its node is down", policy(`"RestartFailed": false, "RestartDeleted": false`), down, "lost"},
		{"its node is drained", policy(`"RestartFailed": false, "RestartDeleted": false`), drain, "drain"},
	} {
		t.Run(x.name, func(t *testing.T) {
			w := newWorld(t, 5, ssd)
			k := w.register(telemetry(x.policy...))
			w.settle()
			row := w.row(k)
			w.did = nil
			x.do(w, k)
			w.settle()
			w.now = w.now.Add(time.Minute) // what fails at once rests
			w.settle()
			want := "launch telemetry.sink[0] " + x.why
			if got := w.history(); x.why == "" && strings.Contains(got, "launch") || x.why != "" && strings.Count(got, want) != 1 {
				t.Errorf("it did\n%s", got)
			}
			now := w.row(k)
			if now.Phase != berth.PhaseSubmitted || now.UID != row.UID || now.Generation != 0 {
				t.Errorf("%+v", now)
			}
			if x.why != "" && !strings.Contains(w.pes(k), "sink[0]#4 x2 n") {
				t.Errorf("%s", w.pes(k))
			}
		})
	}
}

// Whatever a user deletes of a job that is submitted is made again under another
// UID. A processing element goes on counting, and is placed when what ran of it
// has ended.
func TestWhatWasDeletedIsMadeAgain(t *testing.T) {
	w := newWorld(t, 4, ssd)
	k := w.register(telemetry())
	w.settle()
	for _, kind := range berth.StreamKinds {
		var r *berth.Object
		for r = range w.tip().ResourcesOf(w.row(k).UID, kind) {
			break
		}
		if r == nil {
			continue
		}
		w.did = nil
		w.do(&state.DeleteResource{UID: r.UID, Propagation: berth.Background, Now: 1})
		w.silent = true
		w.settle()
		if r.PE != nil {
			for a := range w.tip().AllocsOf(k) {
				if a.Name() == r.Name && a.Wanted() {
					t.Errorf("%s is placed before what it stands for has ended", r.Name)
				}
			}
		}
		w.silent = false
		w.settle()
		now := w.tip().ResourceNamed(r.Owner, kind, r.Name)
		if now == nil || now.UID == r.UID || now.PE != nil && now.PE.Launch != 2 {
			t.Errorf("%s: %+v after %+v", kind, now, r)
		}
	}
	if w.row(k).Phase != berth.PhaseSubmitted {
		t.Errorf("phase %s", w.row(k).Phase)
	}
	w.whole(k, 5, 0)
}

// Two jobs want the same nodes alone: the second waits for the first, also while
// that is recovered, and never shares one with it.
func TestExclusivePools(t *testing.T) {
	alone := []string{`"Size": 2`, `"Size": 2, "Mode": "exclusive"`, `{"Isolated": true}`, `{"Pool": "edge"}`, `"Placement": {"Colocate"`, `"Placement": {"Pool": "edge", "Colocate"`}
	w := newWorld(t, 2, ssd)
	a := w.register(telemetry(alone...))
	w.settle()
	w.whole(a, 5, 1)
	b := w.register(telemetry(append(alone, `"ID": "telemetry"`, `"ID": "other"`)...))
	w.settle()
	if row := w.row(b); row.Phase != berth.PhaseSubmission || w.tip().Dependents(row.UID) == 0 {
		t.Errorf("%+v", row)
	}
	w.do(&state.DeleteJob{Key: a, Policy: berth.Foreground, Intent: berth.IntentUser, Eval: w.seed(berth.TriggerJobDeregister), Now: 1})
	w.settle()
	w.now = w.now.Add(10 * time.Second)
	w.settle()
	w.whole(b, 5, 1)
}

// Nobody is where a pool keeps others out, though its nodes are empty.
func TestOthersKeepOut(t *testing.T) {
	w := newWorld(t, 3, ssd)
	alone := []string{`"Tags": ["ssd"], "Size": 2`, `"Hosts": ["n1", "n2"], "Mode": "exclusive"`}
	w.register(telemetry(append(alone, `"Isolated": true`, `"Pool": "edge"`)...))
	w.settle()
	b := w.register(`{"ID": "other", "Type": "stream", "Datacenters": ["dc1"], "Stream": {}, "TaskGroups": [{"Name": "g", "Stream": {}}]}`)
	w.settle()
	if n := w.alloc(b, "g[0]"); n.NodeID != statetest.ID[berth.Node](3) {
		t.Errorf("it is on %s", n.NodeID)
	}
}

package submit_test

import (
	"testing"
	"time"

	"berth"
	"berth/internal/state"
	"berth/internal/state/statetest"
	"berth/internal/streams/submit"
)

// What a new leader finds of a job, and what it makes of it: the classes of jobs
// at the beginning of a term.
func TestWhatATermFinds(t *testing.T) {
	submitted := func(w *world, k berth.JobKey) { w.settle() }
	halfway := func(w *world, k berth.JobKey) {
		for range 10 {
			w.step()
			w.schedule()
		}
	}
	for _, x := range []struct {
		class    string
		before   func(w *world, k berth.JobKey) // the term begins
		phase    string                         // of what there is at the end; "" is gone
		anew     bool                           // it is another incarnation
		version  uint64
		launches uint64 // of each processing element; 0: whatever
	}{
		{"accepted", func(*world, berth.JobKey) {}, berth.PhaseSubmitted, false, 0, 1},
		{"interrupted", halfway, berth.PhaseSubmitted, true, 0, 1},
		{"settled", submitted, berth.PhaseSubmitted, false, 0, 1},
		{"settled, and something happened while nobody led", func(w *world, k berth.JobKey) {
			w.settle()
			w.now = w.now.Add(time.Minute)
			w.ends(k, "sink[0]", berth.ClientFailed)
			for _, kind := range berth.StreamKinds {
				for r := range w.tip().ResourcesOf(w.row(k).UID, kind) {
					w.do(&state.DeleteResource{UID: r.UID, Propagation: berth.Background, Now: 1})
					break
				}
			}
		}, berth.PhaseSubmitted, false, 0, 0},
		{"interrupted, with a version that waits", func(w *world, k berth.JobKey) { // R10
			halfway(w, k)
			w.register(telemetry(`"Width": 3`, `"Width": 1`))
		}, berth.PhaseSubmitted, true, 1, 1},
		{"an update that is interrupted", func(w *world, k berth.JobKey) {
			w.settle()
			w.register(telemetry(`"Width": 3`, `"Width": 5`))
			w.step()
			w.step()
		}, berth.PhaseSubmitted, false, 1, 0},
		{"being deleted", func(w *world, k berth.JobKey) {
			halfway(w, k)
			w.do(&state.DeleteJob{Key: k, Policy: berth.Foreground, Intent: berth.IntentUser, Eval: w.seed(berth.TriggerJobDeregister), Now: 1})
		}, "", false, 0, 0},
		{"left in the background", func(w *world, k berth.JobKey) {
			halfway(w, k)
			w.do(&state.DeleteJob{Key: k, Policy: berth.Background, Intent: berth.IntentUser, Eval: w.seed(berth.TriggerJobDeregister), Now: 1})
		}, "", false, 0, 0},
		{"stopped", func(w *world, k berth.JobKey) {
			w.settle()
			w.do(&state.StopJob{Key: k, Eval: w.seed(berth.TriggerJobDeregister), Now: 1})
		}, berth.PhaseStopped, false, 1, 0},
		{"given up", func(w *world, k berth.JobKey) {
			halfway(w, k)
			w.do(&state.FailSubmission{Key: k, UID: w.row(k).UID, Error: "because", Now: 1})
		}, berth.PhaseFailed, false, 0, 0},
	} {
		t.Run(x.class, func(t *testing.T) {
			w := newWorld(t, 6, ssd)
			k := w.register(telemetry())
			first := w.row(k).UID
			x.before(w, k)
			w.term()
			w.settle()
			if x.phase == "" {
				if w.tip().Job(k) != nil || w.tip().StreamJob(first) != nil || w.tip().Dependents(first) > 0 {
					t.Error("something is left")
				}
				return
			}
			row := w.row(k)
			if row.Phase != x.phase || (row.UID != first) != x.anew || w.tip().Job(k).Version != x.version {
				t.Errorf("it is %+v, version %d", row, w.tip().Job(k).Version)
			}
			switch x.phase {
			case berth.PhaseSubmitted:
				w.whole(k, 2+w.tip().Job(k).Stream.Regions[0].Width, x.launches)
				if x.anew && row.Generation != 0 {
					t.Errorf("it begins anew at generation %d", row.Generation)
				}
			default:
				if w.tip().Dependents(row.UID) > 0 || w.tip().Summary(k).Live > 0 {
					t.Error("it has something left")
				}
			}
		})
	}
}

// R20: what goes after the submission has passed it is made again before the job
// is submitted, whatever it is.
func TestSomethingGoesInTheMiddle(t *testing.T) {
	for _, kind := range berth.StreamKinds {
		w := newWorld(t, 4, ssd)
		k := w.register(telemetry())
		for submit.Position(w.tip(), w.row(k)).State != submit.StateWaitAllocs {
			w.step()
		}
		var r *berth.Object
		for r = range w.tip().ResourcesOf(w.row(k).UID, kind) {
			break
		}
		if r == nil {
			continue // the job has none
		}
		w.do(&state.DeleteResource{UID: r.UID, Propagation: berth.Background, Now: 1})
		if s := submit.Position(w.tip(), w.row(k)); s.State == submit.StateWaitAllocs || len(s.Missing) == 0 || s.Missing[0] != kind+" "+r.Name {
			t.Errorf("without a %s it is in state %s, and lacks %v", kind, s.State, s.Missing)
		}
		w.settle()
		w.whole(k, 5, 1)
		if now := w.tip().ResourceNamed(r.Owner, kind, r.Name); now == nil || now.UID == r.UID || w.row(k).UID != r.Owner {
			t.Errorf("%+v is there for %+v", now, r)
		}
	}
}

// R23: whose time is up is given up at once if the job says so.
func TestTimeoutFails(t *testing.T) {
	w := newWorld(t, 2, ssd)
	k := w.register(telemetry(`"Timeout": "5m"`, `"Timeout": "5s", "OnTimeout": "fail"`, `{"Name": "sink"`, `{"Name": "sink", "Resources": {"MemoryMB": 20000}`))
	first := w.row(k).UID
	w.settle()
	w.now = w.now.Add(5 * time.Second)
	w.settle()
	if row := w.row(k); row.Phase != berth.PhaseFailed || row.UID != first || row.Recovery.Count != 0 || row.LastError == "" || w.tip().Dependents(first) > 0 || w.tip().Deletion(k) != nil {
		t.Errorf("%+v", row)
	}
}

// A clock that is put back makes no submission longer than its timeout from then
// on.
func TestTimeoutOfAClockThatIsPutBack(t *testing.T) {
	w := newWorld(t, 2, ssd)
	k := w.register(telemetry(`"Timeout": "5m"`, `"Timeout": "5s", "OnTimeout": "fail"`, `{"Name": "sink"`, `{"Name": "sink", "Resources": {"MemoryMB": 20000}`))
	w.settle()
	w.now = w.now.Add(-10 * time.Minute)
	_, again := w.ctrl.Step(w.tip(), w.now)
	if again.Sub(w.now) != 5*time.Second {
		t.Errorf("it looks again in %v, want 5s", again.Sub(w.now))
	}
	w.now = w.now.Add(4 * time.Second)
	w.settle()
	if row := w.row(k); row.Phase != berth.PhaseSubmission {
		t.Errorf("after 4 s it is in phase %s", row.Phase)
	}
	w.now = w.now.Add(time.Second)
	w.settle()
	if row := w.row(k); row.Phase != berth.PhaseFailed {
		t.Errorf("after 5 s it is in phase %s", row.Phase)
	}
}

// A job can ask that its first submission is gone on with when the leader is
// lost: after whichever step that is, nothing is launched twice.
func TestASubmissionIsResumed(t *testing.T) {
	for at := 1; ; at++ {
		w := newWorld(t, 4, ssd)
		k := w.register(telemetry(`"Timeout": "5m"`, `"Timeout": "5m", "Recovery": "resume"`))
		first := w.row(k).UID
		n := 0
		w.after = func(state.Command) bool { n++; return n == at }
		for n < at && (w.step() || w.schedule() || w.agents()) {
		}
		if n < at {
			return
		}
		w.after = nil
		w.term()
		if do := submit.Interrupted(w.tip(), w.now); do != nil {
			t.Errorf("step %d: it begins anew: %+v", at, do)
		}
		w.settle()
		w.whole(k, 5, 1)
		if row := w.row(k); row.UID != first || row.Recovery.Count != 0 || row.Generation != 0 {
			t.Errorf("step %d: %+v", at, row)
		}
	}
}

// A change that is missed, whatever the reason, is found ten minutes later.
func TestAnAuditFindsWhatWasMissed(t *testing.T) {
	w := newWorld(t, 4, ssd)
	k := w.register(telemetry())
	w.settle()
	r := w.tip().ResourceNamed(w.row(k).UID, berth.KindConfig, "telemetry.sink[0]")
	w.do(&state.DeleteResource{UID: r.UID, Propagation: berth.Background, Now: 1})
	w.ctrl.Miss(w.tip())
	w.did = nil
	if do, again := w.ctrl.Step(w.tip(), w.now); do != nil || again.IsZero() || again.After(w.now.Add(10*time.Minute)) {
		t.Fatalf("it did %v, and looks again at %v", do, again)
	}
	w.now = w.now.Add(10 * time.Minute)
	w.settle()
	if got := w.history(); got != "ensure Config 1\n" {
		t.Errorf("it did\n%s", got)
	}
	w.whole(k, 5, 1)
}

// A pool waits for its nodes while they are down: they match all the same, and
// the submission is not given up for that.
func TestPoolsWaitForNodesThatAreDown(t *testing.T) {
	w := newWorld(t, 3, ssd)
	node := func(n int, status string) {
		w.ids++
		w.do(&state.SetNodeStatus{ID: statetest.ID[berth.Node](n), Status: status, Now: w.now.UnixNano(), Seed: [16]byte{7, byte(w.ids)}})
	}
	node(2, berth.NodeDown)
	node(3, berth.NodeDown)
	k := w.register(telemetry())
	for range 3 {
		w.settle()
		if s := submit.Position(w.tip(), w.row(k)); s.State != submit.StateWaitHostPools {
			t.Fatalf("it is %s, %q, in state %s", w.row(k).Phase, w.row(k).LastError, s.State)
		}
		w.now = w.now.Add(10 * time.Second)
	}
	node(2, berth.NodeReady)
	node(3, berth.NodeReady)
	w.now = w.now.Add(10 * time.Second)
	w.settle()
	w.whole(k, 5, 1)
}

package submit_test

import (
	"fmt"
	"testing"
	"time"

	"berth"
	"berth/internal/state"
)

// whole checks a job that is submitted: everything is there once, nothing of
// another incarnation is.
func (w *world) whole(k berth.JobKey, pes int, launches uint64) {
	w.Helper()
	row := w.row(k)
	if row.Phase != berth.PhaseSubmitted {
		w.Fatalf("job %s is in phase %s: %s", k, row.Phase, w.tip().Incomplete(row))
	}
	n := 0
	for r := range w.tip().Resources() {
		if r.Job == k && r.Owner != row.UID {
			w.Errorf("%s %s is of another incarnation", r.Kind, r.Name)
		}
	}
	for pe := range w.tip().ResourcesOf(row.UID, berth.KindPE) {
		n++
		if launches > 0 && pe.PE.Launch != launches {
			w.Errorf("%s was launched %d times, want %d", pe.Name, pe.PE.Launch, launches)
		}
	}
	live := 0
	for a := range w.tip().AllocsOf(k) {
		if !a.Ended() {
			live++
		}
		if a.Live() && a.Job.UID != row.UID {
			w.Errorf("%s of another incarnation runs", a.Name())
		}
	}
	if n != pes || live != pes {
		w.Errorf("%d processing elements and %d allocations, want %d", n, live, pes)
	}
}

// The leader is lost after each step of a submission. Before the job is planned
// and after it is complete there is nothing to recover from; between, it begins
// anew, whole.
func TestALeaderIsLostAfterEachStep(t *testing.T) {
	for at := 1; ; at++ {
		w := newWorld(t, 4, ssd)
		k := w.register(telemetry())
		first := w.row(k).UID
		n := 0
		w.after = func(c state.Command) bool {
			n++
			return n == at
		}
		for n < at && (w.step() || w.schedule() || w.agents()) {
		}
		if n < at {
			if at < 10 {
				t.Errorf("a submission takes %d steps", n)
			}
			return
		}
		w.after = nil
		done := w.row(k).Phase == berth.PhaseSubmitted
		w.term()
		w.settle()
		t.Run(fmt.Sprint(at, " ", done), func(*testing.T) {
			w.whole(k, 5, 1)
			row := w.row(k)
			switch {
			case done && (row.UID != first || row.Recovery.Count != 0):
				w.Errorf("what was submitted begins anew: %+v", row.Recovery)
			case !done && (row.UID == first || row.Recovery.Count != 1 || row.Recovery.Predecessors[0] != first || row.Recovery.LastCause != state.RecoverInterrupted):
				w.Errorf("recovery %+v of %v after %v", row.Recovery, row.UID, first)
			}
		})
	}
}

// A leader that is lost before the job is planned leaves nothing to clean up.
func TestNothingWasPlanned(t *testing.T) {
	w := newWorld(t, 4, ssd)
	k := w.register(telemetry())
	first := w.row(k).UID
	w.term()
	w.settle()
	w.whole(k, 5, 1)
	if row := w.row(k); row.UID != first || row.Recovery.Count != 0 {
		t.Errorf("%+v", row)
	}
}

// The leader is lost after each step of a recovery, again and again.
func TestALeaderIsLostAfterEachStepOfARecovery(t *testing.T) {
	w := newWorld(t, 4, ssd)
	k := w.register(telemetry())
	for range 10 {
		w.step()
		w.schedule()
	}
	w.agents()
	first := w.row(k).UID
	w.term()
	for range 200 {
		w.after = func(c state.Command) bool { return true }
		if w.tip().Job(k) == nil {
			t.Fatal("the job is lost")
		}
		if row := w.row(k); row.UID != first {
			if row.Recovery.Count != 1 {
				t.Errorf("recovery %+v", row.Recovery)
			}
			break
		}
		w.step()
		w.term()
		w.schedule()
		w.agents()
	}
	w.after = nil
	w.settle()
	w.whole(k, 5, 1)
}

// The leader is lost after each step of a submission. It starts over three times
// and is gone on with then: each processing element is launched once, and the
// time that all of it took is told.
func TestARecoveryIsResumed(t *testing.T) {
	w := newWorld(t, 4, ssd)
	k := w.register(telemetry())
	for range 10 {
		w.step()
		w.schedule()
	}
	w.agents()
	w.term()
	var took []time.Duration
	for terms := 0; ; terms++ {
		if row := w.row(k); row.Phase == berth.PhaseSubmitted {
			break
		}
		if terms == 500 {
			t.Fatalf("it is not submitted after %d leaders: %+v", terms, w.row(k))
		}
		w.now = w.now.Add(time.Second)
		w.after = func(state.Command) bool { return true }
		w.step()
		w.schedule()
		w.agents()
		if w.row(k).Phase != berth.PhaseSubmitted {
			w.term()
			w.ctrl.OnSubmitted(func(d time.Duration) { took = append(took, d) })
			w.ctrl.Step(w.tip(), w.now) // it sees the submission in progress
		}
	}
	w.after = nil
	w.settle()
	w.whole(k, 5, 1)
	if row := w.row(k); row.Recovery.Count != 3 {
		t.Errorf("it was made anew %d times", row.Recovery.Count)
	}
	if since := w.now.Sub(time.Unix(0, w.tip().Job(k).SubmitTime)); len(took) != 1 || took[0] != since {
		t.Errorf("it is told to have taken %v, want %v", took, since)
	}
}

// A submission that takes too long begins anew, as often as the job says, and is
// then given up. Nothing is left of it, and a smaller job begins afresh.
func TestTimeout(t *testing.T) {
	w := newWorld(t, 2, ssd)
	k := w.register(telemetry(`"Timeout": "5m"`, `"Timeout": "5s", "MaxRetries": 2`, `{"Name": "sink"`, `{"Name": "sink", "Resources": {"MemoryMB": 20000}`))
	for try := range 3 {
		w.settle()
		if row := w.row(k); row.Phase != berth.PhaseSubmission {
			t.Fatalf("phase %s", row.Phase)
		}
		_, again := w.ctrl.Step(w.tip(), w.now)
		if again.Sub(w.now) != 5*time.Second {
			t.Errorf("it looks again in %v", again.Sub(w.now))
		}
		w.now = again
		w.settle()
		if try == 2 {
			break
		}
		// The next attempt begins a second later, and the one after it two seconds.
		if row := w.row(k); row.Recovery.Count != try+1 || row.Plan != nil {
			t.Fatalf("after timeout %d: %+v", try, row)
		}
		_, again = w.ctrl.Step(w.tip(), w.now)
		if want := time.Second << try; again.Sub(w.now) != want {
			t.Errorf("attempt %d begins in %v, want %v", try+1, again.Sub(w.now), want)
		}
		w.now = again
	}
	row := w.row(k)
	if row.Phase != berth.PhaseFailed || row.Recovery.Count != 2 || row.Recovery.LastCause != state.RecoverTimeout || row.LastError == "" {
		t.Errorf("%+v", row)
	}
	t.Log(row.LastError)
	if n := w.tip().Dependents(row.UID); n > 0 || w.tip().Summary(k).Live > 0 || w.tip().Job(k) == nil {
		t.Errorf("%d dependents are left", n)
	}
	w.did = nil
	w.register(telemetry())
	w.settle()
	w.whole(k, 5, 1)
}

// What can never be placed is given up at once.
func TestImpossible(t *testing.T) {
	for name, change := range map[string][]string{
		`host pool "edge": needs 9 nodes, but 4 match`:                       {`"Size": 2`, `"Size": 9`},
		`host pool "edge": needs 2 nodes, but 0 match`:                       {`"ssd"`, `"ssd", "tape"`},
		`host pool "edge": no node has the name or address "n7"`:             {`"Tags": ["ssd"], "Size": 2`, `"Hosts": ["n1", "n7"]`},
		`group "sink": placement host: no node has the name or address "n7"`: {`"Isolated": true`, `"Host": "n7"`, `{"Name": "edge", "Tags": ["ssd"], "Size": 2}`, ``, `"Pool": "edge", `, ``},
	} {
		w := newWorld(t, 4, ssd)
		k := w.register(telemetry(change...))
		w.settle()
		if row := w.row(k); row.Phase != berth.PhaseFailed || row.LastError != name || w.tip().Dependents(row.UID) != 0 {
			t.Errorf("want %s; it is %s, %q", name, row.Phase, row.LastError)
		}
	}
}

// A user deletes the job in the middle of its submission, or of its recovery:
// nothing follows it.
func TestAUserDeletesIt(t *testing.T) {
	for _, policy := range berth.Propagations {
		for _, recovering := range []bool{false, true} {
			if recovering && policy == berth.Orphan {
				continue // which is refused
			}
			w := newWorld(t, 4, ssd)
			k := w.register(telemetry())
			for range 10 {
				w.step()
				w.schedule()
			}
			uid := w.row(k).UID
			if recovering {
				w.term()
				w.step()
			}
			w.do(&state.DeleteJob{Key: k, Policy: policy, Intent: berth.IntentUser, Eval: w.seed(berth.TriggerJobDeregister), Now: 1})
			w.term()
			w.settle()
			if w.tip().Job(k) != nil || w.tip().StreamJob(uid) != nil || w.tip().Dependents(uid) > 0 {
				t.Errorf("%s, recovering %t: something is left", policy, recovering)
			}
			for a := range w.tip().Allocs() {
				if a.Ended() == a.Orphaned {
					t.Errorf("%s, recovering %t: %s is %s", policy, recovering, a.Name(), a.Client)
				}
			}
		}
	}
}

// A job that a user stops keeps nothing; started again it is another one.
func TestStopAndStart(t *testing.T) {
	w := newWorld(t, 4, ssd)
	k := w.register(telemetry())
	w.settle()
	first := w.row(k).UID
	w.do(&state.StopJob{Key: k, Eval: w.seed(berth.TriggerJobDeregister), Now: 1})
	w.settle()
	if row := w.row(k); row.Phase != berth.PhaseStopped || row.Plan != nil || w.tip().Dependents(first) > 0 || w.tip().Summary(k).Live > 0 {
		t.Errorf("%+v", row)
	}
	w.register(telemetry())
	w.settle()
	w.whole(k, 5, 1)
	if row := w.row(k); row.UID == first || row.Recovery.Count != 0 || row.StreamID != 2 {
		t.Errorf("%+v", row)
	}
}

//go:build faults

package supervise

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth"
)

// leased is a start of a shell script that may run without servers until then.
func (a *alloc) leased(script string, until time.Time, kill time.Duration) Start {
	st := a.sh(script)
	st.Until, st.KillTimeout = BootTime(until), kill
	return st
}

// What the lease allows goes on until the lease is over, and not longer, though
// nobody calls the supervisor any more.
func TestTasksAreStoppedWhenTheLeaseIsOver(t *testing.T) {
	a := newAlloc(t)
	later := time.Now().Add(time.Hour) // a busy machine may take long to start them
	a.start("gentle", 1, a.leased(`trap 'echo told; exit 3' TERM; echo up; while :; do sleep 0.01; done`, later, time.Hour))
	a.start("firm", 1, a.leased(`trap '' TERM; echo up; while :; do sleep 0.01; done`, later, 50*time.Millisecond))
	until := time.Now().Add(500 * time.Millisecond)
	must(t, a.Extend(t.Context(), until))
	x := a.wait("gentle", 1)
	// The shell may be told before it has set its trap.
	if !x.CutOff || x.At.Before(until) || x.Code != 3 && x.Signal != 15 {
		t.Errorf("%+v, want an exit after %v because the lease was over", x, until)
	}
	if x.Code == 3 && !strings.Contains(a.output("gentle", "stdout"), "told") {
		t.Errorf("it said %q", a.output("gentle", "stdout"))
	}
	if x := a.wait("firm", 1); !x.CutOff || x.Signal == 0 {
		t.Errorf("%+v, want one that was killed", x)
	}
	// The next agent is told why they ended.
	must(t, a.Close())
	a.open()
	if l, err := a.Find(t.Context(), "gentle", 1, 0); err != nil || l.Exit == nil || !l.Exit.CutOff {
		t.Errorf("%+v, %v", l, err)
	}
}

func TestALeaseCanBeExtended(t *testing.T) {
	a := newAlloc(t)
	if err := a.Extend(t.Context(), time.Now()); berth.KindOf(err) != berth.Unavailable {
		t.Errorf("without a supervisor: %v", err)
	}
	l := a.start("t", 1, a.leased("exec sleep 1000", time.Now().Add(time.Hour), time.Second))
	must(t, a.Extend(t.Context(), time.Now().Add(2*time.Hour)))
	must(t, a.Extend(t.Context(), time.Time{})) // without limit
	if !alive(l.PID) {
		t.Fatal("it was stopped while it might run")
	}
	must(t, a.Extend(t.Context(), time.Now().Add(-time.Second)))
	if x := a.wait("t", 1); !x.CutOff {
		t.Errorf("%+v", x)
	}
	// Nothing starts before servers are reached again.
	if _, err := a.Start(t.Context(), "t", 2, a.sh("exec sleep 1000")); berth.KindOf(err) != berth.Conflict {
		t.Errorf("started without a lease: %v", err)
	}
	if _, err := a.Start(t.Context(), "t", 3, a.leased("exec sleep 1000", time.Now().Add(-time.Second), 0)); berth.KindOf(err) != berth.Conflict {
		t.Errorf("started with a lease that is over: %v", err)
	}
	a.start("t", 4, a.leased("exec sleep 1000", time.Now().Add(time.Hour), 0))
}

// A task that is being stopped for another reason ends for that reason.
func TestALeaseHurriesAStopThatIsUnderWay(t *testing.T) {
	a := newAlloc(t)
	a.start("t", 1, a.leased(`trap '' TERM; touch ready; while :; do sleep 0.01; done`, time.Now().Add(time.Hour), 0))
	until(t, "it ignores the signal", func() bool {
		found, err := filepath.Glob(filepath.Join(a.path, "ready"))
		return err == nil && len(found) == 1
	})
	must(t, a.Stop(t.Context(), "t", 1, 15, time.Hour))
	must(t, a.Extend(t.Context(), time.Now().Add(-time.Second)))
	if x := a.wait("t", 1); x.CutOff || x.Signal != 9 {
		t.Errorf("%+v, want one that was killed and not cut off", x)
	}
}

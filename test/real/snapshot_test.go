package real

import (
	"path/filepath"
	"strings"
	"testing"
)

// A state that was saved is restored while an agent runs tasks: what has ended
// since runs again, what came since ends, and what is in both is not touched.
func TestARestoredState(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.agent("one", both)
	a.joined()
	job := func(name string) string {
		return w.file(name+".nomad", strings.ReplaceAll(web1, `job "web"`, `job "`+name+`"`))
	}
	a.good("job", "run", job("ends"))
	a.good("job", "run", job("stays"))
	ended, stays := a.settled("ends", 2), a.settled("stays", 2)
	file := filepath.Join(w.Dir, "one.snap")
	a.good("operator", "snapshot", "save", file)

	a.good("job", "run", job("comes"))
	came := a.settled("comes", 2)
	a.good("job", "stop", "ends")
	a.settled("ends", 0)

	// One byte is wrong: nothing happens.
	if out := a.berth("operator", "snapshot", "restore", w.file("bad.snap", "berth operator snapshot 1\n{}\n")); out.Code != 1 || !strings.Contains(out.Err, "damaged") {
		t.Error(out)
	}
	if amiss := same(came, a.settled("comes", 2)); amiss != "" {
		t.Error(amiss)
	}

	a.good("operator", "snapshot", "restore", file)
	again := a.settled("ends", 2)
	for id := range ended {
		if len(again[id]) > 0 {
			t.Errorf("an allocation that has ended, %s, runs", id)
		}
	}
	w.until("what came after the snapshot has ended", func() string {
		for id, pids := range w.tasks() {
			if came[id] != nil && len(pids) > 0 {
				return id + " runs"
			}
		}
		return ""
	})
	if amiss := same(stays, a.settled("stays", 2)); amiss != "" {
		t.Error(amiss)
	}
	if out := a.berth("job", "status", "comes"); out.Code != 1 {
		t.Error(out)
	}
	w.holds(a.good("operator", "snapshot", "inspect", "-check", file), "0 invariants violated")
}

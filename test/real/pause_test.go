package real

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A task that is paused is stopped, stays so when its agent is killed, and is
// started again when it is let run. Nothing counts it as a failure.
func TestPausedTasks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.agent("one", both)
	a.joined()
	a.good("job", "run", "-detach", w.file("web.nomad", group("service", "web", "", sh("exec sleep 1000"))))
	a.running("web")
	al := a.allocs("web")[0].ID
	w.holds(a.good("alloc", "pause", "-status", al), "scheduled")
	w.holds(a.good("alloc", "pause", al), "its task is paused")
	gone := func(what string) {
		t.Helper()
		w.until(what, func() string {
			if left := w.tasks()[al]; len(left) > 0 {
				return fmt.Sprint(left)
			}
			if s := a.allocs("web")[0]; s.ClientStatus != "pending" {
				return s.ClientStatus
			}
			return ""
		})
	}
	gone("it is stopped")
	w.holds(a.good("alloc", "status", al), "Task is paused: somebody paused it")
	a.again()
	a.joined()
	w.holds(a.good("alloc", "pause", "-status", al), "pause")
	gone("it stays stopped")

	c := a.nomad() // Nomad's Go client
	it, _, err := c.Allocations().Info(al, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Allocations().SetPauseState(it, nil, "main", "run"); err != nil {
		t.Fatal(err)
	}
	a.running("web")
	if state, _, err := c.Allocations().GetPauseState(it, nil, "main"); err != nil || state != "run" {
		t.Errorf("%q, %v", state, err)
	}
	if got := a.allocs("web"); len(got) != 1 || got[0].ID != al || got[0].TaskStates["main"].Restarts != 0 {
		t.Errorf("%+v", got)
	}
	for args, want := range map[string]string{"-state gone " + al: `unknown state "gone"`, al + " side": `side`} {
		if r := a.berth(append([]string{"alloc", "pause"}, strings.Fields(args)...)...); r.Code == 0 || !strings.Contains(r.Err, want) {
			t.Errorf("%s: %v; want %s", args, r, want)
		}
	}

	// A schedule that is not due for hours, from the job file.
	at := time.Now().UTC().Add(5 * time.Hour)
	text := group("service", "later", "", sh("exec sleep 1000", fmt.Sprintf(`schedule {
		cron {
			start = "%d %d * * *"
			end   = "%d %d"
		}
	}`, at.Minute(), at.Hour(), at.Minute(), (at.Hour()+1)%24)))
	a.good("job", "run", "-detach", w.file("later.nomad", text))
	w.until("it waits for its time", func() string {
		for _, s := range a.allocs("later") {
			if told := a.good("alloc", "status", s.ID); strings.Contains(told, "outside the times of its schedule") {
				return ""
			}
		}
		return fmt.Sprint(a.allocs("later"))
	})
	if n := len(w.tasks()[a.allocs("later")[0].ID]); n != 0 {
		t.Errorf("it has %d processes", n)
	}
	a.good("alloc", "pause", "-state", "run", a.allocs("later")[0].ID)
	a.running("later")
}

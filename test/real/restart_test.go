package real

import (
	"fmt"
	"strings"
	"testing"
)

// What runs is restarted where it is, one task or the job in batches; signalled;
// and an allocation that is stopped is placed again.
func TestTasksAreRestarted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.agent("one", both)
	a.joined()
	file := w.file("again.nomad", `
job "again" {
  group "g" {
    count = 2
    update { max_parallel = 0 }
    `+sh(`trap 'echo hup' HUP; echo up; while :; do sleep 0.1; done`)+`
  }
}`)
	a.good("job", "run", file)
	all := a.allocs("again")
	if len(all) != 2 {
		t.Fatalf("%+v", all)
	}
	first := all[0].ID
	for _, al := range all {
		a.prints("up\n", al.ID, "main")
	}
	a.good("alloc", "signal", "-s", "SIGHUP", first, "main")
	a.prints("up\nhup\n", first, "main")
	w.holds(a.berth("alloc", "signal", "-s", "SIGNONE", first).String(), "exit code 1", "not a signal")
	a.good("alloc", "restart", first, "main")
	a.prints("up\nhup\nup\n", first, "main")
	w.holds(a.berth("alloc", "restart", first, "none").String(), "exit code 1", "Could not find task")

	w.until("the servers know", func() string { return missing(a.good("job", "status", "-json", "again"), `"Running": 2`) })
	w.holds(a.good("job", "restart", "again"), "Restarting 2 allocations in batches of 1", "All allocations have been restarted")
	for _, al := range all {
		want := "up\nup\n"
		if al.ID == first {
			want = "up\nhup\nup\nup\n"
		}
		a.prints(want, al.ID, "main")
	}
	a.good("alloc", "stop", first)
	w.until("it is replaced", func() string {
		runs := 0
		for _, al := range a.allocs("again") {
			if al.ID != first && al.ClientStatus == "running" {
				runs++
			}
		}
		if runs != 2 {
			return fmt.Sprintf("%d others run", runs)
		}
		return ""
	})
}

func missing(text, part string) string {
	if strings.Contains(text, part) {
		return ""
	}
	return fmt.Sprintf("%q is not in %q", part, text)
}

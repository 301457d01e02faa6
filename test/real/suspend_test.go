package real

import (
	"syscall"
	"testing"
	"time"
)

// hasty gives a silent node up within three seconds.
const hasty = `
server {
  enabled                = true
  bootstrap_expect       = 1
  min_heartbeat_ttl      = "1s"
  heartbeat_grace        = "1s"
  failover_heartbeat_ttl = "5s"
}
client { enabled = true }`

// An agent that is server and node stands still for longer than its node may be
// silent, as on a laptop that is closed. When it goes on, its tasks are the same
// processes and nothing was replaced: nobody was there to hear the node.
func TestTheMachineStandsStill(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.agent("one", hasty)
	a.joined()
	job := func(name string) string {
		return w.file(name+".nomad", `
job "`+name+`" {
  group "g" {
    count = 3
    `+sh(`exec sleep 1000`)+`
  }
}`)
	}
	a.good("job", "run", job("stays"))
	before := w.tasks()
	if len(before) != 3 {
		t.Fatalf("%v", before)
	}
	for range 2 {
		if err := a.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		<-time.After(6 * time.Second) // the time itself is what is tested
		if err := a.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		// What the server decides when it goes on, it has decided when a job
		// that was sent afterwards has started.
		a.good("job", "run", job("later"))
		after := w.tasks()
		for id, pids := range before {
			if got := after[id]; len(got) != 1 || len(pids) != 1 || got[0] != pids[0] {
				t.Errorf("the task of allocation %s was process %v and is %v", id, pids, got)
			}
		}
		if all := a.allocs("stays"); len(all) != 3 {
			t.Errorf("there are %d allocations: %+v", len(all), all)
		}
		a.good("job", "stop", "-purge", "later")
	}
	w.holds(a.good("node", "status", "-self"), "ready")
	if missing(a.good("node", "status", "-self"), "heartbeat missed") == "" {
		t.Error("the node was given up")
	}
}

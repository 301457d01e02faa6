package real

import (
	"fmt"
	"os"
	"testing"
)

// The example of a system job runs on every agent, on one that joins later, and
// that of a sysbatch job once on each.
func TestJobsOnEveryNode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.agent("first", both)
	client := func(name string) *agent {
		a := w.agent(name, `client {
			enabled = true
			servers = ["`+first.rpc+`"]
		}`)
		a.joined()
		return a
	}
	are := func(job, status string, count int) {
		t.Helper()
		w.until(fmt.Sprintf("%d of %s are %s", count, job, status), func() string {
			n := 0
			for _, a := range first.allocs(job) {
				if a.ClientStatus == status {
					n++
				}
			}
			if n == count {
				return ""
			}
			return fmt.Sprintf("%d are", n)
		})
	}
	first.joined()
	client("second")
	example := func(name string) string {
		text, err := os.ReadFile("../../examples/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return w.file(name, string(text))
	}
	first.good("job", "run", example("heartbeat.nomad.hcl"))
	are("heartbeat", "running", 2)
	first.good("job", "run", example("inventory.nomad.hcl"))
	are("inventory", "complete", 2)
	w.holds(first.good("job", "status", "inventory"), "Type          = sysbatch", "Status        = dead")
	client("third")
	are("heartbeat", "running", 3)
	are("inventory", "complete", 3)
	w.holds(first.good("job", "status", "heartbeat"), "Type          = system", "Status        = running")
	w.holds(first.good("job", "explain", "heartbeat"), "3 of 3 placed")
	first.good("job", "stop", "heartbeat")
	are("heartbeat", "complete", 3)
}

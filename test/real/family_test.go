package real

import (
	"os"
	"strings"
	"testing"
)

// A job is launched every five seconds, and one is dispatched with what it
// counts; each task reads what is its own. When the server was killed it goes on.
func TestPeriodicAndDispatchedJobs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.agent("first", both)
	a.joined()
	example := func(name string) string {
		text, err := os.ReadFile("../../examples/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return w.file(name, string(text))
	}
	a.good("job", "run", example("tick.nomad.hcl"))
	a.good("job", "run", example("count.nomad.hcl"))
	dead := func(id string, most int) func() string {
		return func() string {
			out := a.good("job", "status", id)
			if n := strings.Count(out, " dead "); n < most {
				return out
			}
			return ""
		}
	}
	w.until("two children of tick are done", dead("tick", 2))
	a.kill()
	a.again()
	a.joined()
	w.until("another two are done", dead("tick", 4))
	w.holds(a.good("job", "status", "tick"), "Periodic             = true", "Status               = running", "Next Runs")

	out := a.good("job", "dispatch", "-meta", "title=poem", "-idempotency-token", "once", "count", w.file("poem", "the fog comes on little cat feet\n"))
	w.holds(out, "Dispatched Job ID = count/dispatch-")
	again := a.good("job", "dispatch", "-detach", "-meta", "title=poem", "-idempotency-token", "once", "count", w.file("poem", "the fog comes on little cat feet\n"))
	child := strings.Fields(again)[4]
	w.holds(out, child)
	w.until("the words are counted", func() string {
		out := a.good("alloc", "logs", "-job", child)
		if strings.Contains(out, "poem: 7 words") {
			return ""
		}
		return out
	})
}

package real

import (
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"
)

// A job is launched every second, and one is dispatched with what it counts; each
// task reads what is its own. When the server was killed it goes on.
func TestPeriodicAndDispatchedJobs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.agent("first", both)
	a.joined()
	example := func(name string, replace ...string) string {
		text, err := os.ReadFile("../../examples/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return w.file(name, strings.NewReplacer(replace...).Replace(string(text)))
	}
	a.good("job", "run", example("tick.nomad.hcl", "*/5 *", "* *"))
	a.good("job", "run", example("count.nomad.hcl"))
	w.until("two children of tick are done, and one goes on", func() string {
		if goesOn, done := a.launched("tick"); goesOn == 0 || done < 2 {
			return fmt.Sprintf("%d go on, %d are done", goesOn, done)
		}
		return ""
	})
	a.again()
	w.until("another three are done", func() string {
		if _, done := a.launched("tick"); done < 5 {
			return fmt.Sprintf("%d are done", done)
		}
		return ""
	})
	w.holds(a.good("job", "status", "tick"), "Periodic             = true", "Status               = running", "Next Runs")

	a.good("job", "stop", "-purge", "tick")

	poem := w.file("poem", "the fog comes on little cat feet\n")
	dispatch := func(more ...string) string {
		t.Helper()
		args := append([]string{"job", "dispatch", "-meta", "title=poem", "-idempotency-token", "once"}, more...)
		return a.good(append(args, "count", poem)...)
	}
	out := dispatch("-detach")
	w.holds(out, "Dispatched Job ID = count/dispatch-")
	child := strings.Fields(out)[4]
	a.again()
	w.holds(dispatch(), child)
	w.until("the words are counted", func() string {
		return missing(a.berth("alloc", "logs", "-job", child).Out, "poem: 7 words")
	})
	if all := a.allocs(url.PathEscape(child)); len(all) != 1 {
		t.Errorf("it was dispatched once, and ran as %+v", all)
	}
}

// launched counts the children of a periodic job that go on, and those that are
// done. Of a job that prohibits overlaps one goes on at a time, and each child
// runs once.
func (a *agent) launched(job string) (goesOn, done int) {
	a.w.t.Helper()
	var all []struct{ ID, Status string }
	a.get("/v1/jobs?prefix="+job+"/periodic-", &all)
	for _, j := range all {
		if j.Status != "dead" {
			goesOn++
			continue
		}
		done++
		if ran := a.allocs(url.PathEscape(j.ID)); len(ran) != 1 || ran[0].ClientStatus != "complete" {
			a.w.t.Fatalf("%s ran as %+v", j.ID, ran)
		}
	}
	if goesOn > 1 {
		a.w.t.Fatalf("children overlap: %+v", all)
	}
	return goesOn, done
}

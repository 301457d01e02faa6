//go:build faults

package scenarios

import (
	"fmt"
	"maps"
	"slices"
	"testing"
)

// resume has a submission gone on with when its leader is lost.
var resume = []string{`"Timeout":300000000000`, `"Timeout":300000000000,"Recovery":"resume"`}

// kept is what T has at a time: UIDs of objects, with the launch of a processing
// element, and the processes of allocations that run.
func (c *cluster) kept() map[string]string {
	c.Helper()
	all := map[string]string{}
	for _, r := range c.resources("job=telemetry") {
		switch {
		case r.Kind != "Allocation":
			all[r.Kind+" "+r.Name] = fmt.Sprint(r.UID, " launch ", r.LaunchCount)
		case r.Status == "running":
			pids := c.tasks(r.ID)
			slices.Sort(pids)
			all[r.Kind+" "+r.Name] = fmt.Sprint(r.UID, " processes ", pids)
		}
	}
	return all
}

// A job that wants its submission to be gone on with when the leader is lost
// gets that: the next leader makes what is missing. It is the same incarnation
// with the same objects, nothing is launched twice, and what runs already is
// not touched.
func TestResume(t *testing.T) {
	long(t)
	c := newCluster(t, options{})

	// Three run, the fourth is about to be placed.
	lead := c.leader()
	c.arm("addAlloc", "before", 4, "hang")
	first := c.register(resume...)
	c.running(3)
	before := c.kept()
	lead.Kill()
	c.resumed(first)
	after := c.kept()
	for name, was := range before {
		if name != "Job telemetry" && launched(was) && after[name] != was {
			t.Errorf("%s is %s, and was %s", name, after[name], was)
		}
	}
	if len(before) < 15 || len(after) <= len(before) {
		t.Errorf("there were %d objects, and are %d: %v", len(before), len(after), slices.Sorted(maps.Keys(before)))
	}
	c.removed(first)

	// Whatever it was about to do, or had just done.
	for _, x := range []struct {
		name, when string
		nth        int
	}{
		{"planJob", "before", 1}, {"addConfigs", "after", 1}, {"addHostPools", "before", 1}, {"addPes", "after", 1},
		{"launchPe", "after", 2}, {"addAlloc", "after", 3}, {"completeJob", "before", 1},
	} {
		c.whole()
		c.arm(x.name, x.when, x.nth, "exit")
		dead := c.deaths.Load()
		first := c.register(resume...)
		c.died(dead + 1)
		c.resumed(first)
		c.removed(first)
		if t.Failed() {
			t.Fatal(x)
		}
	}
}

// launched reports whether something of kept is not a processing element that was
// still to be launched.
func launched(what string) bool { return len(what) < 2 || what[:2] != "p-" || what[len(what)-1] != '0' }

// resumed waits until T is submitted as the incarnation that it was, and checks
// that nothing of it was ever deleted or made twice.
func (c *cluster) resumed(first string) {
	c.Helper()
	now := c.settled(5, 1)
	c.recovered(now, first, 0)
	if now.Generation != 0 {
		c.Errorf("it is at generation %d", now.Generation)
	}
	made := map[string]string{}
	for _, e := range c.recorder.Events() {
		if e.Owner != first && e.UID != first {
			continue
		}
		switch name := e.Kind + " " + e.Name; {
		case e.Type == "Deleted", e.Type == "Retired", e.Deleting:
			c.Errorf("of what is gone on with: %v", &e)
		case e.Type == "Added", e.Type == "Placed":
			if was := made[name]; was != "" && was != e.UID {
				c.Errorf("%s was made as %s, and as %s", name, was, e.UID)
			}
			made[name] = e.UID
		}
	}
}

// removed deletes T in the foreground and waits until it has gone.
func (c *cluster) removed(uid string) {
	c.Helper()
	if code, text := c.remove("propagation=foreground"); code != 200 {
		c.Fatalf("%d %s", code, text)
	}
	c.gone(uid)
	c.orderCheck(uid, "")
}

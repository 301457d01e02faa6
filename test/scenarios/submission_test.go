//go:build faults

package scenarios

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// kinds are those of what a stream job owns, in the order in which they are
// made; states are those of a submission.
var (
	kinds  = []string{"Config", "Endpoint", "HostPool", "Export", "Import", "ParallelRegion", "ProcessingElement"}
	states = []string{
		"plan", "wait-configs", "wait-endpoints", "wait-hostpools", "wait-exports", "wait-imports", "wait-regions", "wait-pes", "wait-allocs",
		"sweep-pes", "sweep-imports", "sweep-exports", "sweep-endpoints", "sweep-configs", "submitted",
	}
)

// A plain submission goes through its states in order, and is whole.
func TestS1(t *testing.T) {
	c := newCluster(t, options{})
	first := c.register()
	var seen []string
	c.until("it is submitted", func() string {
		now := c.standing("telemetry")
		if len(seen) == 0 || seen[len(seen)-1] != now.State {
			seen = append(seen, now.State)
		}
		if now.Phase == "Submitted" {
			return ""
		}
		return now.State
	})
	at := -1
	for _, s := range seen {
		if i := slices.Index(states, s); i <= at {
			t.Errorf("the states were %q", seen)
		} else {
			at = i
		}
	}
	now := c.settled(5, 1)
	c.recovered(now, first, 0)
	was := 0
	for _, e := range c.recorder.Events() {
		if e.Owner != first || e.Type != "Added" {
			continue
		}
		if k := slices.Index(kinds, e.Kind); k < was {
			t.Errorf("after a %s: %v", kinds[was], &e)
		} else {
			was = k
		}
	}
	if was != len(kinds)-1 {
		t.Errorf("no processing element was recorded; the last is of kind %s", kinds[was])
	}
}

// interrupted submits T and has the leader end when three are placed; whether
// nodes have heard of them by then is not known. It returns the incarnation that
// is in the middle of it.
func (c *cluster) interrupted(change ...string) (first string) {
	c.Helper()
	c.arm("addAlloc", "after", 3, "exit")
	dead := c.deaths.Load()
	first = c.register(change...)
	defer c.watch("/v1/job/telemetry")()
	c.died(dead + 1)
	return first
}

// halfway submits T and kills the leader when three run and no more are placed.
// It returns the incarnation that is in the middle of it.
func (c *cluster) halfway(change ...string) (first string) {
	c.Helper()
	lead, dead := c.leader(), c.deaths.Load()
	c.arm("addAlloc", "before", 4, "hang")
	first = c.register(change...)
	defer c.watch("/v1/job/telemetry")()
	c.running(3)
	lead.Kill()
	c.died(dead + 1)
	return first
}

// running waits until so many allocations of T run, and returns them.
func (c *cluster) running(n int) (list []alloc) {
	c.Helper()
	c.until(fmt.Sprint(n, " run"), func() string {
		list = slices.DeleteFunc(c.allocs("telemetry"), func(a alloc) bool { return a.ClientStatus != "running" })
		if len(list) == n {
			return ""
		}
		return fmt.Sprint(list)
	})
	return list
}

// Five processing elements, three of them placed when the leader dies. Their
// nodes hear nothing until it was seen that the job is marked.
func TestS2(t *testing.T) {
	c := newCluster(t, options{})
	for _, n := range c.nodes {
		n.Signal(syscall.SIGSTOP)
		defer n.Signal(syscall.SIGCONT)
	}
	first := c.interrupted()
	c.watch("/v1/job/telemetry")
	c.marked(first)
	for _, n := range c.nodes {
		n.Signal(syscall.SIGCONT)
	}
	now := c.settled(5, 1)
	c.recovered(now, first, 1)
	c.orderCheck(first, now.UID)
	placed := map[string]int{}
	for _, e := range c.recorder.Events() {
		if e.Type == "Placed" {
			placed[e.Owner]++
		}
		if e.Kind == "ProcessingElement" && e.Type == "Added" && e.Owner == now.UID && slices.ContainsFunc(c.recorder.Events(), func(x event) bool { return x.UID == e.UID && x.Owner == first }) {
			t.Errorf("%s is of both", e.UID)
		}
	}
	if placed[first] != 3 || placed[now.UID] != 5 {
		t.Errorf("placed were %v", placed)
	}
	for _, a := range c.allocs("telemetry") {
		if old := a.CreateIndex < c.recorder.Index("Deleted", first); old != terminal(a.ClientStatus) {
			t.Errorf("%+v", a)
		}
	}
	ended := c.resources("kind=Allocation")
	for _, r := range ended {
		if terminal(r.Status) && slices.ContainsFunc(r.OwnerRefs, func(o owner) bool { return o.Block }) {
			t.Errorf("%s %s ended, and holds %v", r.Name, r.ID, r.OwnerRefs)
		}
	}
	if len(ended) != 8 {
		t.Errorf("there are %d allocations, want 8", len(ended))
	}
}

// Two of the three that run have reported, the third was launched again.
func TestS3(t *testing.T) {
	long(t)
	c := newCluster(t, options{})
	lead := c.leader()
	c.arm("addAlloc", "before", 4, "hang")
	first := c.register()
	running := c.running(3)
	for _, a := range running[:2] {
		if code := c.report(a.ID, "full"); code/100 != 2 {
			t.Errorf("a report is answered %d", code)
		}
	}
	c.stop(running[2].ID)
	c.until("it is launched again", func() string {
		if p := c.pes("telemetry")[running[2].Name]; p.LaunchCount != 2 {
			return fmt.Sprintf("%+v", p)
		}
		return ""
	})
	full := 0
	for _, p := range c.pes("telemetry") {
		if p.Connectivity == "full" {
			full++
		}
	}
	old := map[string]bool{}
	for _, p := range c.pes("telemetry") {
		f := c.file(p.Name)
		for _, addr := range f.addrs("") {
			old[addr] = addr != ""
		}
	}
	if full != 2 {
		t.Errorf("%d are full", full)
	}
	leaks := func() {
		t.Helper()
		for name := range c.pes("telemetry") {
			f := c.file(name)
			for _, addr := range f.addrs("") {
				if old[addr] {
					t.Errorf("%s leads to %s", name, addr)
				}
			}
		}
	}
	lead.Kill()
	c.until("another incarnation", func() string {
		now := c.standing("telemetry")
		if now.UID != first && now.Deletion == nil && now.State == "wait-allocs" {
			leaks()
		}
		for _, p := range c.pes("telemetry") {
			if now.UID != first && (p.LaunchCount > 1 || p.Connectivity != "none") {
				t.Errorf("%+v", p)
			}
		}
		if now.UID == first || now.Phase != "Submitted" {
			return fmt.Sprintf("%+v", now)
		}
		return ""
	})
	c.recovered(c.settled(5, 1), first, 1)
	leaks()
}

// The leader dies before and after each kind of step.
func TestS4(t *testing.T) {
	long(t)
	c := newCluster(t, options{})
	names := []string{"planJob", "addConfigs", "addEndpoints", "addHostPools", "addExports", "addImports", "addParallelRegions", "addPes", "launchPe", "addAlloc", "completeJob"}
	c.handedOver()
	for _, name := range names {
		for _, when := range []string{"before", "after"} {
			from := time.Now()
			c.whole()
			change := withImport
			if name != "addImports" {
				change = nil
			}
			c.arm(name, when, 1, "exit")
			dead := c.deaths.Load()
			first := c.register(change...)
			c.died(dead + 1)
			now := c.settled(5, 1)
			count := 1
			if name == "planJob" && when == "before" || name == "completeJob" && when == "after" {
				count = 0
			}
			// The answer to the first register may have been lost, so that what
			// is read after it is the next already.
			if first != now.UID || count == 0 {
				c.recovered(now, first, count)
			} else if now.Recovery.Count != count {
				t.Errorf("%+v", now.Recovery)
			}
			if count > 0 {
				c.ordered(now.Recovery.Predecessors[0], now.UID)
			}
			if code, text := c.remove("propagation=foreground"); code != 200 {
				t.Fatalf("%d %s", code, text)
			}
			c.gone(now.UID)
			t.Logf("%s %s: %.1f s", name, when, time.Since(from).Seconds())
			if t.Failed() {
				t.Fatalf("%s %s", name, when)
			}
		}
	}
}

// handedOver submits T under a leader that hands over in the middle: that is as
// a leader that is lost.
func (c *cluster) handedOver() {
	c.Helper()
	term := c.term()
	c.arm("addPes", "after", 1, "step-down")
	first := c.register()
	c.newTerm(term)
	now := c.settled(5, 1)
	c.recovered(now, first, 1)
	c.orderCheck(first, now.UID)
	if n := c.deaths.Load(); n > 0 {
		c.Errorf("%d servers ended", n)
	}
	c.remove("propagation=foreground")
	c.gone(now.UID)
}

// The second leader dies when the first things were collected, the third when
// something has ended; it is one recovery all the same.
func TestS5(t *testing.T) {
	long(t)
	c := newCluster(t, options{})
	first := c.halfway(sinkSooner(4, 30)...) // what can be collected at once may be before that is armed
	c.watch("/v1/job/telemetry")
	c.marked(first)
	c.leader()
	c.arm("gcStep", "after", 1, "exit")
	c.died(2)
	c.leader()
	c.arm("retireAlloc", "after", 1, "exit")
	c.died(3)
	now := c.settled(5, 1)
	c.recovered(now, first, 1)
	c.orderCheck(first, now.UID)
}

// The leader dies before, or after, the job is removed and created again. It is
// never missed. Nodes hear nothing until the next leader is to die: what they
// run ends in between.
func TestS6(t *testing.T) {
	c := newCluster(t, options{})
	for i, when := range []string{"before", "after"} {
		c.whole()
		first := c.halfway(slowly(4)...)
		for _, n := range c.nodes {
			n.Signal(syscall.SIGSTOP)
			defer n.Signal(syscall.SIGCONT)
		}
		stop := c.watch("/v1/job/telemetry")
		c.leader()
		c.arm("finalizeJob", when, 1, "exit")
		for _, n := range c.nodes {
			n.Signal(syscall.SIGCONT)
		}
		c.died(int32(2 * (i + 1)))
		now := c.settled(5, 1)
		c.recovered(now, first, 1)
		c.orderCheck(first, now.UID)
		stop()
		if code, text := c.remove("propagation=foreground"); code != 200 {
			t.Fatalf("%d %s", code, text)
		}
		c.gone(now.UID)
		n := 0
		for _, e := range c.recorder.Events() {
			if e.Kind == "Job" && e.Type == "Added" && e.Index > c.recorder.Index("Added", first) {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%d incarnations followed", n)
		}
	}
}

// Three leaders die in the middle, one after another.
func TestS7(t *testing.T) {
	long(t)
	c := newCluster(t, options{})
	c.arm("addAlloc", "after", 2, "exit")
	first := c.register(slowly(4)...)
	for n := range int32(3) {
		c.died(n + 1)
		if n < 2 {
			c.leader()
			c.arm("addAlloc", "after", 2, "exit") // what it recovers takes time to stop
		}
	}
	now := c.settled(5, 1)
	c.recovered(now, first, 3)
	if n := c.recorder.Most("telemetry"); n != 5 {
		t.Errorf("%d allocations were live at most", n)
	}
}

// What a user registers during a submission becomes the next generation; during
// a recovery it is what starts again.
func TestS20(t *testing.T) {
	long(t)
	c := newCluster(t, options{})
	newer := []string{resources, resources + `,"Env":{"V":"2"}`}
	is := func(want string) {
		t.Helper()
		for _, p := range c.pes("telemetry") {
			var a struct {
				Job struct {
					TaskGroups []struct {
						Tasks []struct{ Env map[string]string }
					}
				}
			}
			c.get("/v1/allocation/"+p.Allocation.ID, &a)
			if v := a.Job.TaskGroups[0].Tasks[0].Env["V"]; v != want {
				t.Errorf("%s runs with V=%q", p.Name, v)
			}
		}
	}
	c.arm("addPes", "after", 1, "hang")
	first := c.register()
	c.until("the processing elements are there", func() string {
		if n := len(c.pes("telemetry")); n != 5 {
			return fmt.Sprint(n)
		}
		return ""
	})
	c.register(newer...)
	c.arm("addPes", "after", 1, "off")
	now := c.settled(5, 0)
	c.recovered(now, first, 0)
	if now.Generation != 1 {
		t.Errorf("%+v", now)
	}
	is("2")
	var phases []string
	for _, e := range c.recorder.Events() {
		if e.UID == first && e.Cause == "complete" {
			phases = append(phases, fmt.Sprint(e.Generation))
		}
	}
	if strings.Join(slices.Compact(phases), " ") != "0 1" {
		t.Errorf("it was submitted at generations %q", phases)
	}
	c.remove("propagation=foreground")
	c.gone(first)

	slow := slowly(10)
	first = c.halfway(slow...)
	c.marked(first)
	c.register(append(slices.Clone(slow), newer...)...)
	now = c.settled(5, 1)
	c.recovered(now, first, 1)
	if now.Generation != 0 {
		t.Errorf("%+v", now)
	}
	is("2")
}

// There is no room, and no more time.
func TestS25(t *testing.T) {
	long(t)
	c := newCluster(t, options{})
	c.register(`"Timeout":300000000000`, `"Timeout":5000000000,"MaxRetries":2`, `"MemoryMB":20`, `"MemoryMB":1500`)
	now := c.failed()
	if now.Recovery.Count != 2 || now.LastError == "" {
		t.Errorf("%+v", now)
	}
	c.register()
	if next := c.settled(5, 1); next.UID == now.UID || next.Recovery.Count != 0 {
		t.Errorf("%+v", next)
	}
}

// failed waits until T is given up and owns nothing any more.
func (c *cluster) failed() (now standing) {
	c.Helper()
	c.until("it is given up", func() string {
		now = c.standing("telemetry")
		if now.Phase != "Failed" {
			return fmt.Sprintf("%+v", now)
		}
		if left := c.resources("owner=" + now.UID + "&recursive=true"); len(left) > 0 {
			return fmt.Sprint(left)
		}
		return ""
	})
	c.must("GET", "/v1/job/telemetry", "")
	return now
}

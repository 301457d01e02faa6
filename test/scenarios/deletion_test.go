//go:build faults

package scenarios

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/internal/eventually"
	"berth/test/bed"
)

// stays checks that T is not there for a minute, across a change of leader, and
// that nothing came after it.
func (c *cluster) stays(uid string) {
	c.Helper()
	end := time.Now().Add(time.Minute)
	for handed := false; time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if code, text := c.do(http.MethodGet, "/v1/job/telemetry", ""); code != http.StatusNotFound {
			c.Fatalf("the job is back: %d %s", code, text)
		}
		if !handed && time.Until(end) < 30*time.Second {
			c.transfer()
			handed = true
		}
	}
	if left := c.resources("owner=" + uid + "&recursive=true"); len(left) > 0 {
		c.Errorf("it is gone, and left %+v", left)
	}
	for _, e := range c.recorder.Events() {
		if e.Kind == "Job" && e.Type == "Added" && e.Index > c.recorder.Index("Added", uid) {
			c.Errorf("%v", &e)
		}
	}
}

// A user deletes the job while it is recovered. Nothing follows it.
func TestS8(t *testing.T) {
	long(t)
	c := newCluster(t, options{})
	first := c.halfway(slowly(10)...)
	c.marked(first)
	code, text := c.remove("propagation=foreground&uid=" + first)
	if code != http.StatusOK {
		t.Fatalf("%d %s", code, text)
	}
	var j struct{ Deletion *struct{ Intent string } }
	c.get("/v1/job/telemetry", &j)
	if j.Deletion == nil || j.Deletion.Intent != "user" {
		t.Errorf("%+v", j.Deletion)
	}
	c.gone(first)
	c.stays(first)
}

// What a user deletes in the foreground during its submission is not taken for
// something to recover.
func TestS9(t *testing.T) {
	long(t)
	c := newCluster(t, options{})
	lead := c.leader()
	c.arm("addPes", "after", 1, "hang")
	first := c.register()
	c.until("the processing elements are there", func() string {
		if n := len(c.pes("telemetry")); n != 5 {
			return fmt.Sprint(n)
		}
		return ""
	})
	if code, text := c.remove("propagation=foreground"); code != http.StatusOK {
		t.Fatalf("%d %s", code, text)
	}
	lead.Kill()
	c.gone(first)
	c.stays(first)
}

// A deletion that names the incarnation before is refused, and says which there
// is.
func TestS10(t *testing.T) {
	long(t)
	c := newCluster(t, options{})
	first := c.interrupted()
	now := c.settled(5, 1)
	c.recovered(now, first, 1)
	var before, after any
	c.get("/v1/job/telemetry", &before)
	code, text := c.remove("uid=" + first)
	if code != http.StatusConflict || !strings.Contains(text, "uid-mismatch") || !strings.Contains(text, now.UID) {
		t.Errorf("%d %s", code, text)
	}
	c.get("/v1/job/telemetry", &after)
	if fmt.Sprint(before) != fmt.Sprint(after) || c.settled(5, 1).UID != now.UID {
		t.Errorf("%v, and it was %v", after, before)
	}
}

// What is deleted in the foreground is there until the last of what it owns has
// ended; in the background it is gone at once, and its name is free.
func TestS13(t *testing.T) {
	long(t)
	c := newCluster(t, options{})
	slow := slowly(5)
	first := c.register(slow...)
	c.settled(5, 1)
	if code, text := c.remove("propagation=foreground"); code != http.StatusOK {
		t.Fatalf("%d %s", code, text)
	}
	if code, text := c.do(http.MethodPut, "/v1/jobs", telemetry()); code != http.StatusConflict || !strings.Contains(text, "deleting") {
		t.Errorf("registered while it is deleted: %d %s", code, text)
	}
	c.until("it is gone", func() string {
		code, text := c.do(http.MethodGet, "/v1/job/telemetry", "")
		switch {
		case code == http.StatusNotFound:
			return ""
		case code != http.StatusOK || !strings.Contains(text, `"Deletion":{"Policy":"foreground","Intent":"user"`):
			t.Fatalf("%d %s", code, text)
		}
		return bed.Got(text)
	})
	ended := 0
	for _, a := range c.allocs("telemetry") {
		if terminal(a.ClientStatus) {
			ended++
		}
	}
	if ended != 5 {
		t.Errorf("it is gone, and %d of its allocations have ended", ended)
	}
	c.orderCheck(first, "")

	second := c.register(slow...)
	c.settled(5, 1)
	if code, text := c.remove("propagation=background"); code != http.StatusOK {
		t.Fatalf("%d %s", code, text)
	}
	if code, text := c.do(http.MethodGet, "/v1/job/telemetry", ""); code != http.StatusNotFound {
		t.Errorf("%d %s", code, text)
	}
	left := map[string]int{}
	old := map[string]bool{}
	for _, r := range c.resources("owner=" + second + "&recursive=true") {
		left[r.Kind+" "+r.Status]++
		old[r.UID] = true
	}
	if left["ProcessingElement none"] == 0 || left["Allocation running"] == 0 {
		t.Errorf("deleted in the background it left %v", left)
	}
	c.dangling = true
	third := c.register(slow...)
	now := c.settled(5, 1)
	for _, p := range c.pes("telemetry") {
		if old[p.UID] || now.UID == second || third != now.UID {
			t.Errorf("%+v of %+v", p, now)
		}
	}
	c.until("the old ones are gone", func() string {
		if left := c.resources("owner=" + second + "&recursive=true"); len(left) > 0 {
			return fmt.Sprint(left)
		}
		return ""
	})
	c.dangling = false
	c.settled(5, 1)
}

// A job is deleted and what it owns left to itself.
func TestS14(t *testing.T) {
	long(t)
	c := newCluster(t, options{})
	c.must(http.MethodPut, "/v1/jobs", alertsText)
	c.register()
	c.settled(5, 1)
	c.settledJob("alerts", 1, 1)
	c.routes(3, 1)
	before := c.pes("telemetry")
	if code, text := c.remove("propagation=orphan"); code != http.StatusOK {
		t.Fatalf("%d %s", code, text)
	}
	if code, text := c.do(http.MethodGet, "/v1/job/telemetry", ""); code != http.StatusNotFound {
		t.Errorf("%d %s", code, text)
	}
	c.routes(0, 0)
	running := map[string]string{} // allocations by processing element
	orphans := map[string]int{}
	for _, r := range c.resources("orphaned=true") {
		orphans[r.Kind]++
		if len(r.OwnerRefs) > 0 && r.Kind != "Allocation" || !r.Orphaned {
			t.Errorf("%+v", r)
		}
		if r.Kind == "Allocation" && r.Status == "running" && len(c.tasks(r.ID)) > 0 {
			running[r.Name] = r.ID
		}
	}
	if orphans["ProcessingElement"] != 5 || orphans["Allocation"] != 5 {
		t.Errorf("orphans are %v", orphans)
	}
	for name, p := range before {
		if running[name] != p.Allocation.ID {
			t.Errorf("%s ran %s, and runs %s", name, p.Allocation.ID, running[name])
		}
	}
	stopped := before["telemetry.transform[1]"]
	c.stop(stopped.Allocation.ID)
	c.ended(stopped.Allocation.ID)
	c.register()
	c.settled(5, 1)
	for name, p := range c.pes("telemetry") {
		if before[name].UID == p.UID {
			t.Errorf("%s is the one before", name)
		}
	}
	last := before["telemetry.sink[0]"]
	c.must(http.MethodDelete, "/v1/resource/"+last.UID, "")
	c.ended(last.Allocation.ID)
	for _, e := range c.recorder.Events() {
		if e.Kind == "ProcessingElement" && e.UID == stopped.UID && e.LaunchCount > 1 {
			t.Errorf("%v", &e)
		}
	}
	for _, r := range c.resources("orphaned=true") { // so that their tasks end
		if r.Kind == "ProcessingElement" {
			c.must(http.MethodDelete, "/v1/resource/"+r.UID, "")
		}
	}
}

// ended waits until an allocation has.
func (c *cluster) ended(id string) {
	c.Helper()
	c.until("the allocation has ended", func() string {
		var a alloc
		c.get("/v1/allocation/"+id, &a)
		if terminal(a.ClientStatus) {
			return ""
		}
		return a.ClientStatus
	})
}

// What does not block does not hold its owner: an allocation that ended before
// is there when its job has gone, and goes as all that ended does. (There are no
// variables that a user could attach.)
func TestS15(t *testing.T) {
	long(t)
	c := newCluster(t, options{})
	first := c.register()
	c.settled(5, 1)
	old := c.pes("telemetry")["telemetry.transform[1]"].Allocation.ID
	c.stop(old)
	c.ended(old)
	c.settled(5, 0)
	blocks := 0
	for _, r := range c.resources("job=telemetry&kind=Allocation") {
		if r.OwnerRefs[0].Block {
			blocks++
		} else if r.ID != old {
			t.Errorf("%+v", r)
		}
	}
	if blocks != 5 {
		t.Errorf("%d allocations block", blocks)
	}
	if code, text := c.remove("propagation=foreground"); code != http.StatusOK {
		t.Fatalf("%d %s", code, text)
	}
	c.gone(first)
	c.orderCheck(first, "")
	n := 0
	for _, a := range c.allocs("telemetry") {
		if n++; !terminal(a.ClientStatus) {
			t.Errorf("%+v", a)
		}
	}
	if n != 6 {
		t.Errorf("%d allocations can be read", n)
	}
	c.must(http.MethodPut, "/v1/system/gc", "")
	c.until("what is left is collected", func() string {
		if left := c.allocs("telemetry"); len(left) > 0 {
			return fmt.Sprint(left)
		}
		return ""
	})
}

// A user stops and deletes what belongs to a job that is recovered: nothing is
// made for it any more.
func TestS17(t *testing.T) {
	long(t)
	c := newCluster(t, options{})
	first := c.halfway(slowly(10)...)
	c.marked(first)
	var mark uint64
	for _, e := range c.recorder.Events() {
		if e.UID == first && e.Cause == "recover" {
			mark = e.Index
		}
	}
	var running []*pe
	for _, p := range c.pes("telemetry") {
		if p.Allocation != nil {
			running = append(running, p)
		}
	}
	if len(running) != 3 {
		t.Fatalf("%d run", len(running))
	}
	c.stop(running[0].Allocation.ID)
	c.must(http.MethodDelete, "/v1/resource/"+running[1].UID, "")
	now := c.settled(5, 1)
	c.recovered(now, first, 1)
	if mark == 0 {
		mark = c.recorder.Index("Deleted", first)
	}
	c.never(first, mark)
}

// A node is cut off from the servers while what it runs is deleted.
func TestS26(t *testing.T) {
	long(t)
	c := newCluster(t, options{server: "min_heartbeat_ttl = \"2s\"\n  heartbeat_grace = \"3s\""})
	first := c.register()
	c.settled(5, 1)
	away := c.pes("telemetry")["telemetry.sink[0]"]
	i := slices.IndexFunc(c.nodes, func(a *agent) bool { return a.Name == away.Allocation.NodeName })
	node := c.nodes[i]
	at := c.reportsAt(away.Allocation.ID)
	node.Signal(syscall.SIGSTOP)
	defer node.Signal(syscall.SIGCONT)
	if code, text := c.remove("propagation=foreground"); code != http.StatusOK {
		t.Fatalf("%d %s", code, text)
	}
	seen, gone := false, false
	c.until("it is gone", func() string {
		code, text := c.do(http.MethodGet, "/v1/stream/job/telemetry/tree", "")
		if code == http.StatusNotFound {
			gone = true
			return ""
		}
		if _, job := c.do(http.MethodGet, "/v1/job/telemetry", ""); code == http.StatusOK && !strings.Contains(job, `"Deletion":{`) && !strings.Contains(job, "not found") {
			t.Errorf("%s", job)
		}
		if code == http.StatusOK && strings.Contains(text, away.Allocation.ID) {
			var tree struct{ Deleting bool }
			if err := json.Unmarshal([]byte(text), &tree); err != nil || !tree.Deleting {
				t.Errorf("%s", text)
			}
			seen = true
		}
		return bed.Got(text)
	})
	var a alloc
	c.get("/v1/allocation/"+away.Allocation.ID, &a)
	if !seen || !gone || a.ClientStatus != "lost" {
		t.Errorf("the tree named it: %t; it is %s", seen, a.ClientStatus)
	}
	c.orderCheck(first, "")
	late := make(chan int, 1)
	c.tending.Go(func() { // it waits in the socket until the node goes on
		code, _, err := tell(c.Context(), at, "full")
		if err != nil {
			c.Logf("a late report: %v", err)
		}
		late <- code
	})
	node.Signal(syscall.SIGCONT)
	c.until("the node is back and has stopped it", func() string {
		var n struct{ Status string }
		c.get("/v1/node/"+away.Allocation.NodeID, &n)
		if n.Status != "ready" {
			return n.Status
		}
		if pids := c.tasks(away.Allocation.ID); len(pids) > 0 {
			return fmt.Sprintf("processes %v run", pids)
		}
		return ""
	})
	select {
	case code := <-late:
		if code != http.StatusConflict {
			t.Errorf("its late report was answered %d", code)
		}
	case <-time.After(eventually.Limit):
		t.Error("its late report was not answered")
	}
}

//go:build faults

package scenarios

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// A user stops an allocation of a job that runs: the same processing element is
// launched once more, and placed when the old one has ended.
func TestS16(t *testing.T) {
	c := newCluster(t, options{})
	slow := slowly(3)
	first := c.register(slow...)
	was := c.settled(5, 1)
	old := c.pes("telemetry")["telemetry.transform[1]"]
	peer := c.file("telemetry.source[0]")
	for _, p := range c.pes("telemetry") {
		if code := c.report(p.Allocation.ID, "full"); code/100 != 2 {
			t.Errorf("a report is answered %d", code)
		}
	}
	if !c.standing("telemetry").Ready {
		t.Errorf("%+v", c.standing("telemetry"))
	}
	source := c.pes("telemetry")["telemetry.source[0]"].Allocation
	told := c.onDisk(source)
	c.stop(old.Allocation.ID)
	var now *pe
	c.until("it runs again", func() string {
		now = c.pes("telemetry")["telemetry.transform[1]"]
		if now.LaunchCount == 2 && now.runs() {
			return ""
		}
		return fmt.Sprintf("%+v", now)
	})
	if now.UID != old.UID || now.Connectivity != "none" || now.Allocation.ID == old.Allocation.ID {
		t.Errorf("%+v after %+v", now, old)
	}
	is := c.settled(5, 0)
	if c.recovered(is, first, 0); is.Generation != was.Generation {
		t.Errorf("%+v after %+v", is, was)
	}
	var states []string
	var retired, placed uint64
	for _, e := range c.recorder.Events() {
		switch {
		case e.UID == old.UID:
			states = append(states, e.State)
		case e.ID == old.Allocation.ID && e.Type == "Retired" && retired == 0:
			retired = e.Index
		case e.ID == now.Allocation.ID && e.Type == "Placed":
			placed = e.Index
		case e.UID == first && e.Index > c.recorder.Index("Added", first) && retired > 0 && e.Phase != "Submitted":
			t.Errorf("%v", &e)
		}
	}
	if retired == 0 || placed <= retired {
		t.Errorf("the old one ended at %d, the new one was placed at %d", retired, placed)
	}
	if states = slices.Compact(states); !slices.Equal(states, []string{"none", "full", "none"}) {
		t.Errorf("the connectivity was %q", states)
	}
	addrs := peer.addrs("telemetry")
	c.until("its peer is told", func() string {
		f := c.file("telemetry.source[0]")
		if slices.Equal(f.addrs("telemetry"), addrs) || slices.Contains(f.addrs("telemetry"), "") {
			return fmt.Sprint(f)
		}
		return ""
	})

	var next file
	c.until("what its peer's task reads leads to the new one", func() string {
		served := c.file("telemetry.source[0]")
		next = c.onDisk(source)
		if addrs := next.addrs("telemetry"); slices.Contains(addrs, "") || !slices.Equal(addrs, served.addrs("telemetry")) {
			return fmt.Sprint(next)
		}
		return ""
	})
	if next.Version <= told.Version || slices.Equal(next.addrs("telemetry"), told.addrs("telemetry")) {
		t.Errorf("version %d leads to %q, and version %d led to %q", next.Version, next.addrs("telemetry"), told.Version, told.addrs("telemetry"))
	}

	never := append(slices.Clone(slow), `"Colocate":["hot"]}`, `"Colocate":["hot"]},"Policy":{"RestartDeleted":false}`)
	c.remove("propagation=foreground")
	c.gone(first)
	c.register(never...)
	c.settled(5, 1)
	for _, p := range c.pes("telemetry") {
		c.report(p.Allocation.ID, "full")
	}
	if !c.standing("telemetry").Ready {
		t.Errorf("%+v", c.standing("telemetry"))
	}
	old = c.pes("telemetry")["telemetry.transform[1]"]
	c.stop(old.Allocation.ID)
	c.until("it has ended", func() string {
		for _, a := range c.allocs("telemetry") {
			if a.ID == old.Allocation.ID && terminal(a.ClientStatus) {
				return ""
			}
		}
		return "it has not"
	})
	// The one that is stopped next is launched again, and this one still is not.
	c.stop(c.pes("telemetry")["telemetry.sink[0]"].Allocation.ID)
	c.until("another runs again", func() string {
		if p := c.pes("telemetry")["telemetry.sink[0]"]; p.LaunchCount != 2 || !p.runs() {
			return fmt.Sprintf("%+v", p)
		}
		return ""
	})
	now = c.pes("telemetry")["telemetry.transform[1]"]
	if s := c.standing("telemetry"); now.UID != old.UID || now.LaunchCount != 1 || now.runs() || s.Ready || s.Phase != "Submitted" {
		t.Errorf("%+v; %+v", now, s)
	}
}

// onDisk is the connectivity file that the task of an allocation reads.
func (c *cluster) onDisk(a *peAlloc) (out file) {
	c.Helper()
	found, err := filepath.Glob(filepath.Join(c.Dir, a.NodeName, "*", a.ID, "alloc", "connectivity.json"))
	if err != nil || len(found) != 1 {
		c.Fatalf("the file is %v, %v", found, err)
	}
	text, err := os.ReadFile(found[0])
	if err := errors.Join(err, json.Unmarshal(text, &out)); err != nil {
		c.Fatalf("%v: %s", err, text)
	}
	return out
}

// theSink is where the job's last group ends, for what is to be of that alone.
const theSink = `"Stream":{"Placement":{"Isolated":true},"Inputs":[{"Name":"in","Port":"in"}]},"Tasks":[` + task + `]`

// What ends is launched again as its policy says; what is drained is, whatever
// that says.
func TestS18(t *testing.T) {
	long(t)
	c := newCluster(t, options{})
	ends := filepath.Join(c.Dir, "ends")
	for _, x := range []struct {
		code   int
		policy string
		again  bool
	}{
		{1, `{"RestartFailed":true,"DeleteFailed":false}`, true}, {1, `{"RestartFailed":false}`, false},
		{0, `{"RestartCompleted":true}`, true}, {0, `{"RestartCompleted":false}`, false},
	} {
		// It ends when it finds the file, which it removes.
		script := fmt.Sprintf("until rm %s 2>/dev/null; do sleep 0.1; done; exit %d", ends, x.code)
		sink := with(theSink, `"Isolated":true}`, `"Isolated":true},"Policy":`+x.policy, sleeps, script)
		first := c.register(theSink, sink)
		c.settled(5, 1)
		old := c.pes("telemetry")["telemetry.sink[0]"]
		other := c.pes("telemetry")["telemetry.source[0]"]
		if err := os.WriteFile(ends, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		c.ended(old.Allocation.ID)
		// What is decided after it is decided when another one is launched again.
		c.stop(other.Allocation.ID)
		c.until("another runs again, and it as it should", func() string {
			all := c.pes("telemetry")
			is := all["telemetry.sink[0]"]
			if o := all["telemetry.source[0]"]; o.LaunchCount != 2 || !o.runs() || x.again && (is.LaunchCount != 2 || !is.runs()) {
				return fmt.Sprintf("%+v %+v", o, is)
			}
			return ""
		})
		// What ends soon after it began rests a second before it is launched
		// again.
		for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			is := c.pes("telemetry")["telemetry.sink[0]"]
			if again := is.LaunchCount == 2 && is.runs(); again != x.again || is.UID != old.UID {
				t.Fatalf("exit code %d with %s: %+v", x.code, x.policy, is)
			}
		}
		var listed alloc
		for _, a := range c.allocs("telemetry") {
			if a.ID == old.Allocation.ID {
				listed = a
			}
		}
		if want := map[int]string{0: "complete", 1: "failed"}[x.code]; listed.ClientStatus != want {
			t.Errorf("what ended with exit code %d is listed as %+v, and was %+v", x.code, listed, old.Allocation)
		}
		if n := c.standing("telemetry").Observed["Allocation"]; n > 5 || x.again && n != 5 {
			t.Errorf("%d allocations are counted", n)
		}
		zombies := ""
		for _, z := range c.pes("telemetry")["telemetry.sink[0]"].Zombies {
			zombies += z.ID
		}
		status := ""
		for _, r := range c.resources("owner=" + old.UID) {
			if r.ID == old.Allocation.ID {
				status = r.Status
			}
		}
		if keeps := strings.Contains(x.policy, "DeleteFailed"); keeps != (zombies == old.Allocation.ID) || keeps != (status == "zombie") {
			t.Errorf("with %s there are the zombies %q, and it is listed as %q", x.policy, zombies, status)
		}
		c.remove("propagation=foreground")
		c.gone(first)
	}
	c.register(`"Isolated":true}`, `"Isolated":true},"Policy":{"RestartFailed":false,"RestartDeleted":false}`)
	c.settled(5, 1)
	old := c.pes("telemetry")["telemetry.sink[0]"].Allocation
	was := map[string]string{}
	for _, p := range c.pes("telemetry") {
		was[p.Name] = p.Allocation.NodeID
	}
	c.must(http.MethodPut, "/v1/node/"+old.NodeID+"/drain", `{"DrainSpec":{"Deadline":3600000000000}}`)
	c.until("what it had runs elsewhere", func() string {
		for _, p := range c.pes("telemetry") {
			moved := was[p.Name] == old.NodeID
			if !p.runs() || p.Allocation.NodeID == old.NodeID || (p.LaunchCount == 2) != moved {
				return fmt.Sprintf("%+v", p)
			}
		}
		return ""
	})
	c.until("the drain is over", func() string {
		var n struct{ DrainStrategy any }
		if c.get("/v1/node/"+old.NodeID, &n); n.DrainStrategy != nil {
			return fmt.Sprint(n.DrainStrategy)
		}
		return ""
	})
}

// Whatever a user deletes of a job that runs is there again, under another UID.
func TestS19(t *testing.T) {
	long(t)
	c := newCluster(t, options{})
	c.must(http.MethodPut, "/v1/jobs", alertsText)
	first := c.register(withImport...)
	c.settled(5, 1)
	c.settledJob("alerts", 1, 1)
	for _, kind := range kinds {
		r := c.resources("owner=" + first + "&kind=" + kind)[0]
		c.must(http.MethodDelete, "/v1/resource/"+r.UID, "")
		c.until(kind+" "+r.Name+" is there again", func() string {
			all := c.resources("owner=" + first + "&kind=" + kind)
			i := slices.IndexFunc(all, func(x resource) bool { return x.Name == r.Name })
			if i < 0 || all[i].UID == r.UID {
				return fmt.Sprint(all)
			}
			if kind != "ProcessingElement" {
				return ""
			}
			if p := c.pes("telemetry")[r.Name]; p.LaunchCount != 2 || !p.runs() {
				return fmt.Sprintf("%+v", p)
			}
			return ""
		})
	}
	c.recovered(c.settled(5, 0), first, 0)
	c.routes(3, 1)
}

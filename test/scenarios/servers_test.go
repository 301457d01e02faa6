package scenarios

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A leader stands still with a placement in hand, while another one recovers the
// job. When it goes on, what it decided reaches nothing.
func TestS11(t *testing.T) {
	long(t)
	c := newCluster(t, options{})
	old := c.leader()
	c.arm("addAlloc", "before", 4, "hang")
	first := c.register()
	c.placed(3)
	old.signal(syscall.SIGSTOP)
	defer old.signal(syscall.SIGCONT)
	now := c.settled(5, 1)
	c.recovered(now, first, 1)
	old.signal(syscall.SIGCONT) // its term ends, and with that the hang
	c.answers(old)
	c.settled(5, 1)
	c.never(first, c.recorder.index("Deleted", first))
	c.orderCheck(first, now.UID)
}

// answers waits until a server knows what the others know.
func (c *cluster) answers(a *agent) {
	c.Helper()
	c.whole()
	c.until(a.name+" knows what the others know", func() string {
		said := map[string]bool{}
		for _, x := range c.servers {
			_, text := x.ask(http.MethodGet, "/v1/operator/state-hash", "")
			said[text] = true
		}
		if len(said) > 1 {
			return fmt.Sprint(said)
		}
		return ""
	})
}

// A placement is on its way when the leader is lost, and the other servers'
// workers stand still until it was recovered. Nothing comes of it.
func TestS12(t *testing.T) {
	long(t)
	c := newCluster(t, options{})
	lead := c.leader()
	c.arm("addAlloc", "before", 3, "hang")
	first := c.register()
	c.placed(2)
	var late []string
	c.until("an evaluation hangs", func() string {
		var all []struct{ ID, Status, TriggeredBy string }
		c.get("/v1/job/telemetry/evaluations", &all)
		for _, e := range all {
			if e.Status == "pending" && e.TriggeredBy == "pe-launch" {
				late = append(late, e.ID)
			}
		}
		if len(late) == 0 {
			return fmt.Sprint(all)
		}
		return ""
	})
	var follower *agent
	for _, a := range c.servers {
		if a != lead {
			follower = a
		}
	}
	follower.signal(syscall.SIGSTOP)
	defer follower.signal(syscall.SIGCONT)
	lead.kill()
	now := c.settled(5, 1) // by the third server, and the one that was started again
	c.recovered(now, first, 1)
	follower.signal(syscall.SIGCONT)
	c.answers(follower)
	for _, id := range late {
		code, text := c.do(http.MethodGet, "/v1/evaluation/"+id, "")
		if code != http.StatusNotFound && !strings.Contains(text, `"Status":"canceled"`) {
			t.Errorf("the evaluation: %d %s", code, text)
		}
		if _, text := c.do(http.MethodGet, "/v1/evaluation/"+id+"/allocations", ""); code == http.StatusOK && strings.TrimSpace(text) != "[]" {
			t.Errorf("it made %s", text)
		}
	}
	c.settled(5, 1)
	c.orderCheck(first, now.UID)
}

// Jobs that are submitted are left alone when leaders are lost.
func TestS27(t *testing.T) {
	long(t)
	c := newCluster(t, options{memory: 8000})
	for n := range 20 {
		c.must(http.MethodPut, "/v1/jobs", telemetry(`"ID":"telemetry"`, fmt.Sprintf(`"ID":"t%d"`, n)))
	}
	for n := range 5 {
		c.must(http.MethodPut, "/v1/jobs", fmt.Sprintf(`{"Job":{"ID":"web%d","Type":"service","Datacenters":["dc1"],"TaskGroups":[{"Name":"g","Count":2,"Tasks":[%s]}]}}`, n, task))
	}
	for n := range 20 {
		c.settledJob(fmt.Sprint("t", n), 5, 1)
	}
	c.until("the services run, and nothing is decided any more", func() string {
		running := 0
		for n := range 5 {
			for _, a := range c.allocs(fmt.Sprint("web", n)) {
				if a.ClientStatus == "running" {
					running++
				}
			}
		}
		if running == 10 {
			return ""
		}
		return fmt.Sprint(running)
	})
	before, last := c.everything()
	for range 5 {
		lead := c.leader()
		lead.kill()
		c.newLeader(lead)
		c.whole()
	}
	after, most := c.everything()
	if !maps.Equal(before, after) {
		for k := range before {
			if before[k] != after[k] {
				t.Errorf("%s: %s was %s", k, after[k], before[k])
			}
		}
	}
	for _, e := range c.recorder.events() {
		if e.Type == "Deleted" || e.Type == "Retired" {
			t.Errorf("%v", &e)
		}
	}
	if last != most {
		t.Errorf("the last number was %d, and is %d", last, most)
	}
	c.register()
	if now := c.settled(5, 1); now.StreamID <= last {
		t.Errorf("the next one has the number %d after %d", now.StreamID, last)
	}
}

// everything is what a change of leader must not change, and the highest number
// of a stream job.
func (c *cluster) everything() (all map[string]string, last uint64) {
	c.Helper()
	all = map[string]string{}
	for n := range 20 {
		job := fmt.Sprint("t", n)
		s := c.standing(job)
		all[job] = fmt.Sprint(s.UID, s.StreamID, s.Generation, s.Phase, s.Recovery)
		last = max(last, s.StreamID)
		for name, p := range c.pes(job) {
			all[name] = fmt.Sprint(p.UID, p.ID, p.Generation, p.LaunchCount, *p.Allocation)
		}
	}
	for _, r := range c.resources("") {
		all[r.Kind+" "+r.UID] = fmt.Sprint(r.Name, r.ID, r.Generation, r.OwnerRefs)
	}
	return all, last
}

// All servers are stopped and started while a job is recovered, or what was
// saved at that time is restored.
func TestS28(t *testing.T) {
	long(t)
	t.Run("restarted", func(t *testing.T) {
		c := newCluster(t, options{})
		first := c.halfway(slowly(20)...)
		c.marked(first)
		for _, a := range c.servers {
			a.stop()
		}
		for _, a := range c.servers {
			a.start()
		}
		now := c.settled(5, 1)
		c.recovered(now, first, 1)
		c.nothing(first)
	})
	t.Run("restored", func(t *testing.T) {
		c := newCluster(t, options{})
		first := c.halfway(slowly(20)...)
		c.marked(first)
		saved := c.must(http.MethodGet, "/v1/operator/snapshot", "")
		if !strings.Contains(c.must(http.MethodGet, "/v1/job/telemetry", ""), `"Intent":"recover"`) {
			t.Fatal("it is over, and was to be saved before")
		}
		c.recovered(c.settled(5, 1), first, 1)
		c.whole()
		c.must(http.MethodPut, "/v1/operator/snapshot", saved)
		now := c.settled(5, 1)
		c.recovered(now, first, 1)
		c.nothing(first)
	})
}

// nothing waits until an incarnation that is gone owns nothing.
func (c *cluster) nothing(uid string) {
	c.Helper()
	c.until("nothing of it is left", func() string {
		if left := c.resources("owner=" + uid + "&recursive=true"); len(left) > 0 {
			return fmt.Sprint(left)
		}
		return ""
	})
}

// tasks returns the processes of an allocation.
func (c *cluster) tasks(id string) (pids []int) {
	for _, pid := range processes(c.mark) {
		env, _ := os.ReadFile(filepath.Join("/proc", fmt.Sprint(pid), "environ"))
		if strings.Contains(string(env), "NOMAD_ALLOC_ID="+id) {
			pids = append(pids, pid)
		}
	}
	return pids
}

//go:build faults

package scenarios

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"berth/test/bed"
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
	c.until("the fourth hangs", func() string { return c.hang(old) })
	pe := c.pes("telemetry")["telemetry.source[0]"].UID
	term := c.term()
	old.Signal(syscall.SIGSTOP)
	defer old.Signal(syscall.SIGCONT)
	now := c.settled(5, 1)
	c.recovered(now, first, 1)
	old.Signal(syscall.SIGCONT)
	c.answers(old)
	c.here(old, "addAlloc", "before", "off")
	c.until("what hung has gone on", func() string {
		for line := range strings.Lines(old.AllSaid()) {
			if strings.Contains(line, "before addAlloc") && strings.Contains(line, "No cluster leader") {
				return ""
			}
		}
		return "its log does not tell"
	})
	c.settled(5, 1)
	c.never(first, c.recorder.Index("Deleted", first))
	c.orderCheck(first, now.UID)

	key := `"Key":{"Namespace":"default","ID":"telemetry"}`
	c.refused("stale-epoch", "LaunchPE", `{"Term":%d,"PE":%q,"Expect":1}`, term, pe)
	c.refused("owner-missing", "EnsureResources", `{`+key+`,"UID":%q,"Kind":"ProcessingElement","Names":["telemetry.source[0]"]}`, first)
	c.refused("stale-generation", "CompleteSubmission", `{`+key+`,"UID":%q,"Generation":7}`, now.UID)
	c.counted("stale-epoch", "owner-missing", "stale-generation")
	if is := c.settled(5, 1); is.UID != now.UID {
		t.Errorf("%+v", is)
	}
}

// term is that of the log.
func (c *cluster) term() uint64 {
	c.Helper()
	var m struct {
		Gauges []struct {
			Name  string
			Value float64
		}
	}
	c.get("/v1/metrics", &m)
	for _, g := range m.Gauges {
		if g.Name == "nomad.raft.term" {
			return uint64(g.Value)
		}
	}
	c.Fatal("no metric tells the term")
	return 0
}

// counted checks that the server that leads has counted refusals.
func (c *cluster) counted(codes ...string) {
	c.Helper()
	code, text := c.leader().ask(http.MethodGet, "/v1/metrics", "")
	for _, x := range codes {
		if code != http.StatusOK || !strings.Contains(text, "stream.refused") || !strings.Contains(text, fmt.Sprintf("%q", x)) {
			c.Errorf("%s was not counted: %d", x, code)
		}
	}
}

// answers waits until a server knows what the others know.
func (c *cluster) answers(a *agent) {
	c.Helper()
	c.whole()
	c.until(a.Name+" knows what the others know", func() string {
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

// A worker of a server that does not lead has an evaluation in hand, and hangs
// until long after the job was recovered. Its plan comes late, and makes nothing.
func TestS12(t *testing.T) {
	long(t)
	c := newCluster(t, options{})
	lead := c.leader()
	first, eval := "", ""
	var late *agent
	for n := 0; late == nil; n++ { // which workers get what is chance
		if n == 20 {
			t.Fatal("no worker but the leader's ever had an evaluation")
		}
		for _, a := range c.servers {
			if a != lead {
				c.here(a, "planAlloc", "before", "hang")
			}
		}
		first = c.register()
		if late = c.hangs(); late == nil {
			c.remove("propagation=foreground")
			c.gone(first)
		}
	}
	eval = c.pending()
	for _, a := range c.servers {
		if a != lead && a != late {
			c.here(a, "planAlloc", "before", "off")
		}
	}
	made := 0
	for _, p := range c.pes("telemetry") {
		if p.Allocation != nil {
			made++
		}
	}
	lead.Kill()
	now := c.settled(5, 1)
	c.recovered(now, first, 1)
	c.whole()
	c.here(late, "planAlloc", "before", "off")
	c.until("the plan came late", func() string {
		for _, a := range c.servers {
			for line := range strings.Lines(a.AllSaid()) {
				if strings.Contains(line, "before planAlloc") && strings.Contains(line, "No cluster leader") {
					return ""
				}
			}
		}
		return "no log tells"
	})
	c.counted("stale-epoch")
	c.settled(5, 1)
	c.orderCheck(first, now.UID)
	if n := len(c.recorder.Placed(first)); n != made {
		t.Errorf("%d were placed of %s, and %d when its leader was lost", n, first, made)
	}
	code, text := c.do(http.MethodGet, "/v1/evaluation/"+eval, "")
	if code != http.StatusNotFound && !strings.Contains(text, `"Status":"canceled"`) {
		t.Errorf("the evaluation: %d %s", code, text)
	}
	status, text := c.do(http.MethodPut, "/v1/operator/failpoint/entry", fmt.Sprintf(`{"Command":"ApplyPlan","Fields":{"Eval":%q,"Place":[{"Group":2,"NodeID":%q}]}}`,
		eval, c.pes("telemetry")["telemetry.sink[0]"].Allocation.NodeID))
	if status != http.StatusConflict && status != http.StatusNotFound {
		t.Errorf("a plan for it: %d %s", status, text)
	}
}

// hang says what is amiss if nothing hangs at a server.
func (c *cluster) hang(a *agent) (amiss string) {
	c.Helper()
	var is struct{ Hanging []string }
	code, text := a.ask(http.MethodGet, "/v1/agent/failpoint", "")
	if err := json.Unmarshal([]byte(text), &is); code != http.StatusOK || err != nil {
		return text
	}
	if len(is.Hanging) == 0 {
		return "nothing hangs at " + a.Name
	}
	return ""
}

// hangs waits until T is submitted, or a plan for it hangs at a server, which it
// returns.
func (c *cluster) hangs() (at *agent) {
	c.Helper()
	c.until("it is submitted, or hangs", func() string {
		for _, a := range c.servers {
			if c.hang(a) == "" {
				at = a
				return ""
			}
		}
		if c.standing("telemetry").Phase == "Submitted" {
			return ""
		}
		return "neither"
	})
	return at
}

// pending is the evaluation that is to place a processing element of T, "" if
// there is none.
func (c *cluster) pending() (id string) {
	c.Helper()
	var all []struct{ ID, Status, TriggeredBy string }
	c.get("/v1/job/telemetry/evaluations", &all)
	for _, e := range all {
		if e.Status == "pending" && e.TriggeredBy == "pe-launch" {
			id = e.ID
		}
	}
	return id
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
		lead, term := c.leader(), c.term()
		lead.Kill()
		c.newTerm(term)
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
	for _, e := range c.recorder.Events() {
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
		c.orderCheck(first, now.UID)
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
func (c *cluster) tasks(id string) []int { return bed.Tasks(c.Processes())[id] }

package real

import (
	"fmt"
	"strings"
	"testing"

	"berth/test/bed"
)

// quick is a server that gives nodes up soon, but not one whose agent a busy
// machine takes some seconds to start again.
const quick = `
server {
  enabled                = true
  bootstrap_expect       = 1
  min_heartbeat_ttl      = "1s"
  heartbeat_grace        = "20s"
  failover_heartbeat_ttl = "5s"
}`

// A job that fits nowhere says what was missing where, and runs as soon as a
// node with room joins. When that node's agent dies, what it ran is replaced
// where there is room, and waits where there is none; when it is back, it stops
// what is not its own any more.
func TestANodeJoinsDiesAndComesBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	small := w.agent("small", quick, `client {
		enabled         = true
		memory_total_mb = 1024
	}`)
	small.joined()
	const wants = `resources {
		  cpu    = %d
		  memory = %d
		}`
	huge := func(cpu, memory int) string {
		return strings.Replace(sh(`exec sleep 1000`), "resources {\n\t\t  cpu    = 50\n\t\t  memory = 32\n\t\t}", fmt.Sprintf(wants, cpu, memory), 1)
	}
	big := w.file("big.nomad", fmt.Sprintf("job \"big\" {\n group \"memory\" {\n%s\n}\n group \"processor\" {\n%s\n}\n}", huge(50, 4096), huge(15000, 32)))

	s := small.berth("job", "run", big)
	if s.Code != 2 {
		t.Errorf("%v", s)
	}
	w.holds(s.Out, `Task Group "memory" (failed to place 1 allocation):`, "* 1 node: memory 4096 MiB requested, 1024 free",
		`Task Group "processor" (failed to place 1 allocation):`, "* 1 node: cpu 15000 MHz requested, 10000 free", "waiting for additional capacity")
	w.holds(small.good("job", "status", "big"), "Status        = pending", "memory 4096 MiB requested", "retried when capacity frees up on a node or another node joins")
	if n := len(small.evalsOf("queued-allocs", "blocked")); n != 1 {
		t.Errorf("%d evaluations are blocked", n)
	}

	large := w.agent("large", `client {
		enabled           = true
		servers           = ["`+small.rpc+`"]
		memory_total_mb   = 8192
		cpu_total_compute = 20000
	}`)
	if large.rpc != "" || large.nodeID == "" || large.nodeID == small.nodeID {
		t.Errorf("%+v", large)
	}
	large.joined()
	was := small.settled("big", 2)
	if n := len(small.evalsOf("queued-allocs", "blocked")); n != 0 {
		t.Errorf("%d evaluations are blocked", n)
	}
	// This one would rather be there, but could be elsewhere.
	small.good("job", "run", w.file("web.nomad", group("service", "web", `
		affinity {
		  attribute = "${node.unique.name}"
		  value     = "large"
		  weight    = 100
		}`, sh(`echo here; exec sleep 1000`))))
	web := small.settled("web", 1)
	for _, job := range []string{"big", "web"} {
		for _, al := range small.allocs(job) {
			if al.NodeID != large.nodeID {
				t.Errorf("%s is not on the large node", al.Name)
			}
		}
	}
	t.Run("HTTP of an agent that is no server", func(t *testing.T) { clientOnly(t, small, large) })

	// Back before it is given up, it goes on with what it has.
	large.again()
	if amiss := same(was, small.settled("big", 2)) + same(web, small.settled("web", 1)); amiss != "" {
		t.Error(amiss)
	}
	large.Kill()
	w.until("the node is given up", func() string {
		out := small.good("node", "status")
		if strings.Contains(out, "down") {
			return ""
		}
		return bed.Got(out)
	})
	w.until("its allocations are replaced, or wait", func() string {
		lost := small.good("job", "status", "big")
		web := small.allocs("web")
		if len(web) == 2 && web[0].ClientStatus == "lost" && web[1].ClientStatus == "running" && web[1].NodeID == small.nodeID &&
			len(small.evalsOf("node-update", "pending")) == 0 && strings.Contains(lost, "memory 4096 MiB requested") {
			return ""
		}
		return fmt.Sprint(lost, web)
	})
	for _, al := range small.allocs("big") {
		if al.ClientStatus != "lost" {
			t.Errorf("%s is %s", al.Name, al.ClientStatus)
		}
	}
	for id, pids := range was {
		if !bed.Alive(pids[0]) {
			t.Errorf("%s ended with the agent", id)
		}
	}

	large.start()
	large.joined()
	now := small.settled("big", 2)
	small.settled("web", 1)
	for _, pids := range []map[string][]int{was, web} {
		for id, p := range pids {
			if bed.Alive(p[0]) || now[id] != nil {
				t.Errorf("%s, which was given up, runs", id)
			}
		}
	}
	if all := small.allocs("web"); len(all) != 2 {
		t.Errorf("the job was placed again though it ran: %+v", all)
	}
}

// clientOnly: whatever agent is asked, servers answer, and the node that has
// the logs.
func clientOnly(t *testing.T, server, client *agent) {
	w := server.w
	defer func(parent *testing.T) { w.t = parent }(w.t)
	w.t = t
	server.good("job", "run", w.file("there.nomad", group("service", "there", `
		constraint {
		  attribute = "${node.unique.name}"
		  value     = "small"
		}`, sh(`echo there; echo oops >&2; exec sleep 1000`))))
	server.settled("there", 1)
	for _, a := range []*agent{server, client} {
		w.holds(a.good("job", "status", "web"), "ID            = web", "Status        = running")
		w.holds(a.good("node", "status"), "small", "large")
		a.prints("here\n", "-job", "web")
		a.prints("there\n", "-job", "there")
		a.prints("oops\n", "-stderr", "-job", "there")
	}
	// Writes and waiting reads go through, too.
	h, err := client.try("GET", "/v1/jobs", "", nil)
	if err != nil || h.Get("X-Nomad-Index") == "" {
		t.Fatalf("%v, %v", h, err)
	}
	done := make(chan string)
	go func() {
		after, err := client.try("GET", "/v1/jobs?wait=2m&index="+h.Get("X-Nomad-Index"), "", nil)
		done <- fmt.Sprint(after.Get("X-Nomad-Index") != h.Get("X-Nomad-Index"), err)
	}()
	w.holds(client.good("job", "stop", "-purge", "there"), "finished with status")
	if got := <-done; got != "true <nil>" {
		t.Errorf("a waiting read saw %s", got)
	}
	server.settled("there", 0)
	var self struct {
		Member struct{ Name string }
	}
	if client.get("/v1/agent/self", &self); !strings.HasPrefix(self.Member.Name, "large.") {
		t.Errorf("the agent is called %s", self.Member.Name)
	}
}

package real

import (
	"fmt"
	"maps"
	"slices"
	"syscall"
	"testing"
)

// fleet is a server and ten agents in five racks, two to each.
type fleet struct {
	*agent // the server, which runs nothing
	nodes  []*agent
	rack   map[string]string // by node ID
}

// fleetServer gives nodes up soon, but not those that a busy machine holds up.
const fleetServer = `
server {
  enabled                = true
  bootstrap_expect       = 1
  min_heartbeat_ttl      = "1s"
  heartbeat_grace        = "20s"
  failover_heartbeat_ttl = "30s"
}`

func newFleet(t *testing.T, count int) *fleet {
	t.Helper()
	w := newWorld(t)
	f := &fleet{agent: w.agent("server", fleetServer), rack: map[string]string{}}
	f.joined()
	for i := range count {
		f.join(fmt.Sprintf("n%d", i+1), fmt.Sprintf("r%d", i%5+1))
	}
	for _, n := range f.nodes {
		n.joined()
	}
	return f
}

func (f *fleet) join(name, rack string) *agent {
	f.w.t.Helper()
	n := f.w.agent(name, fmt.Sprintf(`client {
		enabled = true
		servers = [%q]
		meta { rack = %q }
	}`, f.rpc, rack))
	f.nodes = append(f.nodes, n)
	f.rack[n.nodeID] = rack
	return n
}

// on counts the instances of a job in a status, by node.
func (f *fleet) on(job, status string) map[string]int {
	out := map[string]int{}
	for _, a := range f.allocs(job) {
		if a.ClientStatus == status && (a.DesiredStatus == "run" || status != "running") {
			out[a.NodeID]++
		}
	}
	return out
}

// once says what is amiss unless each node has one instance in that status.
func (f *fleet) once(job, status string) string {
	on := f.on(job, status)
	for _, n := range f.nodes {
		if on[n.nodeID] != 1 {
			return fmt.Sprintf("%s has %d of %s that are %s", n.Name, on[n.nodeID], job, status)
		}
	}
	return ""
}

const tiny = `
resources {
  cpu    = 50
  memory = 16
}`

// task is a task that runs a shell script, with room of its own.
func task(script, resources string) string {
	return fmt.Sprintf(`task "main" {
		driver = "raw_exec"
		config {
			command = "/bin/sh"
			args    = ["-c", %q]
		}
		%s
	}`, script, resources)
}

// Ten agents by hand: a system job on all of them and on one that joins later,
// a sysbatch job once on each, a service spread over racks as it was told to,
// a batch job that makes room for a more urgent one, and an agent that goes
// away and comes back.
func TestTenAgents(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 10)
	w := f.w

	f.good("job", "run", "-detach", w.file("guard.nomad", group("system", "guard", "", task("exec sleep 1000", tiny))))
	w.until("the system job runs everywhere", func() string { return f.once("guard", "running") })
	f.good("job", "run", "-detach", w.file("sweep.nomad", group("sysbatch", "sweep", "", task("echo swept", tiny))))
	w.until("the sysbatch job ran everywhere", func() string { return f.once("sweep", "complete") })
	f.join("late", "r1").joined()
	w.until("the system job runs on the late node", func() string { return f.once("guard", "running") })
	w.until("the sysbatch job ran on the late node", func() string { return f.once("sweep", "complete") })

	spreads(f)
	evicts(f)
	goesAway(f)
	if amiss := f.once("sweep", "complete"); amiss != "" {
		t.Errorf("the sysbatch job ran again: %s", amiss)
	}
	w.holds(f.good("job", "status", "guard"), "Type          = system", "Status        = running")
}

// spreads runs a service that wants half of its instances in one rack, and the
// others anywhere.
func spreads(f *fleet) {
	f.w.t.Helper()
	f.good("job", "run", "-detach", f.w.file("wide.nomad", group("service", "wide", `
		count = 10
		spread {
			attribute = "${meta.rack}"
			target "r1" { percent = 50 }
			target "r2" { percent = 30 }
			target "r3" { percent = 20 }
		}`, task("exec sleep 1000", tiny))))
	f.w.until("it is spread", func() string {
		racks := map[string]int{}
		for node, n := range f.on("wide", "running") {
			racks[f.rack[node]] += n
		}
		if maps.Equal(racks, map[string]int{"r1": 5, "r2": 3, "r3": 2}) {
			return ""
		}
		return fmt.Sprint(racks)
	})
	f.good("job", "stop", "wide")
}

// evicts fills all nodes with a batch job and runs a service that needs some of
// the room.
func evicts(f *fleet) {
	f.w.t.Helper()
	f.good("operator", "scheduler", "set-config", "-preempt-service-scheduler=true")
	f.good("job", "run", "-detach", f.w.file("calc.nomad", prioritized("batch", "calc", 20, len(f.nodes), "cpu = 8000")))
	f.w.until("the batch job runs everywhere", func() string { return f.once("calc", "running") })
	f.good("job", "run", "-detach", f.w.file("shop.nomad", prioritized("service", "shop", 70, 2, "cpu = 6000")))
	f.w.until("the service runs", func() string {
		if n := len(f.on("shop", "running")); n != 2 {
			return fmt.Sprintf("%d run", n)
		}
		return ""
	})
	shop, robbed := f.on("shop", "running"), 0
	var example alloc
	for _, a := range f.allocs("calc") {
		if a.DesiredStatus == "evict" {
			robbed++
			example = a
			if shop[a.NodeID] != 1 {
				f.w.t.Errorf("%s was evicted on a node on which the service does not run", a.Name)
			}
		}
	}
	if robbed != 2 {
		f.w.t.Errorf("%d instances were evicted", robbed)
	}
	f.w.holds(f.good("alloc", "status", example.ID), "= evict", "Preempted by alloc ID", "Preempted By", "shop.g[")
	for _, a := range f.allocs("shop") {
		f.w.holds(f.good("alloc", "status", a.ID), "Preempted Allocations", "calc.g[")
	}
	if !f.raised("preemption") {
		f.w.t.Error("the batch job had no evaluation for what it lost")
	}
	f.w.until("what was evicted waits", func() string {
		return missing(f.good("job", "status", "calc"), "retried when capacity frees up on a node")
	})
	f.good("job", "stop", "shop")
	f.w.until("the batch job has all its instances again", func() string { return f.once("calc", "running") })
	f.good("job", "stop", "calc")
}

// goesAway stops an agent's process for a while: what it runs is unknown
// meanwhile and replaced, and of the two one remains.
func goesAway(f *fleet) {
	f.w.t.Helper()
	f.good("job", "run", "-detach", f.w.file("stays.nomad", group("service", "stays", `
		disconnect {
			lost_after = "1h"
			replace    = true
			reconcile  = "keep_original"
		}`, task("exec sleep 1000", tiny))))
	f.w.until("it runs", func() string {
		if n := len(f.on("stays", "running")); n != 1 {
			return fmt.Sprintf("%d run", n)
		}
		return ""
	})
	was := f.allocs("stays")[0]
	at := slices.IndexFunc(f.nodes, func(n *agent) bool { return n.nodeID == was.NodeID })
	away := f.nodes[at]
	pids := f.w.tasks()[was.ID]
	if err := away.Signal(syscall.SIGSTOP); err != nil {
		f.w.t.Fatal(err)
	}
	f.w.until("it is unknown, and replaced", func() string {
		all := f.allocs("stays")
		if len(all) == 2 && all[0].ClientStatus == "unknown" && all[1].ClientStatus == "running" {
			return ""
		}
		return fmt.Sprint(all)
	})
	f.w.holds(f.good("node", "status"), "disconnected")
	f.w.holds(f.good("alloc", "status", was.ID), "= unknown")
	if err := away.Signal(syscall.SIGCONT); err != nil {
		f.w.t.Fatal(err)
	}
	f.w.until("it is back, and its replacement gone", func() string {
		all := f.allocs("stays")
		if len(all) == 2 && all[0].ClientStatus == "running" && all[0].DesiredStatus == "run" &&
			all[1].ClientStatus == "complete" && all[1].DesiredStatus == "stop" {
			return ""
		}
		return fmt.Sprint(all)
	})
	if now := f.w.tasks()[was.ID]; !slices.Equal(now, pids) {
		f.w.t.Errorf("its processes were %v and are %v", pids, now)
	}
	if !f.raised("reconnect") {
		f.w.t.Error("no evaluation was raised when it came back")
	}
	f.w.until("the system job runs everywhere", func() string { return f.once("guard", "running") })
}

// raised reports whether an evaluation was raised by a trigger.
func (f *fleet) raised(trigger string) bool {
	return slices.ContainsFunc(f.evals(), func(e eval) bool { return e.TriggeredBy == trigger })
}

// prioritized is the file of a job of that priority and count.
func prioritized(typ, name string, priority, count int, room string) string {
	return fmt.Sprintf(`job %q {
		type     = %q
		priority = %d
		group "g" {
			count = %d
			%s
		}
	}`, name, typ, priority, count, task("exec sleep 1000", "resources {\n"+room+"\nmemory = 16\n}"))
}

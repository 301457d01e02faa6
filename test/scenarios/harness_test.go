//go:build faults

// Package scenarios plays the acceptance scenarios of stream jobs, S1 to S28,
// on real processes: three servers and three nodes, each the real binary on
// loopback, which fail at points that are armed over HTTP. A server that ends
// is started again five seconds later. Everything is checked over HTTP.
//
// S1, S2, S6 and S16 are always played; all of them, and some more tests, with
// BERTH_LONG=1.
package scenarios

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"berth/internal/failpoint"
	"berth/internal/freeport"
	"berth/test/bed"
	"berth/test/record"
)

// restart is how long a server that has ended stays away.
const restart = 5 * time.Second

func TestMain(m *testing.M) { os.Exit(bed.Main(m)) }

// long skips a scenario that is not one of the few that are always played.
func long(t *testing.T) {
	t.Helper()
	if os.Getenv("BERTH_LONG") == "" {
		t.Skip("only with BERTH_LONG=1")
	}
}

// cluster is three servers, three nodes, and what they say.
type cluster struct {
	*testing.T
	*bed.Bed
	servers  []*agent
	nodes    []*agent
	recorder *record.Recorder
	over     chan struct{} // closed when it ends
	tending  sync.WaitGroup
	deaths   atomic.Int32 // of servers
	dangling bool         // an incarnation that was deleted in the background may still own something

	mu     sync.Mutex
	missed []string
}

// options are what a scenario wants of its cluster.
type options struct {
	server string            // more of the servers' configuration
	meta   map[string]string // tags of nodes by name, in place of those of n1 and n2
	memory int               // of each node, in MB; 0 is 2000
	slow   bool              // the disks of servers can be made slow
}

// newCluster starts a cluster and waits until all of it is there.
func newCluster(t *testing.T, o options) *cluster {
	t.Helper()
	c := &cluster{T: t, Bed: bed.ForTest(t), over: make(chan struct{})}
	t.Cleanup(c.end)
	var serfs, rpcs []string
	for i := range 3 {
		a := &agent{c: c, Agent: c.Agent(fmt.Sprint("s", i+1)), server: true, http: freePort(t), rpc: freePort(t), serf: freePort(t)}
		c.servers = append(c.servers, a)
		serfs, rpcs = append(serfs, fmt.Sprintf(`"127.0.0.1:%d"`, a.serf)), append(rpcs, fmt.Sprintf(`"127.0.0.1:%d"`, a.rpc))
	}
	for _, a := range c.servers {
		a.configure(fmt.Sprintf(serverConfig, strings.Join(serfs, ", "), o.server))
		if o.slow {
			a.points = filepath.Join(c.Dir, a.Name+".points")
		}
		a.launch()
	}
	tags := map[string]string{"n1": "ssd,rack-a", "n2": "ssd,rack-a"}
	if o.meta != nil {
		tags = o.meta
	}
	if o.memory == 0 {
		o.memory = 2000
	}
	for i := range 3 {
		a := &agent{c: c, Agent: c.Agent(fmt.Sprint("n", i+1)), http: freePort(t), rpc: freePort(t), serf: freePort(t)}
		c.nodes = append(c.nodes, a)
		a.configure(fmt.Sprintf(nodeConfig, strings.Join(rpcs, ", "), c.CgroupParent(), 21000+1000*i, 21999+1000*i, o.memory, tags[a.Name]))
		a.launch()
	}
	c.until("three nodes are ready, three servers vote", func() string {
		var nodes []struct{ Name, Status string }
		var raft struct{ Servers []struct{ Voter bool } }
		c.get("/v1/nodes", &nodes)
		c.get("/v1/operator/raft/configuration", &raft)
		n := 0
		for _, x := range nodes {
			if x.Status == "ready" {
				n++
			}
		}
		for _, x := range raft.Servers {
			if x.Voter {
				n++
			}
		}
		if n == 6 {
			return ""
		}
		return fmt.Sprint(nodes, raft)
	})
	c.recorder = records(c)
	return c
}

const serverConfig = `
server {
  enabled          = true
  raft_multiplier  = 3 # no server but those that end is taken for lost on a busy machine
  bootstrap_expect = 3
  server_join {
    retry_join     = [%s]
    retry_interval = "1s"
  }
  %s
}
autopilot {
  server_stabilization_time = "1s"
}
`

const nodeConfig = `
client {
  enabled           = true
  servers           = [%s]
  network_interface = "lo"
  cgroup_parent     = "%s"
  min_dynamic_port  = %d
  max_dynamic_port  = %d
  cpu_total_compute = 10000
  memory_total_mb   = %d
  disk_total_mb     = 100000 # whatever this machine has
  meta {
    tags = "%s"
  }
}
plugin "raw_exec" {
  config {
    enabled = true
  }
}
`

// end ends all agents and checks that the job was never missing.
func (c *cluster) end() {
	if c.Failed() {
		for _, a := range c.servers {
			_, text := a.ask("GET", "/v1/evaluations?stale=true&filter="+url.QueryEscape(`Status == "pending" or Status == "blocked"`), "")
			c.Logf("open evaluations, as %s knows them: %s", a.Name, text)
		}
	}
	close(c.over)
	for _, a := range append(c.servers, c.nodes...) {
		a.stop()
	}
	c.tending.Wait()
	for _, m := range c.missed {
		c.Error(m)
	}
	if c.Failed() && c.recorder != nil {
		c.Logf("what was recorded:\n%s", c.recorder)
	}
}

// agent is one process of the cluster, which keeps its ports and its data.
type agent struct {
	*bed.Agent
	c               *cluster
	server          bool
	http, rpc, serf int
	points          string // a file of failpoints that it follows, "" if it follows none

	mu    sync.Mutex
	stays bool // it is not started again
}

func (a *agent) addr() string { return fmt.Sprintf("http://127.0.0.1:%d", a.http) }

// configure writes the agent's configuration.
func (a *agent) configure(more string) {
	a.c.Helper()
	file, err := a.c.File(a.Name+".hcl", fmt.Sprintf("name = %q\ndata_dir = %q\nbind_addr = \"127.0.0.1\"\nports {\n  http = %d\n  rpc = %d\n  serf = %d\n}\n%s",
		a.Name, filepath.Join(a.c.Dir, a.Name), a.http, a.rpc, a.serf, more))
	if err != nil {
		a.c.Fatal(err)
	}
	a.Args = []string{"-config", file}
}

// launch starts the process, and sees to it that a server is started again.
func (a *agent) launch() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stays || a.Running() {
		return
	}
	var env []string
	if a.points != "" {
		env = append(env, failpoint.Env+"=@"+a.points)
	}
	if err := a.Start(env...); err != nil {
		a.c.Error(err)
		return
	}
	if a.server {
		ended := a.Done()
		a.c.tending.Go(func() { <-ended; a.tend() })
	}
}

// tend starts a server again that has ended.
func (a *agent) tend() {
	a.mu.Lock()
	stays := a.stays
	a.mu.Unlock()
	if stays {
		return
	}
	a.c.deaths.Add(1)
	select {
	case <-time.After(restart):
		a.launch()
	case <-a.c.over:
	}
}

// stop kills the process and keeps it from being started again.
func (a *agent) stop() {
	a.mu.Lock()
	a.stays = true
	a.mu.Unlock()
	a.Kill()
}

// start starts what was stopped.
func (a *agent) start() {
	a.mu.Lock()
	a.stays = false
	a.mu.Unlock()
	a.launch()
}

func freePort(t *testing.T) int {
	t.Helper()
	port, err := freeport.Take()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

//go:build faults

// Package scenarios plays the acceptance scenarios of stream jobs, S1 to S28,
// on real processes: three servers and three nodes, each the real binary on
// loopback, which fail at points that are armed over HTTP. A server that ends
// is started again five seconds later. Everything is checked by what HTTP says.
//
// S1, S2, S6 and S16 are played always; all of them with BERTH_LONG=1, and some
// more beside them.
package scenarios

import (
	"bytes"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"berth/internal/failpoint"
	"berth/internal/freeport"
	"berth/test/record"
)

const (
	// settle is how long what must come may take.
	settle = 60 * time.Second
	// restart is how long a server that has ended stays away.
	restart = 5 * time.Second
)

// run is what all scenarios of this run share.
var run struct {
	dir  string // with the binary
	mark string // begins the mark of every cluster
	last atomic.Int32
}

// markVar marks what a cluster has started. Agents hand nothing of their
// environment to tasks but a few variables, and those of the locale are among
// them.
const markVar = "LC_BERTH_SCENARIOS"

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var err error
	if run.dir, err = os.MkdirTemp("", "berth-scen-"); err != nil { // short: paths of sockets are below it
		return fail(err)
	}
	defer os.RemoveAll(run.dir)
	run.mark = filepath.Base(run.dir)
	build := exec.Command("go", "build", "-tags", "faults", "-o", binary(), "berth/cmd/berth")
	if out, err := build.CombinedOutput(); err != nil {
		return fail(fmt.Errorf("%w\n%s", err, out))
	}
	code := m.Run()
	if left := processes(run.mark); len(left) > 0 {
		code = fail(fmt.Errorf("processes are left: %v", left))
		kill(left)
	}
	return code
}

func binary() string { return filepath.Join(run.dir, "berth") }

// long says that a scenario is not one of the few that are always played.
func long(t *testing.T) {
	t.Helper()
	if os.Getenv("BERTH_LONG") == "" {
		t.Skip("only with BERTH_LONG=1")
	}
}

// cluster is three servers, three nodes, and what they say.
type cluster struct {
	*testing.T
	dir, mark string
	servers   []*agent
	nodes     []*agent
	recorder  *record.Recorder
	over      chan struct{} // closed when it ends
	tending   sync.WaitGroup
	deaths    atomic.Int32 // of servers
	dangling  bool         // an incarnation that was deleted in the background may still own something

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
	c := &cluster{T: t, mark: fmt.Sprintf("%s.%d.", run.mark, run.last.Add(1)), over: make(chan struct{})}
	c.dir = filepath.Join(run.dir, strconv.Itoa(int(run.last.Load())))
	if err := os.Mkdir(c.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.end)
	var serfs, rpcs []string
	for i := range 3 {
		a := &agent{c: c, name: fmt.Sprint("s", i+1), server: true, http: freePort(t), rpc: freePort(t), serf: freePort(t)}
		c.servers = append(c.servers, a)
		serfs, rpcs = append(serfs, fmt.Sprintf(`"127.0.0.1:%d"`, a.serf)), append(rpcs, fmt.Sprintf(`"127.0.0.1:%d"`, a.rpc))
	}
	for _, a := range c.servers {
		a.configure(fmt.Sprintf(serverConfig, strings.Join(serfs, ", "), o.server))
		if o.slow {
			a.points = filepath.Join(c.dir, a.name+".points")
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
		a := &agent{c: c, name: fmt.Sprint("n", i+1), http: freePort(t), rpc: freePort(t), serf: freePort(t)}
		c.nodes = append(c.nodes, a)
		a.configure(fmt.Sprintf(nodeConfig, strings.Join(rpcs, ", "), c.mark, 21000+1000*i, 21999+1000*i, o.memory, tags[a.name]))
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
  cgroup_parent     = "%sslice"
  min_dynamic_port  = %d
  max_dynamic_port  = %d
  cpu_total_compute = 10000
  memory_total_mb   = %d
  disk_total_mb     = 100000 # whatever room this machine has
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

// end ends everything, and looks whether the job was ever missed.
func (c *cluster) end() {
	if c.Failed() {
		for _, a := range c.servers {
			_, text := a.ask("GET", "/v1/evaluations?stale=true&filter="+url.QueryEscape(`Status == "pending" or Status == "blocked"`), "")
			c.Logf("open evaluations, as %s knows them: %s", a.name, text)
		}
	}
	close(c.over)
	for _, a := range append(c.servers, c.nodes...) {
		a.stop()
	}
	c.tending.Wait()
	for end := time.Now().Add(settle); ; time.Sleep(5 * time.Millisecond) {
		left := processes(c.mark)
		if len(left) == 0 {
			break
		}
		if time.Now().After(end) {
			c.Errorf("these cannot be killed: %v", left)
			break
		}
		kill(left)
	}
	for _, pattern := range []string{"/sys/fs/cgroup/", "/sys/fs/cgroup/*/"} {
		found, _ := filepath.Glob(pattern + c.mark + "slice")
		for _, dir := range found {
			children, _ := filepath.Glob(dir + "/*/cgroup.procs")
			for _, x := range children {
				_ = os.Remove(filepath.Dir(x))
			}
			if err := os.Remove(dir); err != nil {
				c.Error(err)
			}
		}
	}
	for _, m := range c.missed {
		c.Error(m)
	}
	for _, a := range append(c.servers, c.nodes...) {
		text, _ := os.ReadFile(a.log())
		if i := bytes.Index(text, []byte("panic:")); i >= 0 {
			c.Errorf("%s: %s", a.name, text[i:])
		} else if c.Failed() {
			c.Logf("log of %s:\n%s", a.name, text[max(0, len(text)-3000):])
		}
	}
	if c.Failed() && c.recorder != nil {
		c.Logf("what was recorded:\n%s", c.recorder)
	}
	_ = os.RemoveAll(c.dir)
}

// agent is one process of the cluster, which keeps its ports and its data.
type agent struct {
	c               *cluster
	name            string
	server          bool
	http, rpc, serf int
	file            string
	points          string // a file of failpoints that it follows, "" if it follows none

	mu    sync.Mutex
	cmd   *exec.Cmd // nil while it does not run
	done  chan struct{}
	stays bool // it is not started again
}

func (a *agent) addr() string { return fmt.Sprintf("http://127.0.0.1:%d", a.http) }
func (a *agent) log() string  { return filepath.Join(a.c.dir, a.name+".log") }

// configure writes the agent's configuration.
func (a *agent) configure(more string) {
	a.c.Helper()
	a.file = filepath.Join(a.c.dir, a.name+".hcl")
	text := fmt.Sprintf("name = %q\ndata_dir = %q\nbind_addr = \"127.0.0.1\"\nports {\n  http = %d\n  rpc = %d\n  serf = %d\n}\n%s",
		a.name, filepath.Join(a.c.dir, a.name), a.http, a.rpc, a.serf, more)
	if err := os.WriteFile(a.file, []byte(text), 0o600); err != nil {
		a.c.Fatal(err)
	}
}

// launch starts the process, and sees to it that a server is started again.
func (a *agent) launch() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stays || a.cmd != nil {
		return
	}
	out, err := os.OpenFile(a.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		a.c.Error(err)
		return
	}
	defer out.Close()
	cmd, done := exec.Command(binary(), "agent", "-config", a.file), make(chan struct{})
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + a.c.dir, "TMPDIR=" + a.c.dir, markVar + "=" + a.c.mark}
	if a.points != "" {
		cmd.Env = append(cmd.Env, failpoint.Env+"=@"+a.points)
	}
	cmd.Dir, cmd.Stdout, cmd.Stderr = a.c.dir, out, out
	if err := cmd.Start(); err != nil {
		a.c.Error(err)
		return
	}
	a.cmd, a.done = cmd, done
	a.c.tending.Go(func() { a.tend(cmd, done) })
}

func (a *agent) tend(cmd *exec.Cmd, done chan struct{}) {
	_ = cmd.Wait()
	a.mu.Lock()
	a.cmd = nil
	again := a.server && !a.stays
	a.mu.Unlock()
	close(done)
	if !again {
		return
	}
	a.c.deaths.Add(1)
	select {
	case <-time.After(restart):
		a.launch()
	case <-a.c.over:
	}
}

// runs says whether the process does.
func (a *agent) runs() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.cmd != nil
}

// signal sends the process a signal, if it runs.
func (a *agent) signal(sig syscall.Signal) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cmd != nil {
		_ = a.cmd.Process.Signal(sig)
	}
}

// kill ends the process as a crash does.
func (a *agent) kill() {
	a.mu.Lock()
	done, runs := a.done, a.cmd != nil
	a.mu.Unlock()
	if a.signal(syscall.SIGKILL); runs {
		<-done
	}
}

// stop kills the process and keeps it from being started again.
func (a *agent) stop() {
	a.mu.Lock()
	a.stays = true
	a.mu.Unlock()
	a.kill()
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

// processes are the IDs of those that carry a mark that begins so, and of
// supervisors, which carry none, by the folder in which they are.
func processes(mark string) (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range all {
		if stat, _ := os.ReadFile(d + "/stat"); bytes.Contains(stat, []byte(") Z ")) {
			continue
		}
		env, _ := os.ReadFile(d + "/environ")
		ours := strings.Contains("\x00"+string(env), "\x00"+markVar+"="+mark)
		if !ours {
			exe, _ := os.Readlink(d + "/exe")
			cwd, _ := os.Readlink(d + "/cwd")
			dir := run.dir
			if of := strings.Split(strings.TrimPrefix(mark, run.mark), "."); len(of) > 1 {
				dir = filepath.Join(run.dir, of[1])
			}
			ours = exe == binary() && strings.HasPrefix(cwd+"/", dir+"/")
		}
		if ours {
			pid, _ := strconv.Atoi(filepath.Base(d))
			pids = append(pids, pid)
		}
	}
	return pids
}

func kill(pids []int) {
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// Package real tests the real binary: real agents in their own processes,
// killed as real ones are, with real tasks, called over loopback and through
// the command line as people do it. Package bed ends all that a test starts,
// and fails the run if anything is left or any process saw a data race.
package real

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"berth"
	"berth/internal/eventually"
	"berth/internal/freeport"
	"berth/op"
	"berth/test/bed"
)

// Agents, and commands that run for longer, look for data races. Most commands run
// the plain binary, which starts faster.
func TestMain(m *testing.M) { os.Exit(bed.Main(m, "-race")) }

// world is everything that one test starts.
type world struct {
	*bed.Bed
	t *testing.T
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{bed.ForTest(t), t}
}

// file writes a file of the test and returns its path.
func (w *world) file(name, text string) string {
	w.t.Helper()
	path, err := w.File(name, text)
	if err != nil {
		w.t.Fatal(err)
	}
	return path
}

// until waits until amiss returns "". Anything else is what is still missing.
func (w *world) until(what string, amiss func() string) {
	w.t.Helper()
	if err := bed.Until(w.t.Context(), what, amiss); err != nil {
		w.t.Fatal(err)
	}
}

// countdown ends after a number of events, at a moment that does not depend on
// how busy the machine is.
type countdown struct {
	left atomic.Int64
	over chan struct{} // closed then
}

func newCountdown(n int) *countdown {
	c := &countdown{over: make(chan struct{})}
	c.left.Store(int64(n))
	return c
}

func (c *countdown) tick() {
	if c.left.Add(-1) == 0 {
		close(c.over)
	}
}

// tasks returns the processes of the test's tasks, by allocation.
func (w *world) tasks() map[string][]int { return bed.Tasks(w.Processes()) }

// supervisors returns the process of each allocation's supervisor.
func (w *world) supervisors() map[string]int { return bed.Supervisors(w.Processes()) }

// same says how two pictures of the tasks differ, "" if they do not.
func same(was, is map[string][]int) string {
	if maps.EqualFunc(was, is, slices.Equal[[]int]) {
		return ""
	}
	return fmt.Sprintf("processes by allocation were %v and are %v", was, is)
}

// agent is one agent, which may be killed and started again.
type agent struct {
	*bed.Agent
	w       *world
	mu      sync.Mutex // guards addr: others call an agent while it starts again
	addr    string     // of its HTTP API, as http://…
	rpc     string     // host:port; "" if it is not a server
	nodeID  string     // "" if it is not a node
	dataDir string
}

// common is the configuration of all agents: free ports, and a cgroup of the
// test's own.
const common = `
name     = "NAME"
data_dir = "DIR/NAME"
ports {
  http = 0
  rpc  = RPC
  serf = SERF
}
client {
  network_interface = "lo"
  cgroup_parent     = "CGROUP"
  memory_total_mb   = 2048
  cpu_total_compute = 10000
  disk_total_mb     = 100000 # whatever this machine has
}
plugin "raw_exec" {
  config { enabled = true }
}
plugin "mock_driver" {
  config { enabled = true }
}
`

// both is an agent that is server and node.
const both = `
server { enabled = true bootstrap_expect = 1 }
client { enabled = true }
`

// agent starts an agent. more is configuration beside what is common; later
// texts win.
func (w *world) agent(name string, more ...string) *agent {
	w.t.Helper()
	a := w.unstarted(name, more...)
	a.start()
	return a
}

// unstarted configures an agent.
func (w *world) unstarted(name string, more ...string) *agent {
	w.t.Helper()
	words := strings.NewReplacer("NAME", name, "DIR", w.Dir, "CGROUP", w.CgroupParent(), "RPC", fmt.Sprint(freePort(w.t)), "SERF", fmt.Sprint(freePort(w.t)))
	var args []string
	for i, text := range append([]string{common}, more...) {
		args = append(args, "-config", w.file(fmt.Sprintf("%s.%d.hcl", name, i), words.Replace(text)))
	}
	return &agent{w: w, Agent: w.Agent(name, args...)}
}

func freePort(t *testing.T) int {
	t.Helper()
	port, err := freeport.Take()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// start starts the agent and waits until it has said what it is.
func (a *agent) start(env ...string) {
	a.w.t.Helper()
	if err := a.Start(env...); err != nil {
		a.w.t.Fatal(err)
	}
	if err := a.Await(a.w.t.Context()); err != nil {
		a.w.t.Fatal(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.addr, a.rpc, a.nodeID, a.dataDir = a.Banner("HTTP"), a.Banner("RPC"), a.Banner("Node ID"), a.Banner("Data dir")
}

// argv is the command line of the agent, and more.
func (a *agent) argv(more ...string) []string { return slices.Concat([]string{"agent"}, a.Args, more) }

// signal sends a signal that ends the agent, and returns its exit code.
func (a *agent) signal(sig syscall.Signal) int {
	a.w.t.Helper()
	code, err := a.End(sig)
	if err != nil {
		a.w.t.Fatal(err)
	}
	return code
}

// again kills the agent, starts it with the same folder, and waits until it
// has joined.
func (a *agent) again() {
	a.w.t.Helper()
	a.Kill()
	a.start()
	a.joined()
}

// joined waits until the agent is healthy and the servers know its node as ready.
func (a *agent) joined() {
	a.w.t.Helper()
	a.w.until(a.Name+" is well", func() string {
		if _, err := a.try("GET", "/v1/agent/health", "", nil); err != nil {
			return err.Error()
		}
		if a.nodeID == "" {
			return ""
		}
		var n struct{ Status string }
		if _, err := a.try("GET", "/v1/node/"+a.nodeID, "", &n); err != nil || n.Status != "ready" {
			return fmt.Sprint("the node is ", n.Status, err)
		}
		return ""
	})
}

// refused is an answer that is not 2xx.
type refused struct {
	code int
	text string
	kind berth.Kind
}

func (r *refused) Error() string { return fmt.Sprintf("%d: %s", r.code, r.text) }

// try calls the agent's HTTP API and returns the headers of the answer.
func (a *agent) try(method, path, body string, into any) (http.Header, error) {
	ctx, cancel := context.WithTimeout(context.Background(), eventually.Limit)
	defer cancel()
	a.mu.Lock()
	addr := a.addr
	a.mu.Unlock()
	answer, err := bed.Call(ctx, method, addr+path, body)
	switch {
	case err != nil:
		return nil, err
	case !answer.Good():
		return answer.Header, &refused{answer.Code, answer.Text, berth.Kind(answer.Header.Get(op.HeaderKind))}
	case into == nil:
		return answer.Header, nil
	}
	return answer.Header, eventually.Decode([]byte(answer.Text), into)
}

// get reads from the agent's HTTP API. It waits while no server leads: on a busy
// machine, servers can lose their leader at any time.
func (a *agent) get(path string, into any) {
	a.w.t.Helper()
	a.w.until("GET "+path+" is answered", func() string {
		_, err := a.try("GET", path, "", into)
		if no := (*refused)(nil); errors.As(err, &no) && no.kind == berth.NoLeader {
			return err.Error()
		}
		if err != nil {
			a.w.t.Fatalf("GET %s: %v", path, err)
		}
		return ""
	})
}

// berth runs a command against the agent.
func (a *agent) berth(args ...string) bed.Result {
	a.w.t.Helper()
	return a.w.command("berth", []string{"BERTH_ADDR=" + a.addr}, args...)
}

// good runs a command that must succeed, and returns what it printed. It waits
// while no server leads, as get does.
func (a *agent) good(args ...string) string {
	a.w.t.Helper()
	return a.succeeds(func() bed.Result { return a.berth(args...) }, args)
}

// succeeds runs a command that must succeed, again while no server leads, and
// returns what it printed.
func (a *agent) succeeds(run func() bed.Result, args []string) (out string) {
	a.w.t.Helper()
	command := "berth " + strings.Join(args, " ")
	a.w.until(command+" succeeds", func() string {
		s := run()
		switch {
		case s.Code == 0:
			out = s.Out
			return ""
		case strings.Contains(s.Err, berth.ErrNoLeader.Error()):
			return s.Err
		}
		a.w.t.Fatalf("%s: %v", command, s)
		return ""
	})
	return out
}

// prints waits until alloc logs, with these arguments, prints just that. A task
// that runs may not have printed anything yet, or set its traps.
func (a *agent) prints(want string, args ...string) {
	a.w.t.Helper()
	args = append([]string{"alloc", "logs"}, args...)
	a.w.until(fmt.Sprintf("berth %s prints %q", strings.Join(args, " "), want), func() string {
		if out := a.good(args...); out != want {
			return bed.Got(out)
		}
		return ""
	})
}

// command runs the binary by one of its names.
func (w *world) command(name string, env []string, args ...string) bed.Result {
	w.t.Helper()
	program := filepath.Join(bed.SuiteDir(), name)
	if name != "berth" {
		if err := os.Symlink("berth", program); err != nil && !os.IsExist(err) {
			w.t.Fatal(err)
		}
	}
	r, err := w.Run(context.Background(), program, env, args...)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// holds fails the test unless the text holds all of these.
func (w *world) holds(text string, all ...string) {
	w.t.Helper()
	for _, s := range all {
		if !strings.Contains(text, s) {
			w.t.Errorf("%q is not in:\n%s", s, text)
		}
	}
}

// Package real tests the real binary: real agents in processes of their own,
// killed as real ones are, with real tasks, called over loopback and by the
// command line as people call them.
//
// What it keeps true of itself: each test has a folder, a cgroup and a mark of
// its own, which everything that it starts carries; it ends all of it, and the
// run fails if anything is left, or if any process saw a data race.
package real

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"berth/internal/freeport"
)

// patience is how long a test waits for what must come.
const patience = 60 * time.Second

// run is what all tests of this run share.
var run struct {
	dir  string // with the binary, as berth and as nomad
	mark string // begins the mark of every test
	last atomic.Int32
}

// markVar is the variable that marks what a test has started. Agents hand
// nothing of their environment to tasks but a few variables, and those of the
// locale are among them.
const markVar = "LC_BERTH_REAL"

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var err error
	if run.dir, err = os.MkdirTemp("", "berth-real-"); err != nil {
		return fail(err)
	}
	defer os.RemoveAll(run.dir)
	run.mark = filepath.Base(run.dir)
	build := exec.Command("go", "build", "-race", "-tags", "faults", "-o", program("berth"), "berth/cmd/berth")
	if out, err := build.CombinedOutput(); err != nil {
		return fail(fmt.Errorf("%w\n%s", err, out))
	}
	if err := os.Symlink("berth", program("nomad")); err != nil {
		return fail(err)
	}
	code := m.Run()
	if left := processes(run.mark, run.dir); len(left) > 0 {
		code = fail(fmt.Errorf("processes are left: %v", left))
		kill(left)
	}
	if left := cgroups(run.mark); len(left) > 0 {
		code = fail(fmt.Errorf("cgroups are left: %v", left))
	}
	return code
}

// program returns the path of the binary by one of its names.
func program(name string) string { return filepath.Join(run.dir, name) }

// world is everything that one test starts.
type world struct {
	t    *testing.T
	dir  string
	mark string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), mark: fmt.Sprintf("%s.%d.", run.mark, run.last.Add(1))}
	t.Cleanup(w.end)
	return w
}

// end kills what still runs, and looks for what went wrong unseen.
func (w *world) end() {
	end := time.Now().Add(patience)
	for {
		left := processes(w.mark, w.dir)
		if len(left) == 0 {
			break
		}
		if time.Now().After(end) {
			w.t.Errorf("these cannot be killed: %v", left)
			break
		}
		kill(left)
		time.Sleep(5 * time.Millisecond)
	}
	for _, dir := range cgroups(w.mark) {
		// The kernel calls a group busy for a moment after the last process in it
		// is gone from every list.
		err := removeGroups(dir)
		for errors.Is(err, syscall.EBUSY) && time.Now().Before(end) {
			time.Sleep(5 * time.Millisecond)
			err = removeGroups(dir)
		}
		if err != nil {
			w.t.Error(err)
		}
	}
	races, _ := filepath.Glob(filepath.Join(w.dir, "race.*"))
	for _, name := range races {
		report, _ := os.ReadFile(name)
		w.t.Errorf("a data race:\n%s", report)
	}
}

// removeGroups removes a cgroup and those of the tasks below it.
func removeGroups(dir string) error {
	children, _ := filepath.Glob(dir + "/*/cgroup.procs")
	for _, c := range children {
		_ = os.Remove(filepath.Dir(c))
	}
	return os.Remove(dir)
}

// env is the environment of every process that a test starts.
func (w *world) env(more ...string) []string {
	return append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + w.dir, "TMPDIR=" + w.dir, markVar + "=" + w.mark,
		"GORACE=atexit_sleep_ms=0 log_path=" + filepath.Join(w.dir, "race"),
	}, more...)
}

// file writes a file of the test and returns its path.
func (w *world) file(name, text string) string {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return path
}

// until waits until cond returns "". Anything else is what is amiss.
func (w *world) until(what string, cond func() string) {
	w.t.Helper()
	w.within(patience, what, cond)
}

// within is until with a time that is promised.
func (w *world) within(limit time.Duration, what string, cond func() string) {
	w.t.Helper()
	for end := time.Now().Add(limit); ; time.Sleep(20 * time.Millisecond) {
		amiss := cond()
		if amiss == "" {
			return
		}
		if time.Now().After(end) {
			w.t.Fatalf("waited in vain until %s: %s", what, amiss)
		}
	}
}

// agent is one agent, which may be killed and started again.
type agent struct {
	w       *world
	name    string
	args    []string
	apart   bool   // it gets a network of its own, in which nothing is
	log     string // the file with what it prints
	cmd     *exec.Cmd
	done    chan struct{} // closed when it has ended
	mu      sync.Mutex    // guards addr: others call an agent while it starts again
	addr    string        // of its HTTP API, as http://…
	rpc     string        // host:port; "" if it is no server
	nodeID  string        // "" if it is no node
	dataDir string
}

// common is what all agents are told: ports that are free, and a cgroup that
// can be told from those of others.
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
  disk_total_mb     = 100000 # whatever room this machine has
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
server { enabled = true }
client { enabled = true }
`

// agent starts an agent. more is configuration beside what is common; later
// texts win.
func (w *world) agent(name string, more ...string) *agent {
	w.t.Helper()
	words := strings.NewReplacer("NAME", name, "DIR", w.dir, "CGROUP", w.mark+"slice", "RPC", fmt.Sprint(freePort(w.t)), "SERF", fmt.Sprint(freePort(w.t)))
	var args []string
	for i, text := range append([]string{common}, more...) {
		args = append(args, "-config", w.file(fmt.Sprintf("%s.%d.hcl", name, i), words.Replace(text)))
	}
	a := &agent{w: w, name: name, args: append([]string{"agent"}, args...)}
	a.start()
	return a
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
	a.launch(env...)
	a.w.until(a.name+" has started", func() string {
		text := a.output()
		if strings.Contains(text, "agent started!") {
			return ""
		}
		if a.ended() {
			a.w.t.Fatalf("%s has ended:\n%s", a.name, text)
		}
		return "it has said " + text
	})
	banner := func(name string) string {
		if m := regexp.MustCompile(`(?m)^ +` + name + `: (.*)$`).FindStringSubmatch(a.output()); m != nil {
			return m[1]
		}
		return ""
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.addr, a.rpc, a.nodeID, a.dataDir = banner("HTTP"), banner("RPC"), banner("Node ID"), banner("Data dir")
}

// launch starts the agent's process.
func (a *agent) launch(env ...string) {
	a.w.t.Helper()
	a.log = filepath.Join(a.w.dir, fmt.Sprintf("%s.%d.log", a.name, time.Now().UnixNano()))
	out, err := os.Create(a.log)
	if err != nil {
		a.w.t.Fatal(err)
	}
	defer out.Close()
	cmd, done := exec.Command(program("berth"), a.args...), make(chan struct{})
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = a.w.env(env...), a.w.dir, out, out
	if a.apart {
		network(cmd)
	}
	if err := cmd.Start(); err != nil {
		a.w.t.Fatal(err)
	}
	a.cmd, a.done = cmd, done
	go func() { defer close(done); _ = cmd.Wait() }()
	log := a.log
	a.w.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-done
		text, _ := os.ReadFile(log)
		if strings.Contains(string(text), "DATA RACE") || strings.Contains(string(text), "panic:") {
			a.w.t.Errorf("%s:\n%s", a.name, text)
		} else if a.w.t.Failed() {
			a.w.t.Logf("log of %s:\n%s", a.name, text[max(0, len(text)-3000):])
		}
	})
}

func (a *agent) ended() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

func (a *agent) output() string {
	text, err := os.ReadFile(a.log)
	if err != nil {
		a.w.t.Error(err)
	}
	return string(text)
}

// kill kills the agent as a crash does.
func (a *agent) kill() {
	_ = a.cmd.Process.Kill()
	<-a.done
}

// signal asks the agent to end, and returns its exit code.
func (a *agent) signal(sig syscall.Signal) int {
	a.w.t.Helper()
	_ = a.cmd.Process.Signal(sig)
	a.w.until(a.name+" has ended", func() string {
		if a.ended() {
			return ""
		}
		return "it has said " + a.output()
	})
	return a.cmd.ProcessState.ExitCode()
}

// again kills the agent, starts it with the same folder, and waits until it
// has joined.
func (a *agent) again() {
	a.w.t.Helper()
	a.kill()
	a.start()
	a.joined()
}

// joined waits until the agent is well, and what it is known to the servers.
func (a *agent) joined() {
	a.w.t.Helper()
	a.w.until(a.name+" is well", func() string {
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

// web is what tests call agents with. Connections are not kept: an agent that
// was killed has others.
var web = &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}

// refused is an answer that is not 2xx.
type refused struct {
	code int
	text string
}

func (r *refused) Error() string { return fmt.Sprintf("%d: %s", r.code, r.text) }

// try calls the agent's HTTP API and returns the headers of the answer.
func (a *agent) try(method, path, body string, into any) (http.Header, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	a.mu.Lock()
	addr := a.addr
	a.mu.Unlock()
	r, err := http.NewRequestWithContext(ctx, method, addr+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	resp, err := web.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 != 2 {
		return resp.Header, &refused{resp.StatusCode, string(text)}
	}
	if into == nil {
		return resp.Header, nil
	}
	return resp.Header, json.Unmarshal(text, into)
}

// get reads from the agent's HTTP API.
func (a *agent) get(path string, into any) {
	a.w.t.Helper()
	if _, err := a.try("GET", path, "", into); err != nil {
		a.w.t.Fatalf("GET %s: %v", path, err)
	}
}

// said is what a command said.
type said struct {
	code     int
	out, err string
}

func (s said) String() string { return fmt.Sprintf("exit code %d\n%s%s", s.code, s.out, s.err) }

// berth runs a command against the agent.
func (a *agent) berth(args ...string) said {
	a.w.t.Helper()
	return a.w.command("berth", []string{"BERTH_ADDR=" + a.addr}, args...)
}

// good runs a command that must succeed, and returns what it printed.
func (a *agent) good(args ...string) string {
	a.w.t.Helper()
	s := a.berth(args...)
	if s.code != 0 {
		a.w.t.Fatalf("berth %s: %v", strings.Join(args, " "), s)
	}
	return s.out
}

// command runs the binary by one of its names.
func (w *world) command(name string, env []string, args ...string) said {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program(name), args...)
	var out, errs bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = w.dir, w.env(env...), &out, &errs
	err := cmd.Run()
	if _, ok := err.(*exec.ExitError); err != nil && !ok {
		w.t.Fatalf("%s %v: %v", name, args, err)
	}
	return said{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
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

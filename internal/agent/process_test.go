package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth"
	"berth/internal/agent/driver/raw"
	"berth/internal/agent/isolate/isolatetest"
	"berth/internal/agent/supervise"
	"berth/internal/environ"
	"berth/internal/eventually"
	"berth/internal/saferoot"
	"berth/internal/wire"
	"berth/op"
)

// agentProcess is an agent that is there to be killed: its directory and a
// server's address.
func agentProcess(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	a, err := New(Config{
		Servers: NewCluster([]string{args[1]}, "", nil, log), DataDir: args[0], RawExec: raw.Config{Enabled: true}, MockDriver: true, LoopbackOnly: true,
		CgroupParent: os.Getenv("TEST_CGROUP"), Supervisor: isolatetest.Command(), Log: log,
	})
	if err == nil {
		err = a.Run(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		return 1
	}
	return 0
}

// machine is a node with real processes, and its servers on the real wire.
type machine struct {
	*cluster
	t    *testing.T
	dir  string
	addr string
	vars variables

	mu   sync.Mutex
	peer *wire.Session // over which the agent can be called
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{cluster: newCluster(), t: t, dir: t.TempDir()}
	m.ttl = 2 * time.Second
	srv := wire.New(wire.Config{Log: quiet})
	handle(srv, op.NodeRegister, m.Register)
	handle(srv, op.NodeBeat, m.Beat)
	handle(srv, op.NodePull, m.Pull)
	handle(srv, op.AllocFetch, m.Fetch)
	handle(srv, op.AllocReporter, m.Report)
	handle(srv, op.PullConnectivity, m.Connectivity)
	handle(srv, op.Wants, m.vars.Wants)
	handle(srv, op.TellConnectivity, func(ctx context.Context, in *op.ReportConnectivity) (*op.Nothing, error) {
		return &op.Nothing{}, m.ReportConnectivity(ctx, in)
	})
	srv.Handle(op.NodeBeat.RPC, func(ctx context.Context, c *wire.Call) (any, error) {
		m.mu.Lock()
		m.peer = c.Peer.Session()
		m.mu.Unlock()
		in := new(op.BeatNode)
		if err := c.Decode(in); err != nil {
			return nil, err
		}
		return m.Beat(ctx, in)
	})
	srv.Limit(op.AllocReporter.RPC, 0, wire.MaxFrame)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m.addr = l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- srv.Serve(ctx, l) }()
	t.Cleanup(func() {
		m.endAll()
		cancel()
		<-done
	})
	return m
}

func handle[In, Out any](srv *wire.Server, o op.Op[In, Out], f func(context.Context, *In) (*Out, error)) {
	srv.Handle(o.RPC, func(ctx context.Context, c *wire.Call) (any, error) {
		in := new(In)
		if err := c.Decode(in); err != nil {
			return nil, err
		}
		return f(ctx, in)
	})
}

// endAll ends what runs, and fails the test if something cannot be.
func (m *machine) endAll() {
	m.t.Helper()
	entries, _ := os.ReadDir(filepath.Join(m.dir, "alloc"))
	ctx, cancel := context.WithTimeout(context.Background(), eventually.Limit)
	defer cancel()
	for _, e := range entries {
		root, err := saferoot.Open(filepath.Join(m.dir, "alloc", e.Name()))
		if err != nil {
			continue
		}
		if sup, err := supervise.OpenDir(root, e.Name(), nil); err == nil {
			if err := sup.EndAll(ctx, 0); err != nil {
				m.t.Errorf("%s: %v", e.Name(), err)
			}
			_ = sup.Close()
		}
		_ = root.Close()
	}
	if left := m.leftBehind(ctx); len(left) > 0 {
		m.t.Errorf("processes are left: %v", left)
	}
}

// leftBehind returns the processes that are left of what has ended. Supervisors
// end by themselves, some time after their last allocation and their agent: it
// waits for that.
func (m *machine) leftBehind(ctx context.Context) (left []int) {
	for _, pid := range m.processes() {
		if !isSupervisor(pid) || !ends(ctx, pid) {
			left = append(left, pid)
		}
	}
	return left
}

// isSupervisor reports whether a process is a supervisor, or was one until it
// ended.
func isSupervisor(pid int) bool {
	args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err != nil || len(args) == 0 || bytes.Contains(args, []byte("\x00supervise\x00"))
}

// ends waits until a process has ended, and reports whether it has.
func ends(ctx context.Context, pid int) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return errors.Is(err, unix.ESRCH)
	}
	defer unix.Close(fd)
	for {
		within := 30 * time.Second
		if end, ok := ctx.Deadline(); ok {
			within = max(0, time.Until(end))
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(within.Milliseconds()))
		if err != unix.EINTR {
			return n == 1
		}
	}
}

// A supervisor that is about to end is waited for, and anything else is not.
func TestSupervisorsThatEndAreNotLeft(t *testing.T) {
	m := newMachine(t)
	work := filepath.Join(m.dir, "work") // directories of supervisors are below the machine's
	if err := os.Mkdir(work, 0o700); err != nil {
		t.Fatal(err)
	}
	begin := func(name string) (pid int, end func()) {
		cmd := exec.Command("/bin/sh", "-c", "read -r x", name)
		cmd.Dir = work
		in, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		end = sync.OnceFunc(func() { _, _ = in.Close(), cmd.Wait() })
		t.Cleanup(end)
		return cmd.Process.Pid, end
	}
	_, end := begin("supervise")
	until(t, "it is there", func() bool { return len(m.processes()) == 1 })
	time.AfterFunc(100*time.Millisecond, end)
	if left := m.leftBehind(t.Context()); len(left) != 0 {
		t.Errorf("a supervisor that ends is left: %v", left)
	}
	task, end := begin("task")
	until(t, "it is there", func() bool { return len(m.processes()) == 1 })
	if left := m.leftBehind(t.Context()); !slices.Equal(left, []int{task}) {
		t.Errorf("the task %d runs, and %v is left", task, left)
	}
	end()
}

// processes lists those that bear the mark of an allocation of this node, and
// supervisors.
func (m *machine) processes() (out []int) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(d))
		env := environ.Of(pid)
		cwd, _ := os.Readlink(d + "/cwd")
		stat, _ := os.ReadFile(d + "/stat")
		if bytes.Contains(stat, []byte(") Z ")) {
			continue
		}
		if bytes.Contains(env, []byte("NOMAD_ALLOC_DIR="+m.dir+"/")) || strings.HasPrefix(cwd, m.dir+"/") {
			out = append(out, pid)
		}
	}
	return out
}

// agent is an agent in a process of its own.
type agentProc struct {
	t    *testing.T
	cmd  *exec.Cmd
	log  bytes.Buffer
	done chan struct{}
}

func (m *machine) agent(env ...string) *agentProc {
	m.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		m.t.Fatal(err)
	}
	p := &agentProc{t: m.t, cmd: exec.Command(exe, "agent", m.dir, m.addr), done: make(chan struct{})}
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0", "TEST_CGROUP=-"}, env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	if err := p.cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	go func() { defer close(p.done); _ = p.cmd.Wait() }()
	m.t.Cleanup(func() {
		p.kill()
		if log := tail(p.log.String(), 3000); m.t.Failed() && strings.Contains(log, "WARN") {
			m.t.Logf("log of agent %d:\n%s", p.cmd.Process.Pid, log)
		}
	})
	return p
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

func (p *agentProc) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

func (p *agentProc) term() {
	p.t.Helper()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(eventually.Limit):
		p.t.Fatal("the agent does not end")
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		p.t.Errorf("exit code %d", code)
	}
}

// until polls a condition of the outside world.
func until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(eventually.Limit); !cond(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

func (m *machine) untilStatus(id, want string) {
	m.t.Helper()
	for end := time.Now().Add(eventually.Limit); m.status(id) != want; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			m.t.Fatalf("allocation %s is %s, want %s: %s", id, m.status(id), want, m.told(id))
		}
	}
}

// told is all that servers know of a task.
func (m *machine) told(id string) string {
	a := m.alloc(id)
	if a == nil || a.TaskStates["main"] == nil {
		return "nothing"
	}
	var out []string
	for _, e := range a.TaskStates["main"].Events {
		out = append(out, e.Type+" ("+e.DisplayMessage+")")
	}
	return strings.Join(out, ", ")
}

// shTask is a task that runs a shell script.
func shTask(name, script string, more ...string) string {
	b, _ := json.Marshal(script)
	return fmt.Sprintf(`{"Name":%q,"Driver":"raw_exec","Config":{"command":"/bin/sh","args":["-c",%s]}%s}`, name, b, strings.Join(more, ""))
}

// sleeper notes each of its starts, and its process.
const sleeper = `echo $$ >> "$NOMAD_TASK_DIR/pids"; exec sleep 1000`

// pids returns the processes that a task has had.
func (m *machine) pids(id, task string) (out []int) {
	b, _ := os.ReadFile(filepath.Join(m.dir, "alloc", id, task, "local", "pids"))
	for _, f := range strings.Fields(string(b)) {
		n, _ := strconv.Atoi(f)
		out = append(out, n)
	}
	return out
}

func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !bytes.Contains(stat, []byte(") Z "))
}

func (m *machine) restarts(id, task string) uint64 { return m.alloc(id).TaskStates[task].Restarts }

// F-22, I-35: however the agent ends, its tasks keep their processes, and what
// ended meanwhile is told once.
func TestRestartingTheAgentDisturbsNoTask(t *testing.T) {
	for how, end := range map[string]func(*agentProc){"SIGKILL": (*agentProc).kill, "SIGTERM": (*agentProc).term} {
		t.Run(how, func(t *testing.T) {
			m := newMachine(t)
			a := m.agent()
			const n = 10
			var ids []string
			until(t, "the node is ready", m.isReady)
			for range n {
				ids = append(ids, m.place(newAlloc(t, "service", shTask("main", sleeper))))
			}
			ends := m.place(newAlloc(t, "batch", shTask("main", `while ! [ -e "$NOMAD_ALLOC_DIR/go" ]; do sleep 0.02; done; exit 3`, quick)))
			before := map[string][]int{}
			for _, id := range append(ids, ends) {
				m.untilStatus(id, "running")
			}
			for _, id := range ids {
				until(t, "it has noted its process", func() bool { return len(m.pids(id, "main")) > 0 })
				before[id] = m.pids(id, "main")
			}
			end(a)
			if err := os.WriteFile(filepath.Join(m.dir, "alloc", ends, "alloc", "go"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			a = m.agent()
			m.untilStatus(ends, "failed")
			if e := m.events(ends, "main"); strings.Count(e, "Terminated") != 1 || strings.Count(m.story(ends), "failed") != 1 {
				t.Errorf("%s; %s", e, m.story(ends))
			}
			a.kill()
			m.agent()
			until(t, "the node beats again", func() bool { return m.registrations() == 3 && m.isReady() })
			for _, id := range ids {
				if now := m.pids(id, "main"); len(now) != 1 || !slices.Equal(now, before[id]) || !alive(now[0]) || m.restarts(id, "main") != 0 || m.status(id) != "running" {
					t.Errorf("%s: processes %v became %v, %d restarts, %s", id, before[id], now, m.restarts(id, "main"), m.status(id))
				}
				m.stop(id)
			}
			for _, id := range ids {
				m.untilStatus(id, "complete")
				if alive(before[id][0]) {
					t.Errorf("%s is told as complete, and runs", id)
				}
			}
			until(t, "nothing runs any more", func() bool { return len(m.processes()) == 0 })
			for _, id := range append(ids, ends) {
				m.forget(id)
			}
			until(t, "the directories are gone", func() bool {
				left, err := os.ReadDir(filepath.Join(m.dir, "alloc"))
				return err == nil && len(left) == 0
			})
		})
	}
}

// F-24 (#17424).
func TestAKilledSupervisorIsToldOnce(t *testing.T) {
	for _, away := range []bool{true, false} {
		t.Run(fmt.Sprint("agent away ", away), func(t *testing.T) {
			m := newMachine(t)
			a := m.agent()
			until(t, "the node is ready", m.isReady)
			id := m.place(newAlloc(t, "service", shTask("main", `sleep 1000 & echo $! >> "$NOMAD_TASK_DIR/pids"; exec sleep 1000`)+","+shTask("beside", sleeper)))
			m.untilStatus(id, "running")
			until(t, "both run", func() bool { return len(m.pids(id, "main")) == 1 && len(m.pids(id, "beside")) == 1 })
			if away {
				a.kill()
			}
			for _, pid := range m.processes() {
				if args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); bytes.Contains(args, []byte("supervise")) {
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
			}
			if away {
				a = m.agent()
			}
			m.untilStatus(id, "failed")
			if left := m.processes(); len(left) > 0 {
				t.Errorf("told as failed, and %v run", left)
			}
			a.kill()
			m.agent()
			until(t, "another agent is there", func() bool { return m.registrations() > 1 && m.isReady() })
			m.place(newAlloc(t, "batch", mockTask("main", ``)))
			until(t, "the other has run", func() bool { return m.status(m.ids()[1]) == "complete" })
			if s := m.story(id); strings.Count(s, "failed") != 1 || !strings.HasSuffix(s, "failed") {
				t.Errorf("%s", s)
			}
			if len(m.pids(id, "main")) != 1 {
				t.Error("it was started again")
			}
		})
	}
}

// F-25: without its records, the agent takes up what runs and is wanted, and
// ends what is not.
func TestWithoutItsRecordsTheAgentFindsWhatRuns(t *testing.T) {
	m := newMachine(t)
	a := m.agent()
	until(t, "the node is ready", m.isReady)
	wanted := m.place(newAlloc(t, "service", shTask("main", sleeper)))
	unwanted := m.place(newAlloc(t, "service", shTask("main", sleeper)))
	lost := m.place(newAlloc(t, "service", shTask("main", sleeper)))
	done := m.place(newAlloc(t, "batch", shTask("main", `echo $$ >> "$NOMAD_TASK_DIR/pids"`)))
	for _, id := range []string{wanted, unwanted, lost} {
		m.untilStatus(id, "running")
	}
	m.untilStatus(done, "complete")
	until(t, "all have noted their processes", func() bool {
		return len(m.pids(wanted, "main"))+len(m.pids(unwanted, "main"))+len(m.pids(lost, "main")) == 3
	})
	a.kill()
	if err := os.RemoveAll(filepath.Join(m.dir, "client", "allocs")); err != nil {
		t.Fatal(err)
	}
	m.forget(unwanted)
	m.want(lost, func(a *op.Alloc) { a.ClientStatus = berth.ClientLost })
	m.agent()
	until(t, "what is not wanted has ended", func() bool {
		return !alive(m.pidOr(unwanted)) && !alive(m.pidOr(lost))
	})
	if now := m.pids(wanted, "main"); len(now) != 1 || !alive(now[0]) {
		t.Errorf("what is wanted has had the processes %v", now)
	}
	m.untilStatus(wanted, "running")
	if n := len(m.pids(done, "main")); n != 1 {
		t.Errorf("what was complete has run %d times", n)
	}
	m.stop(wanted)
	m.untilStatus(wanted, "complete")
}

func (m *machine) pidOr(id string) int {
	if p := m.pids(id, "main"); len(p) > 0 {
		return p[0]
	}
	return -1
}

// Servers read a task's output over the session that the agent opened.
func TestServersReadLogsOverTheAgentsSession(t *testing.T) {
	m := newMachine(t)
	m.agent()
	until(t, "the node is ready", m.isReady)
	gate := filepath.Join(t.TempDir(), "gate")
	id := m.place(newAlloc(t, "batch", shTask("main", `echo line 1; while [ ! -e `+gate+` ]; do sleep 0.05; done; echo line 2; echo oops >&2`)))
	m.untilStatus(id, "running")
	m.mu.Lock()
	peer := m.peer
	m.mu.Unlock()
	read := func(q *op.LogsQuery) (string, error) {
		st, err := peer.Stream(t.Context(), op.AgentLogs.RPC, q)
		if err != nil {
			return "", err
		}
		defer st.Close()
		var out strings.Builder
		for {
			b, err := st.Recv()
			if errors.Is(err, io.EOF) {
				return out.String(), nil
			}
			if err != nil {
				return out.String(), err
			}
			var f op.StreamFrame
			if err := json.Unmarshal(b, &f); err != nil {
				return out.String(), err
			}
			out.Write(f.Data)
			if err := os.WriteFile(gate, nil, 0o600); err != nil { // what follows is written under the reader's eyes
				return out.String(), err
			}
		}
	}
	if got, err := read(&op.LogsQuery{AllocID: id, Task: "main", Type: "stdout", Follow: true}); err != nil || got != "line 1\nline 2\n" {
		t.Errorf("%q, %v", got, err)
	}
	m.untilStatus(id, "complete")
	if got, err := read(&op.LogsQuery{AllocID: id, Task: "main", Type: "stderr", Origin: "end", Offset: 3}); err != nil || got != "ps\n" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := read(&op.LogsQuery{AllocID: id, Task: "nobody", Type: "stdout"}); berth.KindOf(err) != berth.NotFound {
		t.Errorf("%v", err)
	}
}

// Ports, directories and the rest of the environment, as a real task sees them.
func TestATaskFindsItsPlace(t *testing.T) {
	m := newMachine(t)
	m.agent("AWS_SECRET=x")
	until(t, "the node is ready", m.isReady)
	al := newAlloc(t, "batch", shTask("main", `set -eu; test "$(pwd)" = "$NOMAD_TASK_DIR/.."  -o "$(pwd)/local" = "$NOMAD_TASK_DIR"
		test -d "$NOMAD_SECRETS_DIR" -a -w "$TMPDIR" -a -w "$NOMAD_ALLOC_DIR/data"; echo "$NOMAD_ADDR_http ${attr.kernel.name} $NOMAD_CPU_LIMIT"; test -z "${AWS_SECRET-}"`, quick),
		`,"Networks":[{"DynamicPorts":[{"Label":"http"}]}]`)
	al.AllocatedResources = &op.AllocatedResources{Shared: op.AllocatedShared{Ports: []berth.PortMapping{{Label: "http", Value: 23456, HostIP: "127.0.0.1"}}}}
	id := m.place(al)
	m.untilStatus(id, "complete")
	b, err := os.ReadFile(filepath.Join(m.dir, "alloc", id, "alloc", "logs", "main.stdout.0"))
	if err != nil || string(b) != "127.0.0.1:23456 linux 100\n" {
		t.Errorf("%q, %v", b, err)
	}
}

// F-22 at its size: fifty tasks are taken up again within ten seconds. On a busy
// machine it may take three times as long as starting them did.
func TestFiftyTasksAreTakenUpAgain(t *testing.T) {
	m := newMachine(t)
	a := m.agent()
	until(t, "the node is ready", m.isReady)
	begin := time.Now()
	var ids []string
	for range 50 {
		ids = append(ids, m.place(newAlloc(t, "service", shTask("main", sleeper))))
	}
	before := map[string]int{}
	for _, id := range ids {
		m.untilStatus(id, "running")
		until(t, "it has noted its process", func() bool { return len(m.pids(id, "main")) == 1 })
		before[id] = m.pidOr(id)
	}
	started := time.Since(begin)
	t.Logf("50 tasks were started in %v", started.Round(time.Millisecond))
	a.kill()
	begin = time.Now()
	m.agent()
	// A stop shows that a task was taken up.
	for _, id := range ids {
		if !alive(before[id]) {
			t.Errorf("%s lost its process", id)
		}
		m.stop(id)
	}
	for _, id := range ids {
		m.untilStatus(id, "complete")
		if len(m.pids(id, "main")) != 1 {
			t.Errorf("%s was started again", id)
		}
	}
	took := time.Since(begin)
	t.Logf("50 tasks were taken up and stopped in %v", took.Round(time.Millisecond))
	if limit := max(10*time.Second, 3*started); took > limit {
		t.Errorf("it took longer than %v", limit)
	}
}

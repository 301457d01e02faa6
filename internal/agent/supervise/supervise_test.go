//go:build faults

package supervise

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth"
	"berth/internal/agent/isolate/isolatetest"
	"berth/internal/agent/logs"
	"berth/internal/eventually"
	"berth/internal/failpoint"
	"berth/internal/saferoot"
	"berth/op"
)

// This test binary is also the supervisor, some tasks, and an agent to kill.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "supervise":
			os.Exit(Main(os.Args[2:]))
		case "task-output":
			taskOutput(os.Args[2], os.Args[3])
		case "task-open":
			taskOpen(os.Args[2])
		case "task-headless":
			taskHeadless(os.Args[2])
		case "agent":
			agentProcess(os.Args[2], os.Args[3])
		}
	}
	code := m.Run()
	if n := len(supervisors()); n > 0 && code == 0 {
		fmt.Printf("%d supervisors are left\n", n)
		code = 1
	}
	os.Exit(code)
}

// supervisors lists the supervisors that this binary has started and that live.
func supervisors() (out []process) {
	exe, _ := os.Readlink("/proc/self/exe")
	for _, p := range processes() {
		other, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", p.pid))
		args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid))
		if other == exe && !p.dead() && bytes.Contains(args, []byte("\x00supervise\x00")) {
			out = append(out, p)
		}
	}
	return out
}

// alloc is an allocation's directory and its supervisor.
type alloc struct {
	*Dir
	t    *testing.T
	id   string
	path string
	root *saferoot.Root
}

func newAlloc(t *testing.T, under ...string) *alloc {
	t.Helper()
	path := filepath.Join(append([]string{t.TempDir()}, under...)...)
	must(t, os.MkdirAll(filepath.Join(path, "alloc", "logs"), 0o755))
	a := &alloc{t: t, id: rand.Text(), path: path}
	a.open()
	t.Cleanup(func() {
		if t.Failed() {
			said, _ := os.ReadFile(filepath.Join(path, ControlDir, fileLog))
			t.Logf("the last supervisor says: %s", said)
		}
		ctx, cancel := context.WithTimeout(context.Background(), eventually.Limit)
		defer cancel()
		if err := a.EndAll(ctx, time.Second); err != nil {
			t.Errorf("end all: %v", err)
		}
		for _, p := range processes() {
			if !p.dead() && marked(p.pid, a.id, "") {
				t.Errorf("process %d is left", p.pid)
			}
		}
		must(t, a.Close())
		must(t, a.root.Close())
	})
	return a
}

// open opens the control directory as another agent would.
func (a *alloc) open() {
	a.t.Helper()
	var err error
	a.root, err = saferoot.Open(a.path)
	must(a.t, err)
	a.Dir, err = OpenDir(a.root, a.id, isolatetest.Command())
	must(a.t, err)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// sh is a start of a shell script.
func (a *alloc) sh(script string) Start {
	return Start{
		Command: "/bin/sh", Args: []string{"-c", script}, Dir: a.path, Env: []string{"PATH=/usr/bin:/bin"},
		Logs: Logs{MaxFiles: 10, MaxSize: 1 << 20},
	}
}

func (a *alloc) start(task string, n uint64, st Start) *Launch {
	a.t.Helper()
	l, err := a.Start(a.t.Context(), task, n, st)
	must(a.t, err)
	return l
}

func (a *alloc) wait(task string, n uint64) *Exit {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), eventually.Limit)
	defer cancel()
	e, err := a.Wait(ctx, task, n, time.Second)
	must(a.t, err)
	return e
}

func (a *alloc) output(task, stream string) string {
	a.t.Helper()
	dir, err := a.root.Sub(logs.Dir)
	must(a.t, err)
	defer dir.Close()
	var b strings.Builder
	must(a.t, logs.Stream(a.t.Context(), dir, logs.Request{Task: task, Stream: stream}, func(f *op.StreamFrame) error {
		b.Write(f.Data)
		return nil
	}))
	return b.String()
}

// until polls a condition of the outside world.
func until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(eventually.Limit); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

func alive(pid int) bool {
	p, ok := readProcess(pid)
	return ok && !p.dead()
}

// supervisor returns the process that holds the lock.
func (a *alloc) supervisor() int {
	a.t.Helper()
	for _, p := range supervisors() {
		args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid))
		if bytes.Contains(args, []byte(a.id)) {
			return p.pid
		}
	}
	a.t.Fatal("there is no supervisor")
	return 0
}

func (a *alloc) killSupervisor() {
	a.t.Helper()
	pid := a.supervisor()
	must(a.t, unix.Kill(pid, unix.SIGKILL))
	until(a.t, "the supervisor is dead", func() bool { return !alive(pid) })
}

func (a *alloc) pidFrom(file string) int {
	a.t.Helper()
	var pid int
	until(a.t, file+" is written", func() bool {
		b, _ := os.ReadFile(filepath.Join(a.path, file))
		var err error
		pid, err = strconv.Atoi(strings.TrimSpace(string(b)))
		return err == nil
	})
	return pid
}

func TestExitsAreTold(t *testing.T) {
	a := newAlloc(t)
	for i, c := range []struct {
		script       string
		code, signal int
	}{
		{"exit 0", 0, 0}, {"exit 7", 7, 0}, {"kill -9 $$", 137, 9}, {"kill -TERM $$", 143, 15},
	} {
		n := uint64(i + 1)
		a.start("t", n, a.sh(c.script))
		if e := a.wait("t", n); e.Code != c.code || e.Signal != c.signal || e.Err != "" || e.Success() != (c.code == 0) {
			t.Errorf("%s: %+v", c.script, e)
		}
	}
	if _, err := a.Find(t.Context(), "t", 3, 0); !errors.Is(err, ErrUnknown) {
		t.Errorf("a launch before the last: %v", err)
	}
	if l, err := a.Find(t.Context(), "t", 0, 0); err != nil || l.Number != 4 || l.Exit == nil {
		t.Errorf("the newest launch: %+v, %v", l, err)
	}
}

func TestARepeatedStartStartsOnce(t *testing.T) {
	a := newAlloc(t)
	first := a.start("t", 1, a.sh("exec sleep 1000"))
	again := a.start("t", 1, a.sh("exec sleep 1000"))
	if first.PID != again.PID || first.PID == 0 || first.StartTime == 0 {
		t.Errorf("%+v, then %+v", first, again)
	}
	if _, err := a.Start(t.Context(), "t", 2, a.sh("true")); berth.KindOf(err) != berth.Conflict {
		t.Errorf("a second launch beside the first: %v", err)
	}
	a.start("u", 5, a.sh("exec sleep 1000"))
	must(t, a.Stop(t.Context(), "u", 5, unix.SIGKILL, 0))
	a.wait("u", 5)
	if _, err := a.Start(t.Context(), "u", 4, a.sh("true")); berth.KindOf(err) != berth.Conflict {
		t.Errorf("a launch older than the last: %v", err)
	}
}

func TestACommandThatIsNotThereIsRefused(t *testing.T) {
	a := newAlloc(t)
	st := a.sh("")
	st.Command = "/nowhere/command"
	if _, err := a.Start(t.Context(), "t", 1, st); berth.KindOf(err) != berth.Invalid || !strings.Contains(err.Error(), "/nowhere/command") {
		t.Errorf("%v", err)
	}
	if _, err := a.Find(t.Context(), "t", 1, 0); !errors.Is(err, ErrUnknown) {
		t.Errorf("the launch left a trace: %v", err)
	}
}

func TestStopIsGentleThenFirm(t *testing.T) {
	a := newAlloc(t)
	a.start("gentle", 1, a.sh("trap 'exit 3' INT; echo $$ > gentle; while :; do sleep 0.01; done"))
	a.start("deaf", 1, a.sh("trap '' TERM; echo $$ > deaf; while :; do sleep 0.01; done"))
	pid := a.pidFrom("deaf")
	a.pidFrom("gentle")
	must(t, a.Stop(t.Context(), "gentle", 1, unix.SIGINT, time.Hour))
	if e := a.wait("gentle", 1); e.Code != 3 {
		t.Errorf("gentle: %+v", e)
	}
	must(t, a.Stop(t.Context(), "deaf", 1, unix.SIGTERM, time.Hour))
	must(t, a.Stop(t.Context(), "deaf", 1, unix.SIGTERM, 50*time.Millisecond)) // sooner
	must(t, a.Stop(t.Context(), "deaf", 1, unix.SIGTERM, time.Hour))           // does not put it off
	if e := a.wait("deaf", 1); e.Signal != 9 {
		t.Errorf("deaf: %+v", e)
	}
	if alive(pid) {
		t.Error("it still runs")
	}
	must(t, a.Stop(t.Context(), "deaf", 1, unix.SIGTERM, 0)) // has ended
	if err := a.Signal(t.Context(), "deaf", 1, unix.SIGHUP); berth.KindOf(err) != berth.Conflict {
		t.Errorf("signal after the end: %v", err)
	}
}

// offspring leaves a child in the group, one in a session of its own, and one
// that was also given away by its parent and has an empty environment.
const offspring = `
sleep 1000 & echo $! > child
setsid sh -c 'echo $$ > session; exec sleep 1000' &
setsid sh -c '(exec env -i /bin/sh -c "echo \$\$ > daemon; exec /bin/sleep 1000" &)'
while ! [ -s daemon -a -s session ]; do sleep 0.01; done
`

func TestAllOfATaskEndsWithIt(t *testing.T) {
	for _, cgroup := range []string{"", "berth-test"} {
		for _, end := range []string{"exit 0", "exec sleep 1000"} {
			t.Run(cgroup+" "+end, func(t *testing.T) {
				a := newAlloc(t)
				st := a.sh(offspring + end)
				st.Cgroup = cgroup
				l := a.start("t", 1, st)
				if (l.Cgroup != "") != (cgroup != "" && len(hierarchies()) > 0) {
					t.Errorf("cgroup %q", l.Cgroup)
				}
				var pids []int
				for _, f := range []string{"child", "session", "daemon"} {
					pids = append(pids, a.pidFrom(f))
				}
				must(t, a.Stop(t.Context(), "t", 1, unix.SIGTERM, time.Second))
				a.wait("t", 1)
				for i, pid := range pids {
					if alive(pid) {
						t.Errorf("offspring %d lives", i)
					}
				}
				if _, err := os.Stat(l.Cgroup); l.Cgroup != "" && err == nil {
					t.Errorf("%s is left", l.Cgroup)
				}
			})
		}
	}
}

func TestOneTasksEndLeavesTheOthersAlone(t *testing.T) {
	a := newAlloc(t)
	keep := a.start("keep", 1, a.sh("sleep 1000 & echo $! > kept; wait"))
	kept := a.pidFrom("kept")
	for n := range uint64(20) {
		a.start("go", n+1, a.sh("sleep 1000 & exit 0"))
		a.wait("go", n+1)
	}
	if !alive(keep.PID) || !alive(kept) {
		t.Error("the other task was hit")
	}
}

// In both versions of cgroups a process is in the group before it can fork.
func TestCgroupsHoldWhatForksAtOnce(t *testing.T) {
	all := hierarchies()
	if len(all) == 0 {
		t.Log("this machine offers no cgroup to us; nothing to hold")
	}
	for _, h := range all {
		if !h.v2 && !slices.Contains(h.controllers, "freezer") {
			continue // it limits, and holds nothing
		}
		name := "test." + rand.Text()
		c := newCgroup("berth-test", name, []hierarchy{h}, nil)
		if c == nil {
			t.Logf("%+v does not let us", h)
			continue
		}
		attr := &syscall.ProcAttr{Env: os.Environ(), Sys: &syscall.SysProcAttr{Setsid: true}}
		pid, err := c.fork(attr.Sys, func() (int, error) {
			return syscall.ForkExec("/bin/sh", []string{"sh", "-c", "setsid sleep 1000 & setsid sleep 1000 & exec sleep 1000"}, attr)
		})
		must(t, err)
		until(t, "three processes are in the group", func() bool { return len(c.pids()) == 3 })
		must(t, c.kill())
		_, _ = unix.Wait4(pid, nil, 0, nil)
		must(t, os.Mkdir(filepath.Join(c.dir, "nested"), 0o755)) // as a task may
		must(t, c.remove())
		if _, err := os.Stat(c.dir); err == nil {
			t.Errorf("%s is left", c.dir)
		}
		must(t, c.remove())
		b, err := os.ReadFile("/proc/self/cgroup")
		if err != nil || strings.Contains(string(b), name) {
			t.Errorf("%+v: we are in %s, %v", h, b, err)
		}
	}
}

func TestASupervisorEndsWhenNothingIsLeftToTell(t *testing.T) {
	a := newAlloc(t)
	a.start("one", 1, a.sh("exit 1"))
	a.start("two", 1, a.sh("exit 2"))
	pid := a.supervisor()
	a.wait("one", 1)
	a.wait("two", 1)
	must(t, a.Release(t.Context(), "one", 1))
	if !alive(pid) || !a.Alive() {
		t.Fatal("it ended with an exit that nobody has recorded")
	}
	must(t, a.Release(t.Context(), "two", 1))
	until(t, "the supervisor has ended", func() bool { Reap(); return !alive(pid) && !a.Alive() })
	must(t, a.Release(t.Context(), "two", 1)) // the answer was lost, say
	if l, err := a.Find(t.Context(), "two", 1, 0); err != nil || l.Exit.Code != 2 {
		t.Errorf("the exit is not in the state: %+v, %v", l, err)
	}
	a.start("one", 2, a.sh("exit 5")) // a restart needs a new one
	if e := a.wait("one", 2); e.Code != 5 {
		t.Errorf("%+v", e)
	}
}

// An agent asks for a start and is killed, or thinks better of it. Whoever asks
// afterwards is told that the launch is not known, and may rely on it.
func TestAStartWhoseCallerIsGoneIsNotDone(t *testing.T) {
	a := newAlloc(t)
	must(t, a.ensure(t.Context()))
	pid := a.supervisor()
	must(t, syscall.Kill(pid, syscall.SIGSTOP)) // it is slow
	conn, err := net.Dial("unix", filepath.Join(a.control.ProcPath(), fileSocket))
	must(t, err)
	st := a.sh("exec sleep 1000")
	must(t, writeFrame(conn, &request{V: version, Call: callStart, Task: "one", Launch: 1, Start: &st}))
	must(t, conn.Close())
	must(t, syscall.Kill(pid, syscall.SIGCONT))
	a.start("two", 1, a.sh("exit 0"))
	a.wait("two", 1)
	if l, err := a.Find(t.Context(), "one", 1, 0); !errors.Is(err, ErrUnknown) {
		t.Errorf("%+v, %v", l, err)
	}
}

func TestASupervisorWithoutATaskIsStopped(t *testing.T) {
	a := newAlloc(t)
	a.StopIfIdle(t.Context()) // nobody is there
	must(t, a.ensure(t.Context()))
	a.StopIfIdle(t.Context())
	until(t, "it has ended", func() bool { return !a.Alive() })
	a.start("t", 1, a.sh("exec sleep 1000"))
	a.StopIfIdle(t.Context())
	if l, err := a.Find(t.Context(), "t", 1, 0); err != nil || l.Exit != nil {
		t.Errorf("one with a task was stopped: %+v, %v", l, err)
	}
}

// A supervisor whose agent does not come for an exit ends after a while; the
// next one has the exit.
func TestASupervisorDoesNotWaitForEver(t *testing.T) {
	t.Setenv(failpoint.Env, "supervise/no-patience=error(x)*")
	a := newAlloc(t)
	a.start("t", 1, a.sh("exit 7"))
	until(t, "it has ended", func() bool { return !a.Alive() })
	t.Setenv(failpoint.Env, "")
	if l, err := a.Find(t.Context(), "t", 1, 0); err != nil || l.Exit == nil || l.Exit.Code != 7 {
		t.Errorf("%+v, %v", l, err)
	}
}

// One whose directory was removed ends, too.
func TestASupervisorEndsWithItsDirectory(t *testing.T) {
	t.Setenv(failpoint.Env, "supervise/no-patience=error(x)*")
	a := newAlloc(t)
	a.start("t", 1, a.sh("sleep 0.2"))
	pid := a.supervisor()
	// It must not write while the directory is removed.
	must(t, unix.Kill(pid, unix.SIGSTOP))
	until(t, "it stands still", func() bool { p, _ := readProcess(pid); return p.state == 'T' })
	must(t, os.RemoveAll(a.path))
	must(t, unix.Kill(pid, unix.SIGCONT))
	until(t, "it has ended", func() bool { return !alive(pid) })
	must(t, errors.Join(a.Close(), a.root.Close(), os.Mkdir(a.path, 0o755)))
	a.open()
}

// Starts and ends race; no start is lost and none is done twice.
func TestStartsRaceWithTheSupervisorsEnd(t *testing.T) {
	a := newAlloc(t)
	for n := uint64(1); n <= 60; n++ {
		a.start("t", n, a.sh("echo $$ >> pids"))
		a.wait("t", n)
		must(t, a.Release(t.Context(), "t", n))
	}
	b, err := os.ReadFile(filepath.Join(a.path, "pids"))
	must(t, err)
	if n := bytes.Count(b, []byte("\n")); n != 60 {
		t.Errorf("%d of 60 starts ran", n)
	}
}

// agentProcess starts tasks and waits to be killed.
func agentProcess(path, id string) {
	root, err := saferoot.Open(path)
	if err != nil {
		panic(err)
	}
	d, err := OpenDir(root, id, nil)
	if err != nil {
		panic(err)
	}
	a := &alloc{Dir: d, path: path}
	for name, script := range map[string]string{"stays": "exec sleep 1000", "ends": "while ! [ -e go ]; do sleep 0.01; done; exit 9"} {
		if _, err := d.Start(context.Background(), name, 1, a.sh(script)); err != nil {
			panic(err)
		}
	}
	fmt.Println("started")
	select {}
}

// The agent is killed; its tasks are not, and the next agent learns what ended
// meanwhile (F-22, I-35).
func TestTasksOutliveTheirAgent(t *testing.T) {
	a := newAlloc(t)
	cmd := exec.Command("/proc/self/exe", "agent", a.path, a.id)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	word := make([]byte, 8)
	if _, err := io.ReadFull(out, word); err != nil || string(word) != "started\n" {
		t.Fatalf("%q, %v", word, err)
	}
	stays, err := a.Find(t.Context(), "stays", 1, 0)
	must(t, err)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	must(t, os.WriteFile(filepath.Join(a.path, "go"), nil, 0o600))
	if e := a.wait("ends", 1); e.Code != 9 {
		t.Errorf("what ended meanwhile: %+v", e)
	}
	again, err := a.Find(t.Context(), "stays", 1, 0)
	if err != nil || again.PID != stays.PID || again.StartTime != stays.StartTime || !alive(again.PID) {
		t.Errorf("%+v became %+v, %v", stays, again, err)
	}
}

// F-24.
func TestWhatAKilledSupervisorLeavesIsStopped(t *testing.T) {
	for _, cgroup := range []string{"", "berth-test"} {
		t.Run(cgroup, func(t *testing.T) {
			a := newAlloc(t)
			done := a.start("done", 1, a.sh("exit 4"))
			a.wait("done", done.Number)
			st := a.sh("exec 2>/dev/null; trap 'echo bye > bye; exit' TERM; sleep 1000 & echo $! > child; while :; do sleep 0.01; done")
			st.Cgroup = cgroup
			l := a.start("t", 1, st)
			child := a.pidFrom("child")
			waited := make(chan error)
			go func() { // the agent that looks on
				_, err := a.Wait(t.Context(), "t", 1, eventually.Limit)
				waited <- err
			}()
			a.killSupervisor()
			if err := <-waited; !errors.Is(err, ErrLost) {
				t.Errorf("wait: %v", err)
			}
			if alive(l.PID) || alive(child) {
				t.Error("the orphans live")
			}
			if b, _ := os.ReadFile(filepath.Join(a.path, "bye")); string(b) != "bye\n" {
				t.Errorf("it was not asked first: %q", b)
			}
			if _, err := a.Find(t.Context(), "t", 1, 0); !errors.Is(err, ErrLost) {
				t.Errorf("find: %v", err)
			}
			if l, err := a.Find(t.Context(), "done", 1, 0); err != nil || l.Exit.Code != 4 {
				t.Errorf("an exit from before: %+v, %v", l, err)
			}
			a.start("t", 2, a.sh("exit 6"))
			if e := a.wait("t", 2); e.Code != 6 {
				t.Errorf("the next launch: %+v", e)
			}
		})
	}
}

// Killed while it starts a task, it has not said which process it is.
func TestAnOrphanNobodyRecordedIsFoundByItsMark(t *testing.T) {
	a := newAlloc(t)
	l := a.start("t", 1, a.sh("exec sleep 1000"))
	a.killSupervisor()
	st, err := readState(a.control)
	must(t, err)
	st.Launches[0].PID, st.Launches[0].StartTime = 0, 0
	must(t, st.save(a.control))
	if _, err := a.Find(t.Context(), "t", 1, 0); !errors.Is(err, ErrLost) || alive(l.PID) {
		t.Errorf("%v; alive %v", err, alive(l.PID))
	}
	st.Launches = nil
	must(t, st.save(a.control))
	if _, err := a.Find(t.Context(), "t", 1, 0); !errors.Is(err, ErrUnknown) {
		t.Errorf("nothing recorded, nothing runs: %v", err)
	}
}

// A process has no environment for a moment while it executes a program.
func TestAMarkIsSeenWhileAProcessExecutesAnother(t *testing.T) {
	a := newAlloc(t)
	l := a.start("t", 1, a.sh(`export loop='exec sh -c "$loop"'; eval "$loop"`))
	for i := range 5000 {
		if !marked(l.PID, a.id, "t") {
			t.Fatalf("look %d: alive %v, and the mark is not seen", i, alive(l.PID))
		}
	}
	must(t, a.EndAll(t.Context(), 0))
}

func TestADamagedStateIsNotTrusted(t *testing.T) {
	a := newAlloc(t)
	l := a.start("t", 1, a.sh("exec sleep 1000"))
	a.killSupervisor()
	must(t, os.WriteFile(filepath.Join(a.path, ControlDir, fileState), []byte("berth supervisor 1 00000000\n{}\n"), 0o600))
	if _, err := a.Find(t.Context(), "t", 1, 0); !errors.Is(err, ErrLost) || alive(l.PID) {
		t.Errorf("%v; alive %v", err, alive(l.PID))
	}
}

// F-23: after a reboot the numbers belong to others.
func TestProcessesOfAnotherBootAreNotTouched(t *testing.T) {
	a := newAlloc(t)
	a.start("t", 1, a.sh("exec sleep 1000"))
	must(t, a.EndAll(t.Context(), time.Second))
	innocent := exec.Command("sleep", "1000")
	innocent.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	must(t, innocent.Start())
	defer func() { _ = innocent.Process.Kill(); _ = innocent.Wait() }()
	st := state{Boot: "another", Alloc: a.id, Launches: []Launch{{Task: "t", Number: 1, PID: innocent.Process.Pid, StartTime: 1}}}
	must(t, st.save(a.control))
	if _, err := a.Find(t.Context(), "t", 1, 0); !errors.Is(err, ErrReboot) {
		t.Errorf("%v", err)
	}
	must(t, a.EndAll(t.Context(), 0))
	if !alive(innocent.Process.Pid) {
		t.Error("somebody else's process was killed")
	}
}

func TestASupervisorThatIsToldToEndStopsItsTasks(t *testing.T) {
	a := newAlloc(t)
	l := a.start("t", 1, a.sh("trap 'exit 11' TERM; echo $$ > ready; while :; do sleep 0.01; done"))
	pid := a.supervisor()
	must(t, unix.Kill(pid, unix.SIGHUP)) // nothing to it
	a.pidFrom("ready")
	must(t, unix.Kill(pid, unix.SIGTERM))
	until(t, "it has ended", func() bool { return !a.Alive() })
	if got, err := a.Find(t.Context(), "t", 1, 0); err != nil || got.Exit == nil || got.Exit.Code != 11 || alive(l.PID) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestAPathLongerThanASocketsAddressWillDo(t *testing.T) {
	a := newAlloc(t, strings.Repeat("a", 100), strings.Repeat("b", 100))
	a.start("t", 1, a.sh("exit 2"))
	if e := a.wait("t", 1); e.Code != 2 {
		t.Errorf("%+v", e)
	}
}

// C16: neither supervisor nor task has a file of the agent's.
func TestAdvisory_C16_NoFileIsInherited(t *testing.T) {
	a := newAlloc(t)
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	leak, err := unix.Dup(int(w.Fd())) // without close-on-exec
	must(t, err)
	must(t, w.Close())
	a.start("t", 1, a.sh("ls -l /proc/self/fd | grep -c 'pipe:\\|socket:\\|"+a.id+"'; ls /proc/self/fd"))
	a.wait("t", 1)
	must(t, unix.Close(leak))
	// The pipe has no writer but those that inherited it.
	must(t, r.SetReadDeadline(time.Now().Add(eventually.Limit)))
	if _, err := r.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("somebody holds the agent's pipe: %v", err)
	}
	// stdout and stderr are pipes; ls has opened the directory as 3.
	if got := strings.Fields(a.output("t", logs.Stdout)); strings.Join(got, " ") != "1 0 1 2 3" && strings.Join(got, " ") != "2 0 1 2 3" {
		t.Errorf("files of the task: %q", got)
	}
}

func TestTheEnvironmentIsWhatWasAskedForAndTheMarks(t *testing.T) {
	t.Setenv("AGENT_SECRET", "x")
	a := newAlloc(t)
	st := a.sh("")
	st.Command, st.Args = "/usr/bin/env", nil
	st.Env = []string{"A=b", "NOMAD_ALLOC_ID=forged", "NOMAD_TASK_NAME=forged"}
	a.start("t", 1, st)
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", a.supervisor()))
	must(t, err)
	has := strings.Split(strings.TrimSuffix(string(env), "\x00"), "\x00")
	slices.Sort(has)
	if !slices.Equal(has, []string{"GOMAXPROCS=2", "GORACE=atexit_sleep_ms=0"}) {
		t.Errorf("the supervisor has %q", has)
	}
	a.wait("t", 1)
	if got, want := a.output("t", logs.Stdout), "A=b\nNOMAD_ALLOC_ID="+a.id+"\nNOMAD_TASK_NAME=t\n"; got != want {
		t.Errorf("the task has %q, want %q", got, want)
	}
}

// taskOutput writes n lines to both streams as fast as it can.
func taskOutput(n, width string) {
	lines, _ := strconv.Atoi(n)
	w, _ := strconv.Atoi(width)
	pad := strings.Repeat("x", w)
	for i := range lines {
		fmt.Printf("%d %s\n", i, pad)
		if i%10 == 0 {
			fmt.Fprintf(os.Stderr, "%d\n", i)
		}
	}
	os.Exit(0)
}

func TestHeavyOutputRotatesWithoutLosingAByte(t *testing.T) {
	t.Setenv(failpoint.Env, "supervise/log-write=delay(1ms)*") // a slow disk
	a := newAlloc(t)
	exe, err := os.Executable()
	must(t, err)
	const lines, width = 200_000, 60
	st := Start{Command: exe, Args: []string{"task-output", strconv.Itoa(lines), strconv.Itoa(width)}, Dir: "/", Logs: Logs{MaxFiles: 1000, MaxSize: 64 << 10}}
	a.start("t", 1, st)
	if e := a.wait("t", 1); !e.Success() {
		t.Fatalf("%+v", e)
	}
	var want, wantErr strings.Builder
	for i := range lines {
		fmt.Fprintf(&want, "%d %s\n", i, strings.Repeat("x", width))
		if i%10 == 0 {
			fmt.Fprintf(&wantErr, "%d\n", i)
		}
	}
	if got := a.output("t", logs.Stdout); got != want.String() {
		t.Errorf("stdout: %d bytes of %d", len(got), want.Len())
	}
	if got := a.output("t", logs.Stderr); got != wantErr.String() {
		t.Errorf("stderr: %d bytes of %d", len(got), wantErr.Len())
	}
	if files, _ := os.ReadDir(filepath.Join(a.path, logs.Dir)); len(files) < 100 {
		t.Errorf("%d files: it did not rotate", len(files))
	}
}

func TestOnlySoManyLogFilesAreKept(t *testing.T) {
	a := newAlloc(t)
	exe, err := os.Executable()
	must(t, err)
	st := Start{Command: exe, Args: []string{"task-output", "10000", "100"}, Dir: "/", Logs: Logs{MaxFiles: 3, MaxSize: 64 << 10}}
	a.start("t", 1, st)
	a.wait("t", 1)
	files, _ := filepath.Glob(filepath.Join(a.path, logs.Dir, "t.stdout.*"))
	if len(files) != 3 || !strings.HasSuffix(a.output("t", logs.Stdout), "\n9999 "+strings.Repeat("x", 100)+"\n") {
		t.Errorf("files %v", files)
	}
	off := a.sh("echo unheard")
	off.Logs = Logs{Disabled: true}
	a.start("quiet", 1, off)
	a.wait("quiet", 1)
	if files, _ := filepath.Glob(filepath.Join(a.path, logs.Dir, "quiet*")); len(files) > 0 {
		t.Errorf("disabled logs left %v", files)
	}
}

// Whoever can reach the socket can send anything.
func TestASupervisorBearsGarbage(t *testing.T) {
	a := newAlloc(t)
	l := a.start("t", 1, a.sh("exec sleep 1000"))
	dial := func() net.Conn {
		c, err := net.Dial("unix", a.control.ProcPath()+"/"+fileSocket)
		must(t, err)
		return c
	}
	for _, bytes := range []string{
		"", "\x00", "\xff\xff\xff\xff", "\x00\x00\x00\x02{}", "\x00\x00\x00\x05hello", "\x00\x3f\xff\xff{", "GET / HTTP/1.1\r\n\r\n",
		"\x00\x00\x00\x09{\"V\":999}", "\x00\x00\x00\x17{\"V\":1,\"Call\":\"nothing\"}", "\x00\x00\x00\x15{\"V\":1,\"Call\":\"start\"}",
		"\x00\x00\x00\x14{\"V\":1,\"Call\":\"wait\"}", "\x00\x00\x00\x14{\"V\":1,\"Call\":\"stop\"}",
	} {
		c := dial()
		_, _ = c.Write([]byte(bytes))
		_ = c.(*net.UnixConn).CloseWrite()
		_ = c.SetDeadline(time.Now().Add(eventually.Limit))
		b, err := io.ReadAll(c)
		if err != nil && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%q: %v", bytes, err)
		}
		if len(b) > 0 && !strings.Contains(string(b), `"Err"`) {
			t.Errorf("%q is answered with %q", bytes, b)
		}
		_ = c.Close()
	}
	var idle []net.Conn
	for range maxCalls {
		idle = append(idle, dial())
	}
	for _, c := range idle {
		_ = c.Close()
	}
	until(t, "it answers again", func() bool {
		got, err := a.Find(t.Context(), "t", 1, 0)
		return err == nil && got.PID == l.PID && alive(l.PID)
	})
}

func FuzzFrame(f *testing.F) {
	for _, v := range []any{
		request{V: 1, Call: callStart, Task: "t", Launch: 1, Start: &Start{Command: "/bin/sh", Dir: "/"}},
		response{V: 1, Launch: &Launch{Task: "t", Exit: &Exit{Code: 1}}},
	} {
		var b bytes.Buffer
		if err := writeFrame(&b, v); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	f.Add([]byte("\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var req request
		if readFrame(bytes.NewReader(b), &req) == nil {
			_ = req.check()
		}
		var resp response
		if readFrame(bytes.NewReader(b), &resp) == nil {
			_ = resp.err()
		}
	})
}

func FuzzState(f *testing.F) {
	s := state{Boot: "b", Alloc: "a", Launches: []Launch{{Task: "t", Number: 1, Exit: &Exit{}}}}
	b, err := s.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := decodeState(b); err == nil {
			if _, err := s.encode(); err != nil {
				t.Error(err)
			}
		}
	})
}

func FuzzProcStat(f *testing.F) {
	b, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte("1 (a) b) S 2 3 4"))
	f.Fuzz(func(t *testing.T, b []byte) { parseStat(1, b) })
}

func TestStatOfAProcessWithAHostileName(t *testing.T) {
	tail := " S 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 4711 26 27\n"
	for _, name := range []string{"sh", "a b", ") Z 1 1 1", "((", "\n", ""} {
		p, ok := parseStat(3, []byte("3 ("+name+")"+tail))
		if want := (process{pid: 3, state: 'S', parent: 7, session: 9, threads: 23, start: 4711, ticks: 17 + 18 + 19 + 20, system: 18 + 20, rss: 27}); !ok || p != want {
			t.Errorf("%q: %+v, %v", name, p, ok)
		}
	}
}

// A request to start a task can be slow on its way. Once the agent was told that
// the launch is not known, and has acted on it, it must not start any more.
func TestALaunchThatWasNotFoundDoesNotStartLater(t *testing.T) {
	a := newAlloc(t)
	a.start("other", 1, a.sh("exec sleep 1000"))
	// The caller is still connected when its request is dealt with.
	conn, err := net.Dial("unix", a.control.ProcPath()+"/"+fileSocket)
	must(t, err)
	defer conn.Close()
	if _, err := a.Find(t.Context(), "t", 3, 0); !errors.Is(err, ErrUnknown) {
		t.Fatalf("found %v before it was started", err)
	}
	st := a.sh("exec sleep 1000")
	for launch := uint64(1); launch <= 3; launch++ {
		must(t, writeFrame(conn, &request{V: version, Call: callStart, Task: "t", Launch: launch, Start: &st}))
		var resp response
		must(t, readFrame(conn, &resp))
		if resp.Kind != berth.Conflict || resp.Launch != nil {
			t.Errorf("launch %d: %q, %v, want a conflict", launch, resp.Err, resp.Launch)
		}
		conn, err = net.Dial("unix", a.control.ProcPath()+"/"+fileSocket)
		must(t, err)
		defer conn.Close()
	}
	a.start("t", 4, st)
	must(t, a.Stop(t.Context(), "t", 4, syscall.SIGKILL, 0))
	a.wait("t", 4)
}

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"berth/internal/environ"
	"berth/internal/failpoint"
)

// machine is one server or agent: a directory, a network, and a process that
// can be killed and started again.
type machine struct {
	*host
	name   string
	server bool
	dir    string // of its data
	berth  string
	config string // path
	points string // the file of its failpoints
	log    string // path; one file for all its lives

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
	life atomic.Int64  // how often it was started
}

// http returns the base address of the machine's HTTP API.
func (m *machine) http() string { return "http://" + m.addr + ":4646" }

// start starts the process. It does not wait until it is ready.
func (m *machine) start(env ...string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cmd != nil && !ended(m.done) {
		return fmt.Errorf("%s runs", m.name)
	}
	out, err := os.OpenFile(m.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer out.Close()
	// The log of all lives is one file; this line separates them.
	life := m.life.Add(1)
	fmt.Fprintf(out, "---- %s: life %d of %s\n", time.Now().Format(time.StampMilli), life, m.name)
	cmd, done := exec.Command(m.berth, "agent", "-config", m.config), make(chan struct{})
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + m.dir, "TMPDIR=" + filepath.Dir(m.config), failpoint.Env + "=@" + m.points, "GORACE=atexit_sleep_ms=0",
	}, env...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = filepath.Dir(m.config), out, out
	if err := m.within(cmd.Start); err != nil {
		return err
	}
	// Waiting collects the process, and closes done for all who ask.
	m.cmd, m.done = cmd, done
	go func() { defer close(done); _ = cmd.Wait() }()
	return nil
}

// ended reports whether done is closed.
func ended(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// running reports whether there is a process, paused or not.
func (m *machine) running() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cmd != nil && !ended(m.done)
}

// signal sends a signal to the process alone, not to what it started.
func (m *machine) signal(s syscall.Signal) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cmd == nil || ended(m.done) {
		return fmt.Errorf("%s does not run", m.name)
	}
	return m.cmd.Process.Signal(s)
}

// kill ends the process as a crash does.
func (m *machine) kill() {
	if m.signal(syscall.SIGKILL) == nil {
		<-m.done
	}
}

// pause stops the process where it is; resume lets it go on.
func (m *machine) pause() error { return m.signal(syscall.SIGSTOP) }

// resume continues a stopped process.
func (m *machine) resume() error { return m.signal(syscall.SIGCONT) }

// end asks the process to end, as an operator does.
func (m *machine) end(limit time.Duration) error {
	if err := m.signal(syscall.SIGTERM); err != nil {
		return nil // it has ended
	}
	select {
	case <-m.done:
	case <-time.After(limit):
		_ = m.signal(syscall.SIGQUIT) // it logs its goroutines
		select {
		case <-m.done:
		case <-time.After(2 * time.Second):
			m.kill()
		}
		return fmt.Errorf("%s did not end within %v of SIGTERM", m.name, limit)
	}
	if code := m.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("%s ended with exit code %d after SIGTERM", m.name, code)
	}
	return nil
}

// set sets the failpoints of the running process and removes all earlier ones.
func (m *machine) set(points string) error {
	next := m.points + ".next"
	if err := os.WriteFile(next, []byte(points), 0o644); err != nil {
		return err
	}
	return os.Rename(next, m.points)
}

// said returns the log from an offset on.
func (m *machine) said(from int64) string {
	b, err := os.ReadFile(m.log)
	if err != nil || int64(len(b)) < from {
		return ""
	}
	return string(b[from:])
}

// size returns the length of the log so far, in bytes.
func (m *machine) size() int64 {
	st, err := os.Stat(m.log)
	if err != nil {
		return 0
	}
	return st.Size()
}

// seen is a process as /proc shows it.
type seen struct {
	args   string
	zombie bool
	gone   bool
	alloc  string // of a task
}

// lookAt reads what /proc tells of the process in dir. A process that has gone
// is not an error.
func lookAt(dir string) (p seen) {
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil {
		p.gone = true
		return p
	}
	p.zombie = bytes.Contains(stat, []byte(") Z "))
	args, _ := os.ReadFile(dir + "/cmdline")
	p.args = strings.TrimSpace(strings.ReplaceAll(string(args), "\x00", " "))
	pid, _ := strconv.Atoi(filepath.Base(dir))
	env := environ.Of(pid)
	task := false
	for v := range strings.SplitSeq(string(env), "\x00") {
		switch name, value, _ := strings.Cut(v, "="); name {
		case "NOMAD_ALLOC_ID":
			p.alloc = value
		case "NOMAD_TASK_NAME":
			task = true
		}
	}
	if !task {
		p.alloc = ""
	}
	return p
}

// tasks returns the processes of tasks, by allocation.
func tasks() map[string][]int {
	out := map[string][]int{}
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range all {
		if p := lookAt(dir); p.alloc != "" && !p.zombie {
			pid, _ := strconv.Atoi(filepath.Base(dir))
			out[p.alloc] = append(out[p.alloc], pid)
		}
	}
	return out
}

// until waits until cond returns "". Any other text is what is still missing.
func until(ctx context.Context, limit time.Duration, what string, cond func() string) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		amiss := cond()
		if amiss == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited %v in vain until %s: %s", limit, what, amiss)
		case <-tick.C:
		}
	}
}

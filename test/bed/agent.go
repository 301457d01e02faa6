package bed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"

	"berth/internal/eventually"
)

// Agent is an agent process that can be killed and started again with the same
// arguments. All its lives write to one log.
type Agent struct {
	Name    string
	Args    []string                   // after "berth agent"
	Prepare func(*exec.Cmd)            // changes the command before it is started, if set
	Around  func(f func() error) error // calls f, which starts the process, in another network, if set

	bed *Bed

	mu    sync.Mutex
	cmd   *exec.Cmd     // of the newest life; nil before the first
	done  chan struct{} // closed when that has ended
	lives int
	from  int64 // where its log begins
}

// Agent returns an agent of the bed that is not started yet.
func (b *Bed) Agent(name string, args ...string) *Agent {
	a := &Agent{Name: name, Args: args, bed: b}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.agents = append(b.agents, a)
	return a
}

// LogFile is the path of the log.
func (a *Agent) LogFile() string { return filepath.Join(a.bed.Dir, a.Name+".log") }

// Start starts the process. It does not wait until the agent is ready; Await
// does.
func (a *Agent) Start(env ...string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.running() {
		return fmt.Errorf("%s is running", a.Name)
	}
	log, err := os.OpenFile(a.LogFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	if info, err := log.Stat(); err == nil {
		a.from = info.Size()
	}
	// All lives write to one log; from is where this one begins.
	cmd, done := exec.Command(a.bed.Binary, append([]string{"agent"}, a.Args...)...), make(chan struct{})
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = a.bed.Dir, a.bed.Environ(env...), log, log
	if a.Prepare != nil {
		a.Prepare(cmd)
	}
	start := cmd.Start
	if a.Around != nil {
		start = func() error { return a.Around(cmd.Start) }
	}
	if err := start(); err != nil {
		return fmt.Errorf("start %s: %w", a.Name, err)
	}
	// Waiting collects the process, and closes done for all who ask.
	a.cmd, a.done = cmd, done
	a.lives++
	go func() { defer close(done); _ = cmd.Wait() }()
	return nil
}

// running is Running for callers that hold mu.
func (a *Agent) running() bool {
	if a.cmd == nil {
		return false
	}
	select {
	case <-a.done:
		return false
	default:
		return true
	}
}

// Running reports whether the process runs, paused or not.
func (a *Agent) Running() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.running()
}

// Done is closed when the process of the newest life has ended. The agent must
// have been started.
func (a *Agent) Done() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.done
}

// Lives returns how often the agent was started.
func (a *Agent) Lives() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lives
}

// PID returns the process ID of the newest life.
func (a *Agent) PID() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.cmd.Process.Pid
}

// ExitCode returns the exit code of the newest life, which must have ended.
func (a *Agent) ExitCode() int {
	<-a.Done()
	return a.cmd.ProcessState.ExitCode()
}

// Signal sends a signal to the process, not to what it started.
func (a *Agent) Signal(s syscall.Signal) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.running() {
		return fmt.Errorf("%s is not running", a.Name)
	}
	return a.cmd.Process.Signal(s)
}

// Kill ends the process as a crash does, if it runs.
func (a *Agent) Kill() {
	if a.Signal(syscall.SIGKILL) == nil {
		<-a.Done()
	}
}

// End asks the process to end and returns its exit code. One that does not end
// is killed after it has logged its goroutines.
func (a *Agent) End(s syscall.Signal) (code int, err error) {
	if err := a.Signal(s); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), eventually.Limit)
	defer cancel()
	select {
	case <-a.Done():
		return a.ExitCode(), nil
	case <-ctx.Done():
	}
	_ = a.Signal(syscall.SIGQUIT)
	_ = Until(context.Background(), "goroutines are logged", func() string {
		if a.Running() && !strings.Contains(a.Said(), "SIGQUIT") {
			return "not yet"
		}
		return ""
	})
	a.Kill()
	return 0, fmt.Errorf("%s did not end within %v of %v", a.Name, eventually.Limit, s)
}

// Said returns what the newest life has printed.
func (a *Agent) Said() string {
	a.mu.Lock()
	from := a.from
	a.mu.Unlock()
	all := a.AllSaid()
	return all[min(int(from), len(all)):]
}

// AllSaid returns what all lives have printed.
func (a *Agent) AllSaid() string {
	text, _ := os.ReadFile(a.LogFile())
	return string(text)
}

// Await waits until the agent has started and printed its addresses.
func (a *Agent) Await(ctx context.Context) error {
	ended := errors.New("")
	err := Until(ctx, a.Name+" has started", func() string {
		running, said := a.Running(), a.Said()
		switch {
		case strings.Contains(said, "agent started!"):
			return ""
		case !running:
			ended = fmt.Errorf("%s has ended:\n%s", a.Name, said)
			return ""
		}
		return "it has printed:\n" + said
	})
	if err == nil && ended.Error() != "" {
		return ended
	}
	return err
}

// Banner returns a value that the agent printed when it started, such as "HTTP"
// or "Node ID", or "" if it printed none.
func (a *Agent) Banner(name string) string {
	m := regexp.MustCompile(`(?m)^ +` + regexp.QuoteMeta(name) + `: (.*)$`).FindStringSubmatch(a.Said())
	if m == nil {
		return ""
	}
	return m[1]
}

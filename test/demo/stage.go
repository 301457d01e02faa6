package main

import (
	"bufio"
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
	"slices"
	"strings"
	"syscall"
	"time"
)

// stage is where the demonstration plays: one agent or several, their data, and
// what the audience sees.
type stage struct {
	ctx                    context.Context
	out                    io.Writer
	berth, hello, examples string
	programs               string // the folder of the built examples/stream
	dir                    string // of data, and of the agent's log
	addr                   string // of the agent's HTTP API
	agent                  *process
	members                []*member         // of a cluster
	answers                map[string]string // of the service, by address

	room string   // more lines of a node's configuration
	half standing // of the stream job that was interrupted
	from uint64   // index at which that began
}

// process is an agent that was started.
type process struct {
	cmd   *exec.Cmd
	addr  string        // of its HTTP API
	ended chan struct{} // closed when it has ended
}

func newStage(ctx context.Context, out io.Writer, berth, hello, programs, examples string) (*stage, error) {
	s := &stage{ctx: ctx, out: out, examples: examples}
	for _, p := range []struct {
		to   *string
		from string
	}{{&s.berth, berth}, {&s.hello, hello}, {&s.programs, programs}} {
		abs, err := filepath.Abs(p.from)
		if err != nil {
			return nil, err
		}
		*p.to = abs
	}
	dir, err := os.MkdirTemp("", "berth-demo-")
	s.dir = dir
	return s, err
}

// clear ends what still runs and removes what was written. It returns err, or
// what it found left over.
func (s *stage) clear(err error) error {
	if err != nil && s.addr != "" { // jobs may still run: their tasks outlive the agents
		for _, job := range []string{"web", "primes", "big", "telemetry", "alerts"} {
			_, _ = s.command("job", "stop", "-purge", "-detach", job)
		}
		_ = until(10*time.Second, "tasks end", func() (bool, error) { return len(s.processes()) == 0, nil })
	}
	if s.agent != nil {
		err = errors.Join(err, s.interruptAgent())
	}
	err = errors.Join(err, s.interruptMembers())
	for _, pid := range s.processes() {
		err = errors.Join(err, fmt.Errorf("process %d was left over", pid))
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	if err != nil {
		logs, _ := filepath.Glob(filepath.Join(s.dir, "*.log"))
		for _, name := range logs {
			if log, readErr := os.ReadFile(name); readErr == nil {
				fmt.Fprintf(s.out, "\n%s:\n%s", filepath.Base(name), log)
			}
		}
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

// listen has the agent take ports that are free, so that the demonstration
// disturbs no other agent of this machine.
const listen = "ports {\n  http = 0\n  rpc  = 0\n}\n"

// start starts the agent and waits until its node is ready.
func (s *stage) start() error {
	ports := filepath.Join(s.dir, "ports.hcl")
	if err := os.WriteFile(ports, []byte(listen), 0o600); err != nil {
		return err
	}
	fmt.Fprintf(s.out, "$ berth agent -config examples/agent.hcl -data-dir … &\n")
	var err error
	s.agent, err = s.launch("agent.log", "-config", filepath.Join(s.examples, "agent.hcl"), "-config", ports, "-data-dir", filepath.Join(s.dir, "data"))
	if err != nil {
		return err
	}
	s.addr = s.agent.addr
	return until(30*time.Second, "the node is ready", func() (bool, error) {
		out, err := s.command("node", "status")
		return err == nil && strings.Contains(out, "ready"), nil
	})
}

// launch starts an agent and waits until it says where its API is.
func (s *stage) launch(log string, args ...string) (*process, error) {
	stderr, err := os.OpenFile(filepath.Join(s.dir, log), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer stderr.Close()
	p := &process{cmd: exec.Command(s.berth, append([]string{"agent"}, args...)...), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), "BERTH_DEMO="+s.dir) // what it starts can be told by that
	p.cmd.Stderr = stderr
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	address := make(chan string, 1)
	go func() {
		defer close(p.ended)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			if _, addr, ok := strings.Cut(lines.Text(), "HTTP: "); ok {
				address <- addr
			}
		}
		_ = p.cmd.Wait()
	}()
	select {
	case p.addr = <-address:
		return p, nil
	case <-p.ended:
		err = errors.New("the agent has ended")
	case <-s.ctx.Done():
		err = s.ctx.Err()
	}
	return nil, errors.Join(err, p.kill())
}

// kill ends the process at once.
func (p *process) kill() error {
	err := p.cmd.Process.Kill()
	<-p.ended
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// interrupt ends the process as a person does, and waits for it.
func (p *process) interrupt() error {
	_ = p.cmd.Process.Signal(os.Interrupt)
	select {
	case <-p.ended:
		return nil
	case <-time.After(20 * time.Second):
		return errors.Join(errors.New("the agent did not end when it was interrupted"), p.kill())
	}
}

// interruptAgent ends the only agent.
func (s *stage) interruptAgent() error {
	p := s.agent
	s.agent = nil
	return p.interrupt()
}

// ours says whether a process is an agent that runs.
func (s *stage) ours(pid int) bool {
	if s.agent != nil && s.agent.cmd.Process.Pid == pid {
		return true
	}
	return slices.ContainsFunc(s.members, func(m *member) bool { return m.process != nil && m.cmd.Process.Pid == pid })
}

// show runs a command and shows it with what it printed.
func (s *stage) show(args ...string) (string, error) { return s.showCode(0, args...) }

// showCode is show for a command that ends with a code.
func (s *stage) showCode(code int, args ...string) (string, error) {
	var typed []string
	for _, a := range args {
		a = strings.ReplaceAll(strings.ReplaceAll(a, s.hello, "$PWD/bin/hello"), s.programs, "$PWD/bin/stream")
		if strings.ContainsAny(a, " {}") {
			a = "'" + a + "'"
		}
		typed = append(typed, a)
	}
	fmt.Fprintf(s.out, "$ berth %s\n", strings.Join(typed, " "))
	out, err := s.command(args...)
	fmt.Fprintln(s.out, strings.TrimRight(out, "\n"))
	fmt.Fprintln(s.out)
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() == code:
		return out, nil
	case err == nil && code != 0:
		return out, fmt.Errorf("berth %s: exit code 0, not %d", strings.Join(args, " "), code)
	}
	return out, err
}

// command runs a command of the program and returns what it printed.
func (s *stage) command(args ...string) (string, error) {
	cmd := exec.CommandContext(s.ctx, s.berth, args...)
	cmd.Env = append(os.Environ(), "BERTH_ADDR="+s.addr)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if err != nil {
		err = fmt.Errorf("berth %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(errs.String()))
	}
	return out.String(), err
}

// get asks the API.
func (s *stage) get(path string, out any) error {
	body, err := fetch(s.ctx, s.addr+path)
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(body), out)
}

func fetch(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", url, resp.Status, body)
	}
	return string(body), err
}

// processes are those that come from this stage's agents: tasks, by what is in
// their environment, and supervisors, by where they are. The agents themselves
// are not among them.
func (s *stage) processes() (pids []int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		var pid int
		if _, err := fmt.Sscan(e.Name(), &pid); err != nil || s.ours(pid) {
			continue
		}
		env, err := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		marked := err == nil && slices.Contains(strings.Split(string(env), "\x00"), "BERTH_DEMO="+s.dir)
		cwd, err := os.Readlink(filepath.Join("/proc", e.Name(), "cwd"))
		if marked || err == nil && strings.HasPrefix(cwd, s.dir) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// until waits for a condition.
func until(most time.Duration, what string, ok func() (bool, error)) error {
	for deadline := time.Now().Add(most); ; time.Sleep(20 * time.Millisecond) {
		yes, err := ok()
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", what, err)
		case yes:
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("waited in vain until %s", what)
		}
	}
}

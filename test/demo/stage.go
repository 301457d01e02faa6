package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"berth/internal/eventually"
	"berth/test/bed"
)

// stage holds what a demonstration runs on: one agent or several, their data,
// and the output.
type stage struct {
	*bed.Bed
	ctx             context.Context
	out             io.Writer
	hello, examples string
	programs        string // the folder of the built examples/stream
	addr            string // of the agent's HTTP API
	agent           *bed.Agent
	members         []*member         // of a cluster
	answers         map[string]string // of the service, by address

	token string            // of access control, for commands
	teams map[string]string // tokens by team

	room string   // more lines of a node's configuration
	half standing // of the stream job that was interrupted
	from uint64   // index at which that began
}

// newStage returns a stage with a temporary directory. It makes the paths of
// programs absolute, because tasks run elsewhere.
func newStage(ctx context.Context, out io.Writer, berth, hello, programs, examples string) (*stage, error) {
	s := &stage{ctx: ctx, out: out, examples: examples}
	var binary string
	for _, p := range []struct {
		to   *string
		from string
	}{{&binary, berth}, {&s.hello, hello}, {&s.programs, programs}} {
		abs, err := filepath.Abs(p.from)
		if err != nil {
			return nil, err
		}
		*p.to = abs
	}
	dir, err := os.MkdirTemp("", "berth-demo-")
	s.Bed = bed.New(dir, binary)
	return s, err
}

// clear ends what still runs and removes what was written. It returns err, or
// what it found left over.
func (s *stage) clear(err error) error {
	if err != nil && s.addr != "" { // jobs may still run: their tasks outlive the agents
		for _, job := range []string{"web", "primes", "big", "telemetry", "alerts"} {
			_, _ = s.command("job", "stop", "-purge", "-detach", job)
		}
		_, _ = s.command("job", "stop", "-namespace", "red", "-purge", "-detach", "shop")
		_ = until(s.ctx, "tasks end", func() (bool, error) { return len(s.tasks()) == 0, nil })
	}
	err = errors.Join(err, s.interruptAgent(), s.interruptMembers())
	for _, p := range s.Processes() {
		err = errors.Join(err, fmt.Errorf("process %v was left over", p))
	}
	err = errors.Join(err, s.Close())
	if err != nil {
		fmt.Fprintf(s.out, "\n%s", s.Tails())
	}
	return errors.Join(err, os.RemoveAll(s.Dir))
}

// listen makes the agent take free ports, so that the demonstration disturbs no
// other agent on this machine.
const listen = "ports {\n  http = 0\n  rpc  = 0\n}\n"

// start starts the agent and waits until its node is ready.
func (s *stage) start() error {
	ports := filepath.Join(s.Dir, "ports.hcl")
	if err := os.WriteFile(ports, []byte(listen), 0o600); err != nil {
		return err
	}
	fmt.Fprintf(s.out, "$ berth agent -config examples/agent.hcl -data-dir … &\n")
	if s.agent == nil {
		config, err := filepath.Abs(filepath.Join(s.examples, "agent.hcl"))
		if err != nil {
			return err
		}
		s.agent = s.Agent("agent", "-config", config, "-config", ports, "-data-dir", filepath.Join(s.Dir, "data"))
	}
	if err := s.launch(s.agent); err != nil {
		return err
	}
	s.addr = s.agent.Banner("HTTP")
	return until(s.ctx, "the node is ready", func() (bool, error) {
		out, err := s.command("node", "status")
		return err == nil && strings.Contains(out, "ready"), nil
	})
}

// launch starts an agent and waits until it says where its API is.
func (s *stage) launch(a *bed.Agent) error {
	if err := a.Start(); err != nil {
		return err
	}
	return a.Await(s.ctx)
}

// interrupt ends an agent as a person does, if it runs.
func interrupt(a *bed.Agent) error {
	if a == nil || !a.Running() {
		return nil
	}
	_, err := a.End(syscall.SIGINT)
	return err
}

// interruptAgent ends the only agent.
func (s *stage) interruptAgent() error { return interrupt(s.agent) }

// show runs a command and shows it with what it printed.
func (s *stage) show(args ...string) (string, error) { return s.showCode(0, args...) }

// showCode is show for a command that must end with the given exit code.
func (s *stage) showCode(code int, args ...string) (string, error) {
	var typed []string
	for _, a := range args {
		a = strings.TrimPrefix(a, s.Dir+"/")
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
	var exit *exitError
	switch {
	case errors.As(err, &exit) && exit.code == code:
		return out, nil
	case err == nil && code != 0:
		return out, fmt.Errorf("berth %s: exit code 0, not %d", strings.Join(args, " "), code)
	}
	return out, err
}

// command runs a command of the program and returns what it printed. An exit
// code other than 0 is an exitError.
func (s *stage) command(args ...string) (string, error) {
	folder, err := os.Getwd() // examples are shown with the paths that a user types
	if err != nil {
		return "", err
	}
	r, err := s.RunIn(s.ctx, folder, s.Binary, []string{"BERTH_ADDR=" + s.addr, "BERTH_TOKEN=" + s.token}, args...)
	if err == nil && r.Code != 0 {
		err = &exitError{r.Code, fmt.Sprintf("berth %s: %s", strings.Join(args, " "), strings.TrimSpace(r.String()))}
	}
	return r.Out, err
}

// exitError is the failure of a command.
type exitError struct {
	code int
	text string
}

// Error returns the text of the command that failed.
func (e *exitError) Error() string { return e.text }

// get reads a path of the API into out.
func (s *stage) get(path string, out any) error {
	body, err := fetch(s.ctx, s.addr+path)
	if err != nil {
		return err
	}
	return eventually.Decode([]byte(body), out)
}

// fetch returns the body that url answers with. A status other than 200 is an
// error.
func fetch(ctx context.Context, url string) (string, error) {
	a, err := bed.Call(ctx, http.MethodGet, url, "")
	if err == nil && a.Code != http.StatusOK {
		err = fmt.Errorf("%s: %d: %s", url, a.Code, a.Text)
	}
	return a.Text, err
}

// tasks are the processes of jobs: tasks and their supervisors.
func (s *stage) tasks() []bed.Process {
	return slices.DeleteFunc(s.Processes(), func(p bed.Process) bool { return p.Alloc == "" && p.Task == "" })
}

// until waits until ok reports true. An error of it ends the wait.
func until(ctx context.Context, what string, ok func() (bool, error)) error {
	var failed error
	err := bed.Until(ctx, what, func() string {
		var yes bool
		if yes, failed = ok(); yes || failed != nil {
			return ""
		}
		return "it is not so"
	})
	if failed != nil {
		return fmt.Errorf("%s: %w", what, failed)
	}
	return err
}

// Package bed runs the real binary for tests, fault runs, demonstrations and
// benchmarks. It builds the binary once, starts agents and commands, waits for
// what they say or show, kills them, starts them again, keeps their logs, and
// finds what they have left: processes, cgroups, data races.
//
// Everything that belongs to a bed carries its mark in the environment or works
// in its directory. So beds do not disturb each other, and each can end all of
// its own.
package bed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"berth/internal/eventually"
)

// MarkVar is the environment variable that holds the mark of a bed. Agents pass
// few variables on to tasks; those of the locale are among them.
const MarkVar = "LC_BERTH_BED"

// Bed holds the processes of one test or one run.
type Bed struct {
	Dir    string   // absolute; configuration, data and logs are below it
	Binary string   // absolute path of the berth binary that agents run
	Mark   string   // value of MarkVar
	Env    []string // more environment of all processes

	mu     sync.Mutex
	agents []*Agent
}

// New returns a bed in a directory. Its name is the mark: it must be unique on
// this machine.
func New(dir, binary string) *Bed {
	return &Bed{Dir: dir, Binary: binary, Mark: strings.ReplaceAll(strings.Trim(dir, "/"), "/", ".") + "."}
}

// Build builds the binary with failpoints in a directory, with more flags for go
// build.
func Build(dir string, flags ...string) (binary string, err error) {
	binary = filepath.Join(dir, "berth")
	return binary, Program(binary, "berth/cmd/berth", append([]string{"-tags", "faults"}, flags...)...)
}

// Program builds a program at a path, or below it if that is a directory: static,
// as releases are, so that all of them share what was compiled; only the race
// detector needs a C compiler.
func Program(path, pkg string, flags ...string) error {
	cmd := exec.Command("go", append(append([]string{"build"}, flags...), "-o", path, pkg)...)
	if !slices.Contains(flags, "-race") {
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	return nil
}

// Environ is the environment of the bed's processes; of two values of a variable
// the last one counts.
func (b *Bed) Environ(more ...string) []string {
	env := []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + b.Dir, "TMPDIR=" + b.Dir, MarkVar + "=" + b.Mark,
		"GORACE=atexit_sleep_ms=0 log_path=" + filepath.Join(b.Dir, "race"),
	}
	return append(append(env, b.Env...), more...)
}

// CgroupParent is a name for the cgroup of the bed's agents.
func (b *Bed) CgroupParent() string { return b.Mark + "slice" }

// File writes a file below the directory and returns its path.
func (b *Bed) File(name, text string) (string, error) {
	path := filepath.Join(b.Dir, name)
	return path, os.WriteFile(path, []byte(text), 0o600)
}

// Result is what a command printed and how it ended.
type Result struct {
	Code     int
	Out, Err string
}

// String returns the exit code, then both outputs, for messages.
func (r Result) String() string { return fmt.Sprintf("exit code %d\n%s%s", r.Code, r.Out, r.Err) }

// Run runs a program in the bed's directory to its end. An exit code is not an
// error.
func (b *Bed) Run(ctx context.Context, program string, env []string, args ...string) (Result, error) {
	return b.RunIn(ctx, b.Dir, program, env, args...)
}

// RunIn is Run in another directory.
func (b *Bed) RunIn(ctx context.Context, dir, program string, env []string, args ...string) (Result, error) {
	c, err := b.command(ctx, dir, program, env, args...)
	if err != nil {
		return Result{}, err
	}
	return c.Wait()
}

// Command is a program that runs while the test goes on.
type Command struct {
	ctx       context.Context
	cancel    context.CancelFunc
	cmd       *exec.Cmd
	out, errs output
}

// Command starts a program, which is killed after eventually.Limit. The caller
// must call Wait.
func (b *Bed) Command(ctx context.Context, program string, env []string, args ...string) (*Command, error) {
	return b.command(ctx, b.Dir, program, env, args...)
}

// command starts a program. It is killed after eventually.Limit, so that a test
// cannot hang on it.
func (b *Bed) command(ctx context.Context, dir, program string, env []string, args ...string) (*Command, error) {
	c := &Command{}
	c.ctx, c.cancel = context.WithTimeout(ctx, eventually.Limit)
	c.cmd = exec.CommandContext(c.ctx, program, args...)
	c.cmd.Dir, c.cmd.Env, c.cmd.Stdout, c.cmd.Stderr = dir, b.Environ(env...), &c.out, &c.errs
	if err := c.cmd.Start(); err != nil {
		c.cancel()
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	return c, nil
}

// Out is what the program has printed so far.
func (c *Command) Out() string { return c.out.String() }

// Wait waits until the program has ended.
func (c *Command) Wait() (Result, error) {
	defer c.cancel()
	err := c.cmd.Wait()
	if _, exited := errors.AsType[*exec.ExitError](err); exited {
		err = c.ctx.Err() // nil, unless it was killed
	}
	if err != nil {
		return Result{}, fmt.Errorf("%s: %w", strings.Join(c.cmd.Args, " "), err)
	}
	return Result{c.cmd.ProcessState.ExitCode(), c.out.String(), c.errs.String()}, nil
}

// output is a buffer that can be read while it is written.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer. The process writes while tests read.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

// String returns what was written so far.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// Close ends everything that still runs. Its error lists what went wrong: files
// that cannot be removed, panics of agents, and data races.
func (b *Bed) Close() error {
	b.mu.Lock()
	agents := b.agents
	b.mu.Unlock()
	for _, a := range agents {
		a.Kill()
	}
	// Tasks outlive their agents, so they are killed until none is left.
	err := Until(context.Background(), "all processes have ended", func() string {
		left := b.Processes()
		for _, p := range left {
			_ = syscall.Kill(p.PID, syscall.SIGKILL)
		}
		if len(left) > 0 {
			return fmt.Sprint(left)
		}
		return ""
	})
	// Cgroups can be removed only once they are empty.
	errs := []error{err, RemoveCgroups(b.Mark), UnmountBelow(b.Dir)}
	for _, a := range agents {
		if text, bad := crash(a.AllSaid()); bad {
			errs = append(errs, fmt.Errorf("%s: %s", a.Name, text))
		}
	}
	// The race detector writes a file for each process that had a race.
	races, _ := filepath.Glob(filepath.Join(b.Dir, "race.*"))
	for _, name := range races {
		report, _ := os.ReadFile(name)
		errs = append(errs, fmt.Errorf("data race:\n%s", report))
	}
	return errors.Join(errs...)
}

// crash returns the part of a log that begins with a panic or a data race.
func crash(log string) (text string, bad bool) {
	for _, sign := range []string{"panic:", "DATA RACE"} {
		if i := strings.Index(log, sign); i >= 0 {
			return log[i:], true
		}
	}
	return "", false
}

// Tails returns the end of each agent's log, for a report of a failure.
func (b *Bed) Tails() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out strings.Builder
	for _, a := range b.agents {
		text := a.AllSaid()
		fmt.Fprintf(&out, "log of %s:\n%s\n", a.Name, text[max(0, len(text)-3000):])
	}
	return out.String()
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"berth"
	"berth/client"
	"berth/op"
)

// varLockCommand runs a command while it holds a lock.
func varLockCommand() *command {
	return &command{
		name: "var lock", args: "<path | @file | -> [key=value ...] <command> [args ...]", synopsis: "Run a command while holding a lock on a variable", min: 2, max: -1,
		example: "var lock -ttl 30s locks/leader ./serve -port 8080",
		help: `Takes the lock on a variable, waiting until nobody else holds it, and runs a command while it holds the lock. The variable is
			created if there is none. The lock is renewed until the command ends, and then released. If the lock is lost, the command is
			ended: by SIGTERM, and 5 seconds later by SIGKILL.

			Ctrl-C ends the command in the same way, until the command reads the terminal: then it gets what is typed, Ctrl-C included. Ctrl-Z
			suspends neither program, because the lock would be lost.

			The exit code is that of the command. If a signal ended the command, it is 128 plus the number of the signal. It is not 0 if this
			program was interrupted.`,
		setup: func(f *flags) action {
			l := varLock{
				ttl:   f.FlagSet.Duration("ttl", berth.DefaultLockTTL, "The `time` after which a lock that is not renewed is lost, from 10s to 24h."),
				delay: f.FlagSet.Duration("delay", berth.DefaultLockDelay, "The `time` for which nobody can take a lock that was lost."),
				shell: f.FlagSet.Bool("shell", true, "Run the command in a shell."),
				early: f.Bool("early-return", "Fail if the lock is held by somebody else, instead of waiting."),
				tries: f.Int("max-retry", 5, "How `often` a call that failed is made again before the lock counts as lost."),
				pause: f.FlagSet.Duration("backoff", time.Second, "The `time` between two attempts to take the lock."),
			}
			f.Bool("verbose", "Accepted; there is nothing more to print.")
			return l.run
		},
	}
}

// varLock holds the flags of "var lock".
type varLock struct {
	ttl, delay, pause *time.Duration
	shell, early      *bool
	tries             *int
}

// split parts the arguments: those that describe the variable, and the command.
func (l *varLock) split(args []string) (variable, command []string) {
	n := 1
	for n < len(args) && strings.Contains(args[n], "=") && !strings.ContainsAny(args[n], " \t") {
		n++
	}
	return args[:n], args[n:]
}

// run takes the lock and runs the command.
func (l *varLock) run(ctx context.Context, c *call) error {
	variable, command := l.split(c.args)
	if len(command) == 0 {
		return c.usagef("missing argument: give the command to run, usage: %s", c.command.usage(c.Name))
	}
	switch {
	case *l.pause <= 0:
		return c.usagef("flag -backoff must be a duration above 0, such as 2s, got %v", *l.pause)
	case *l.tries < 0:
		return c.usagef("flag -max-retry must be at least 0, got %d", *l.tries)
	}
	v, err := c.varSpec(variable)
	if err != nil {
		return err
	}
	w := op.WriteVariable{VarPath: v.Path, Items: v.Items, Acquire: true, Lock: &op.Lock{TTL: l.ttl.String(), LockDelay: l.delay.String()}}
	w.Namespace = v.Namespace
	held, err := l.acquire(ctx, c, w)
	if err != nil {
		return err
	}
	w.Items, w.Acquire, w.Lock = nil, false, &op.Lock{ID: held}
	lost, end := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() { // ends with the command
		defer close(done)
		l.keep(lost, c, w, end)
	}()
	err = l.command(lost, c, command)
	cause := context.Cause(lost)
	end(nil)
	<-done
	w.Release = true
	give, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if _, _, failed := client.Call(give, c.client, op.PutVariable, w); failed != nil && err == nil {
		return fmt.Errorf("release the lock: %w", failed)
	}
	if errors.Is(cause, errLockLost) {
		return berth.Errorf(berth.Conflict, "The lock on variable %q was lost, and the command was ended", v.Path)
	}
	return err
}

// errLockLost ends the command whose lock was lost.
var errLockLost = errors.New("the lock was lost")

// acquire returns the ID of the lock once this caller holds it.
func (l *varLock) acquire(ctx context.Context, c *call, w op.WriteVariable) (id string, err error) {
	for failed := 0; ; {
		out, _, err := client.Call(ctx, c.client, op.PutVariable, w)
		switch {
		case err == nil && !out.Conflict && out.Lock != nil && out.Lock.ID != "":
			return out.Lock.ID, nil
		case err == nil && *l.early:
			return "", berth.Errorf(berth.Conflict, "The lock on variable %q is held by somebody else", w.VarPath)
		case err != nil && (!passing(err) || failed >= *l.tries):
			return "", err
		case err != nil:
			failed++
		}
		if err := pause(ctx, *l.pause); err != nil {
			return "", context.Cause(ctx)
		}
	}
}

// passing reports whether a call that failed may succeed later.
func passing(err error) bool {
	switch berth.KindOf(err) {
	case berth.Unavailable, berth.NoLeader, berth.Limited, "":
		return true
	}
	return false
}

// pause waits, or returns the error of ctx.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// keep renews the lock at half its time, until ctx ends. It ends the command if
// the lock is lost, or could not be renewed in time.
func (l *varLock) keep(ctx context.Context, c *call, w op.WriteVariable, end context.CancelCauseFunc) {
	w.Renew = true
	renewed := time.Now()
	for failed := 0; ; {
		wait := *l.ttl / 2
		if failed > 0 {
			wait = min(wait, *l.ttl/10)
		}
		if pause(ctx, wait) != nil {
			return
		}
		at := time.Now() // the lock lasts from the call at least
		call, cancel := context.WithDeadline(ctx, renewed.Add(*l.ttl))
		out, _, err := client.Call(call, c.client, op.PutVariable, w)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && !out.Conflict:
			renewed, failed = at, 0
			continue
		case err != nil && passing(err) && failed < *l.tries && time.Since(renewed) < *l.ttl:
			failed++
			continue
		}
		end(errLockLost)
		return
	}
}

// grace is how long a command has to end after SIGTERM.
const grace = 5 * time.Second

// command runs the command until it ends, or ctx does.
func (l *varLock) command(ctx context.Context, c *call, args []string) error {
	if *l.shell {
		args = []string{"/bin/sh", "-c", strings.Join(args, " ")}
	}
	x := exec.CommandContext(ctx, args[0], args[1:]...)
	x.Dir, x.Stdout, x.Stderr, x.Env = c.Dir, c.Out, c.Err, c.Env
	if in, ok := c.In.(*os.File); ok { // another reader would have to end before the command does
		x.Stdin = in
	}
	// The command has a process group of its own, so that what a shell started
	// ends with it.
	x.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	x.Cancel = func() error { return endGroup(x.Process.Pid) }
	x.WaitDelay = grace
	terminal := newLockTerminal()
	err := x.Start()
	if err == nil {
		back := terminal.share(x)
		err = x.Wait()
		back()
	} else {
		terminal.takeBack()
	}
	if x.Process != nil && ctx.Err() != nil {
		_ = syscall.Kill(-x.Process.Pid, syscall.SIGKILL)
	}
	switch code := codeOf(x.ProcessState); {
	case code != 0:
		return exit(code)
	case ctx.Err() != nil: // before its end or its start
		return context.Cause(ctx)
	case err != nil:
		return berth.Errorf(berth.Invalid, "run the command: %w", err)
	}
	return nil
}

// codeOf is the exit code of a command as shells have it: 128 and the number of the
// signal that ended it. nil has not run.
func codeOf(s *os.ProcessState) int {
	if s == nil {
		return 0
	}
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return 128 + int(w.Signal())
	}
	return s.ExitCode()
}

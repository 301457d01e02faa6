package supervise

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"

	"berth"
	"berth/internal/agent/isolate"
	"berth/internal/failpoint"
)

// Exec is a command to run beside a launch, as [driver.Exec] says.
type Exec struct {
	Command        []string
	TTY            bool
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Resize         <-chan isolate.Size

	User         *User // nil: the agent's own
	Dir          string
	Env          []string
	Capabilities []string
}

// Exec runs a command in the cgroups and, if it is isolated, the namespaces of a
// launch that [Dir.Start] or [Dir.Find] returned, and returns its exit code.
func (d *Dir) Exec(ctx context.Context, l *Launch, e *Exec) (code int, err error) {
	if p, ok := readProcess(l.PID); l.PID == 0 || !ok || p.start != l.StartTime || p.dead() {
		return 0, berth.Errorf(berth.Conflict, "task %q does not run", l.Task)
	}
	order := isolate.Enter{
		PID: l.PID, StartTime: l.StartTime, Isolated: l.Isolated, AsUser: e.User != nil, Dir: e.Dir, Command: e.Command, TTY: e.TTY,
		Env: markedEnv(e.Env, d.alloc, l.Task), Capabilities: e.Capabilities,
	}
	if e.User != nil {
		order.User = isolate.Identity{UID: e.User.UID, GID: e.User.GID, Groups: e.User.Groups}
	}
	for _, dir := range append(append([]string(nil), l.Controllers...), l.Cgroup) {
		if d.owns(dir) {
			order.Groups = append(order.Groups, dir)
		}
	}
	orders, ours, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer ours.Close() // which ends the command, should it still run
	status, theirs, err := os.Pipe()
	if err != nil {
		_ = orders.Close()
		return 0, err
	}
	defer status.Close()
	args := append(append([]string(nil), d.command[1:]...), isolate.WordEnter)
	cmd := exec.Command(d.command[0], args...)
	cmd.Dir, cmd.Env, cmd.ExtraFiles = "/", []string{}, []*os.File{orders, theirs}
	for _, name := range handedOn {
		if v, ok := os.LookupEnv(name); ok && name != failpoint.Env {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	cmd.Stdout, cmd.SysProcAttr = e.Stdout, &syscall.SysProcAttr{Setsid: true}
	if !e.TTY {
		cmd.Stderr = e.Stderr
	}
	// Output of what the command left running is not waited for.
	cmd.WaitDelay = drainTime
	// Not cmd.Stdin: Wait would wait for the end of the input.
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	_, _ = orders.Close(), theirs.Close()
	if err != nil {
		return 0, fmt.Errorf("start a command beside a task: %w", err)
	}
	defer context.AfterFunc(ctx, func() { _ = ours.Close() })()
	go func() { // ends with the input or the first write after the command's end
		if e.Stdin != nil {
			_, _ = io.Copy(stdin, e.Stdin)
		}
		_ = stdin.Close()
	}()
	enc := json.NewEncoder(ours)
	sendErr := enc.Encode(&order)
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		for {
			select {
			case <-ended:
				return
			case size, ok := <-e.Resize:
				if !ok || enc.Encode(size) != nil {
					return
				}
			}
		}
	}()
	var r isolate.Result
	results := json.NewDecoder(status)
	readErr := results.Decode(&r)
	if readErr == nil && r.Err == "" {
		readErr = results.Decode(&r) // the first said that it has begun
	}
	waitErr := cmd.Wait()
	switch {
	case readErr == nil && r.Err != "":
		return 0, r.Error()
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case readErr == nil:
		return r.Code, nil
	}
	// It was killed, with the task or by somebody.
	if x, ok := errors.AsType[*exec.ExitError](waitErr); ok && r.Started {
		if ws, ok := x.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			return 128 + int(ws.Signal()), nil
		}
	}
	return 0, fmt.Errorf("run a command beside task %q: %w", l.Task, errors.Join(sendErr, readErr, waitErr))
}

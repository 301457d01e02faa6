// Package process is what drivers have in common whose tasks are processes
// under the supervisor of their allocation: how they start, are found again and
// end, and who they run as.
package process

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"syscall"
	"time"

	"berth"
	"berth/internal/agent/driver"
	"berth/internal/agent/isolate"
	"berth/internal/agent/supervise"
)

// Plan turns a task into a start.
type Plan func(*driver.Task) (*supervise.Start, error)

// Start starts the process of a task, as [driver.Driver] promises.
func Start(ctx context.Context, t *driver.Task, st *supervise.Start) (driver.Handle, error) {
	plan := func(*driver.Task) (*supervise.Start, error) { return st, nil }
	l, err := t.Supervisor.Start(ctx, t.Name, t.Launch, *st)
	if err == nil {
		return &handle{t, *l, plan}, nil
	}
	if berth.KindOf(err) == berth.Invalid || berth.KindOf(err) == berth.Denied || driver.Detaching(ctx) {
		return nil, err // the command cannot be run; or the next agent looks what came of it
	}
	// The supervisor may have started it and the answer was lost.
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	l, findErr := t.Supervisor.Find(late, t.Name, t.Launch, t.Grace)
	switch {
	case errors.Is(findErr, driver.ErrUnknown), errors.Is(findErr, driver.ErrLost), errors.Is(findErr, driver.ErrReboot):
		return nil, driver.Recoverable(err) // nothing of it runs
	case findErr != nil:
		return nil, errors.Join(driver.ErrUnclear, err, findErr)
	}
	h := &handle{t, *l, plan}
	if ctx.Err() == nil {
		return h, nil
	}
	err = errors.Join(err, h.Stop(late, syscall.SIGKILL, 0))
	if _, waitErr := h.Wait(late); waitErr != nil && !errors.Is(waitErr, driver.ErrLost) {
		return nil, errors.Join(driver.ErrUnclear, err, waitErr)
	}
	return nil, driver.Recoverable(errors.Join(err, h.Release(late)))
}

// Recover finds the process of a task, as [driver.Driver] promises. It works when
// the driver has been disabled since: what runs must be watched and stopped.
// plan is how it would be started now.
func Recover(ctx context.Context, t *driver.Task, plan Plan) (driver.Handle, error) {
	l, err := t.Supervisor.Find(ctx, t.Name, t.Launch, t.Grace)
	if err != nil {
		return nil, err
	}
	return &handle{t, *l, plan}, nil
}

// handle implements [driver.Handle] by asking the allocation's supervisor.
type handle struct {
	t    *driver.Task
	l    supervise.Launch
	plan Plan
}

// Exec implements [driver.Execer].
func (h *handle) Exec(ctx context.Context, e *driver.Exec) (int, error) {
	st, err := h.plan(h.t)
	if err != nil {
		return 0, err
	}
	x := &supervise.Exec{Command: e.Command, TTY: e.TTY, Stdin: e.Stdin, Stdout: e.Stdout, Stderr: e.Stderr, User: st.User, Dir: st.Dir, Env: st.Env}
	if st.Isolate != nil {
		x.Capabilities = st.Isolate.Capabilities
	}
	if e.TTY && !slices.ContainsFunc(x.Env, func(v string) bool { return strings.HasPrefix(v, "TERM=") }) {
		x.Env = append(slices.Clone(x.Env), "TERM=xterm")
	}
	sizes := make(chan isolate.Size)
	done := make(chan struct{})
	defer close(done)
	go func() {
		for {
			select {
			case s, ok := <-e.Resize:
				if !ok {
					return
				}
				select {
				case sizes <- isolate.Size{Rows: s.Rows, Columns: s.Columns}:
				case <-done:
					return
				}
			case <-done:
				return
			}
		}
	}()
	x.Resize = sizes
	return h.t.Supervisor.Exec(ctx, &h.l, x)
}

// Launch implements [driver.Handle].
func (h *handle) Launch() uint64 { return h.l.Number }

// State is for people who look into the agent's records; the supervisor knows
// the rest.
func (h *handle) State() []byte {
	b, _ := json.Marshal(struct { // plain values: no error
		PID       int
		StartTime uint64
	}{h.l.PID, h.l.StartTime})
	return b
}

// Wait implements [driver.Handle]. An exit that was known when the launch was
// found needs no supervisor.
func (h *handle) Wait(ctx context.Context) (*driver.Exit, error) {
	if h.l.Exit != nil {
		return h.l.Exit, nil
	}
	return h.t.Supervisor.Wait(ctx, h.t.Name, h.l.Number, h.t.Grace)
}

// Signal implements [driver.Handle].
func (h *handle) Signal(ctx context.Context, sig syscall.Signal) error {
	return h.t.Supervisor.Signal(ctx, h.t.Name, h.l.Number, sig)
}

// Stop implements [driver.Handle]. It returns when the supervisor has taken the
// order; the end shows in Wait.
func (h *handle) Stop(ctx context.Context, sig syscall.Signal, timeout time.Duration) error {
	if h.l.Exit != nil {
		return nil
	}
	return h.t.Supervisor.Stop(ctx, h.t.Name, h.l.Number, sig, timeout)
}

// Release implements [driver.Handle]: a supervisor all of whose launches are
// released may end.
func (h *handle) Release(ctx context.Context) error {
	return h.t.Supervisor.Release(ctx, h.t.Name, h.l.Number)
}

// Usage implements [driver.Handle]. It is read from the machine, not asked of
// the supervisor, and never fails.
func (h *handle) Usage(context.Context) (driver.Usage, error) {
	return h.t.Supervisor.Usage(&h.l), nil
}

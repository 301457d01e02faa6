// Package process is what drivers have in common whose tasks are processes
// under the supervisor of their allocation: how they start, are found again and
// end, and who they run as.
package process

import (
	"context"
	"encoding/json"
	"errors"
	"syscall"
	"time"

	"berth"
	"berth/internal/agent/driver"
	"berth/internal/agent/supervise"
)

// Start starts the process of a task, as [driver.Driver] promises.
func Start(ctx context.Context, t *driver.Task, st *supervise.Start) (driver.Handle, error) {
	l, err := t.Supervisor.Start(ctx, t.Name, t.Launch, *st)
	if err == nil {
		return &handle{t, *l}, nil
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
	h := &handle{t, *l}
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
func Recover(ctx context.Context, t *driver.Task) (driver.Handle, error) {
	l, err := t.Supervisor.Find(ctx, t.Name, t.Launch, t.Grace)
	if err != nil {
		return nil, err
	}
	return &handle{t, *l}, nil
}

// handle implements [driver.Handle] by asking the allocation's supervisor.
type handle struct {
	t *driver.Task
	l supervise.Launch
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

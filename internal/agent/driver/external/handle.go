package external

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"berth"
	"berth/internal/agent/driver"
	"berth/internal/agent/plugin"
	wire "berth/internal/agent/plugin/pluginwire"
)

// handle implements [driver.Handle] and [driver.Execer].
type handle struct {
	d    *Driver
	t    *driver.Task
	id   string
	told *wire.TaskHandle // what the driver needs to find the task again

	mu   sync.Mutex
	on   uint64 // number of the process of the plugin that knows the task
	exit *driver.Exit
	lost error // nothing finds the task any more
}

// memory is what is kept of a task.
type memory struct {
	Launch uint64
	Handle []byte // a wire.TaskHandle
}

// Launch implements [driver.Handle].
func (h *handle) Launch() uint64 { return h.t.Launch }

// State implements [driver.Handle]: Recover reads what it returns.
func (h *handle) State() []byte {
	told, err := wire.Marshal(h.told)
	if err != nil {
		return nil // it was read from the same form
	}
	b, _ := json.Marshal(memory{h.t.Launch, told}) // plain values: no error
	return b
}

// Recover implements [driver.Driver]. A driver cannot find a launch whose handle was
// never recorded; what may run of it is ended.
func (d *Driver) Recover(ctx context.Context, t *driver.Task, state []byte) (driver.Handle, error) {
	task := *t
	var m memory
	if state != nil {
		if err := json.Unmarshal(state, &m); err != nil {
			return nil, d.forget(ctx, &task, driver.ErrLost)
		}
	}
	if state == nil || t.Launch != 0 && m.Launch != t.Launch {
		l, err := t.Supervisor.Find(ctx, t.Name, t.Launch, 0)
		if err != nil {
			return nil, err // ErrUnknown: its pipes were never made, so it never ran
		}
		task.Launch = l.Number
		return nil, d.forget(ctx, &task, driver.ErrLost)
	}
	task.Launch = m.Launch
	h := &handle{d: d, t: &task, id: taskID(&task), told: &wire.TaskHandle{}}
	if err := wire.Unmarshal(m.Handle, h.told); err != nil {
		return nil, d.forget(ctx, &task, driver.ErrLost)
	}
	if h.told.Config != nil {
		h.id = h.told.Config.ID
	}
	if _, err := h.conn(ctx); err != nil {
		return nil, err
	}
	return h, nil
}

// forget ends what is left of a launch that cannot be found, and returns why.
func (d *Driver) forget(ctx context.Context, t *driver.Task, why error) error {
	if c, err := d.p.Conn(ctx); err == nil {
		_, _ = plugin.Call[wire.Empty](ctx, c, wire.DriverService, "DestroyTask", &wire.DestroyTask{TaskID: taskID(t), Force: true})
	}
	if err := endPipes(ctx, t); err != nil {
		return err
	}
	return why
}

// conn returns the connection to a process of the plugin that knows the task. A
// new process is told of it first.
func (h *handle) conn(ctx context.Context) (*plugin.Conn, error) {
	for {
		c, err := h.d.p.Conn(ctx)
		if err != nil {
			return nil, err
		}
		h.mu.Lock()
		known, lost := h.on == c.Number, h.lost
		h.mu.Unlock()
		if lost != nil {
			return nil, lost
		}
		if known {
			return c, nil
		}
		_, err = plugin.Call[wire.Empty](ctx, c, wire.DriverService, "RecoverTask", &wire.RecoverTask{TaskID: h.id, Handle: h.told})
		_, refused := errors.AsType[*plugin.Refusal](err)
		switch {
		case err == nil:
			h.mu.Lock()
			h.on = c.Number
			h.mu.Unlock()
			return c, nil
		case refused:
			why := h.d.forget(ctx, h.t, fmt.Errorf("%w: %w", driver.ErrLost, err))
			if errors.Is(why, driver.ErrLost) {
				h.mu.Lock()
				h.lost = why
				h.mu.Unlock()
			}
			return nil, why
		case ctx.Err() != nil:
			return nil, err
		}
		if err := c.Ended(ctx); err != nil { // the process ended meanwhile
			return nil, err
		}
	}
}

// Wait implements [driver.Handle]. While the plugin is away, it waits for it.
func (h *handle) Wait(ctx context.Context) (*driver.Exit, error) {
	for {
		h.mu.Lock()
		exit := h.exit
		h.mu.Unlock()
		if exit != nil {
			return exit, nil
		}
		c, err := h.conn(ctx)
		if err != nil {
			return nil, err
		}
		got, err := plugin.Call[wire.WaitedTask](ctx, c, wire.DriverService, "WaitTask", &wire.TaskID{TaskID: h.id})
		_, refused := errors.AsType[*plugin.Refusal](err)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case refused:
			return nil, h.d.forget(ctx, h.t, fmt.Errorf("%w: %w", driver.ErrLost, err))
		case err != nil:
			if err := c.Ended(ctx); err != nil {
				return nil, err
			}
			continue
		}
		if err := endPipes(ctx, h.t); err != nil {
			return nil, err
		}
		exit = &driver.Exit{Err: berth.Clip(got.Error, 1000), At: h.endedAt(ctx, c)}
		if r := got.Result; r != nil {
			exit.Code, exit.Signal, exit.OOMKilled = int(r.Code), int(r.Signal), r.OOMKilled
		}
		h.mu.Lock()
		if h.exit == nil {
			h.exit = exit
		}
		h.mu.Unlock()
	}
}

// endedAt returns when the task ended, as far as the driver knows.
func (h *handle) endedAt(ctx context.Context, c *plugin.Conn) time.Time {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	got, err := plugin.Call[wire.InspectedTask](ctx, c, wire.DriverService, "InspectTask", &wire.TaskID{TaskID: h.id})
	now := time.Now()
	if err != nil || got.Task == nil {
		return now
	}
	if at := got.Task.CompletedAt.Time(); !at.IsZero() && at.Before(now) {
		return at
	}
	return now
}

// ended reports whether the exit is known.
func (h *handle) ended() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.exit != nil
}

// signalName returns the name of a signal, or its number.
func signalName(sig syscall.Signal) string {
	if s := unix.SignalName(sig); s != "" {
		return s
	}
	return strconv.Itoa(int(sig))
}

// Signal implements [driver.Handle].
func (h *handle) Signal(ctx context.Context, sig syscall.Signal) error {
	c, err := h.conn(ctx)
	if err != nil {
		return err
	}
	_, err = plugin.Call[wire.Empty](ctx, c, wire.DriverService, "SignalTask", &wire.SignalTask{TaskID: h.id, Signal: signalName(sig)})
	return err
}

// Stop implements [driver.Handle]. The driver counts the timeout, and its answer
// may come when the task has ended. If agent or plugin end before it has heard of
// it, the agent says it again.
func (h *handle) Stop(ctx context.Context, sig syscall.Signal, timeout time.Duration) error {
	if h.ended() {
		return nil
	}
	if sig == syscall.SIGKILL {
		timeout = 0
	}
	c, err := h.conn(ctx)
	if err != nil {
		if errors.Is(err, driver.ErrLost) {
			return nil
		}
		return err
	}
	go func() {
		end := time.Now().Add(timeout)
		for {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(0, time.Until(end))+askTime)
			left := max(0, time.Until(end))
			_, err := plugin.Call[wire.Empty](ctx, c, wire.DriverService, "StopTask", &wire.StopTask{TaskID: h.id, Timeout: wire.NewDuration(left), Signal: signalName(sig)})
			_, refused := errors.AsType[*plugin.Refusal](err)
			if err != nil && !refused && !h.ended() && c.Ended(ctx) == nil {
				if c, err = h.conn(ctx); err == nil { // a new process
					cancel()
					continue
				}
			}
			cancel()
			return
		}
	}()
	return nil
}

// Release implements [driver.Handle].
func (h *handle) Release(ctx context.Context) error {
	for {
		c, err := h.d.p.Conn(ctx)
		if err != nil {
			return err
		}
		// A driver that does not know the task any more has released it.
		_, err = plugin.Call[wire.Empty](ctx, c, wire.DriverService, "DestroyTask", &wire.DestroyTask{TaskID: h.id})
		if _, refused := errors.AsType[*plugin.Refusal](err); err == nil || refused {
			break
		}
		if c.Ended(ctx) != nil { // the process ended meanwhile
			return err
		}
	}
	return h.t.Supervisor.Release(ctx, h.t.Name, h.t.Launch)
}

// Usage implements [driver.Handle].
func (h *handle) Usage(ctx context.Context) (u driver.Usage, err error) {
	if h.ended() {
		return u, nil
	}
	// The marks tell of processor time, which drivers tell as a share only.
	if l, err := h.t.Supervisor.Find(ctx, h.t.Name, h.t.Launch, 0); err == nil {
		u = h.t.Supervisor.Usage(l)
		u.Processes = max(0, u.Processes-1) // without the helper
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	c, err := h.conn(ctx)
	if err != nil {
		return u, err
	}
	s, err := plugin.Listen[wire.TaskStatsResponse](ctx, c, wire.DriverService, "TaskStats", &wire.TaskStatsRequest{TaskID: h.id, Interval: wire.NewDuration(time.Second)})
	if err != nil {
		return u, nil
	}
	got, err := s.Next()
	if err != nil || got.Stats == nil || got.Stats.All == nil {
		return u, nil // it measures nothing
	}
	if m := got.Stats.All.Memory; m != nil {
		u.Engine, u.Cache, u.Swap, u.MaxMemory = true, int64(m.Cache), int64(m.Swap), int64(m.MaxUsage)
		u.Memory = int64(max(m.RSS, m.Usage))
	}
	if p := got.Stats.All.CPU; p != nil {
		u.ThrottledPeriods, u.ThrottledTime = p.ThrottledPeriods, time.Duration(p.ThrottledTime)
	}
	return u, nil
}

// Package mock is the driver mock_driver: its tasks run nothing and do what
// their config says, at the times it says: end, fail, refuse to start, print.
// It is off unless the agent's configuration enables it.
//
// A task is a list of times, counted from its start. So an agent that was
// restarted needs to remember only when that was: what should have happened
// meanwhile has.
package mock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"berth"
	"berth/internal/agent/driver"
	"berth/internal/agent/logs"
	"berth/internal/driverconfig"
)

// Name is what jobs call the driver.
var Name = driverconfig.Mock.Driver

// Driver implements [driver.Driver].
type Driver struct{ enabled bool }

// New returns the driver. enabled is what the agent's configuration says.
func New(enabled bool) *Driver { return &Driver{enabled} }

// Name implements [driver.Driver].
func (*Driver) Name() string { return Name }

// Capabilities implements [driver.Driver].
func (*Driver) Capabilities() driver.Capabilities {
	return driver.Capabilities{Isolation: driver.NoIsolation, Signals: true}
}

// Fingerprint implements [driver.Driver].
func (d *Driver) Fingerprint(context.Context) berth.DriverInfo {
	if !d.enabled {
		return berth.DriverInfo{HealthDescription: "disabled"}
	}
	return berth.DriverInfo{
		Attributes: map[string]string{"driver." + Name: "1"}, Detected: true, Healthy: true, HealthDescription: "Healthy",
	}
}

// script is what a task's config says.
type script struct {
	runFor     time.Duration // how long it runs unless it is stopped
	exitCode   int
	exitSignal int    // 0 is none
	exitErr    string // told as the exit's error

	startError       string        // "" lets it start
	startRecoverable bool          // startError may be gone at the next try
	startBlock       time.Duration // before a start succeeds or fails

	killAfter time.Duration // how long it takes to end once it is asked to
	signalErr string        // "" lets signals pass

	output [2]printed // stdout, stderr
}

// printed is a text that is printed some times, a while apart.
type printed struct {
	text  string
	times int64         // how often again after the first
	every time.Duration // from one print to the next
}

// read turns a task's config into a script. Its errors name the field and are
// not recoverable.
func read(config map[string]any) (*script, error) {
	c, err := driverconfig.Mock.Read(config)
	if err != nil {
		return nil, err
	}
	p := &script{
		runFor: c.Duration("run_for"), exitCode: int(c.Integer("exit_code")),
		exitSignal: int(c.Integer("exit_signal")), exitErr: c.String("exit_err_msg"),
		startError: c.String("start_error"), startRecoverable: c.Bool("start_error_recoverable"), startBlock: c.Duration("start_block_for"),
		killAfter: c.Duration("kill_after"), signalErr: c.String("signal_error"),
	}
	for i, stream := range []string{logs.Stdout, logs.Stderr} {
		p.output[i] = printed{c.String(stream + "_string"), c.Integer(stream + "_repeat"), c.Duration(stream + "_repeat_duration")}
	}
	return p, nil
}

// Start implements [driver.Driver].
func (d *Driver) Start(ctx context.Context, t *driver.Task) (driver.Handle, error) {
	if !d.enabled {
		return nil, berth.Errorf(berth.Denied, "driver %s is not enabled in this agent's configuration", Name)
	}
	s, err := read(t.Config)
	if err != nil {
		return nil, err
	}
	if s.startBlock > 0 {
		select {
		case <-time.After(s.startBlock):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if s.startError != "" {
		if err = errors.New(s.startError); s.startRecoverable {
			err = driver.Recoverable(err)
		}
		return nil, err
	}
	return newHandle(t, s, memory{Launch: t.Launch, StartedAt: time.Now()}, true), nil
}

// memory is what is kept of a task.
type memory struct {
	Launch    uint64
	StartedAt time.Time
}

// Recover implements [driver.Driver].
func (d *Driver) Recover(_ context.Context, t *driver.Task, state []byte) (driver.Handle, error) {
	var m memory
	if state == nil {
		return nil, driver.ErrUnknown
	}
	if err := json.Unmarshal(state, &m); err != nil {
		return nil, fmt.Errorf("%w: what is kept of it is damaged: %w", driver.ErrLost, err)
	}
	if t.Launch != 0 && m.Launch != t.Launch {
		return nil, driver.ErrUnknown
	}
	s, err := read(t.Config)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", driver.ErrLost, err)
	}
	return newHandle(t, s, m, false), nil
}

// handle implements [driver.Handle]. Everything follows from the script and the
// time of the start.
type handle struct {
	t *driver.Task
	s *script
	memory
	since time.Time // output due before was printed by an earlier agent

	waiting sync.Mutex // held by the one Wait that prints
	printed [2]int64   // how often each stream was

	mu      sync.Mutex
	end     time.Time     // when the task ends; a stop can bring it forward
	exit    driver.Exit   // at end
	changed chan struct{} // closed and replaced when end changes
}

// newHandle returns the handle of a launch; fresh is false for one that an
// earlier agent started. As a shell does, a signal without a code makes the
// code 128 and its number.
func newHandle(t *driver.Task, s *script, m memory, fresh bool) *handle {
	h := &handle{t: t, s: s, memory: m, end: m.StartedAt.Add(s.runFor), changed: make(chan struct{})}
	h.exit = driver.Exit{Code: s.exitCode, Signal: s.exitSignal, Err: s.exitErr, At: h.end}
	if s.exitSignal != 0 && s.exitCode == 0 {
		h.exit.Code = 128 + s.exitSignal
	}
	if !fresh {
		h.since = time.Now()
	}
	return h
}

// Launch implements [driver.Handle].
func (h *handle) Launch() uint64 { return h.memory.Launch }

// State implements [driver.Handle]: Recover reads what it returns.
func (h *handle) State() []byte {
	b, _ := json.Marshal(h.memory) // plain values: no error
	return b
}

// Wait plays the task to its end, printing what it prints.
func (h *handle) Wait(ctx context.Context) (*driver.Exit, error) {
	h.waiting.Lock() // one plays at a time
	defer h.waiting.Unlock()
	out, err := h.open()
	if err != nil {
		return nil, err
	}
	defer out.close()
	for {
		h.mu.Lock()
		end, exit, changed := h.end, h.exit, h.changed
		h.mu.Unlock()
		// Nothing is printed after the end, though the end may be long ago.
		next := out.print(time.Now(), end)
		now := time.Now()
		if !now.Before(end) {
			return &exit, nil
		}
		if next.IsZero() || next.After(end) {
			next = end
		}
		timer := time.NewTimer(next.Sub(now))
		select {
		case <-timer.C:
		case <-changed:
			timer.Stop()
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		}
	}
}

// Signal implements [driver.Handle]: it does nothing, or fails as the config
// says.
func (h *handle) Signal(_ context.Context, sig syscall.Signal) error {
	if h.s.signalErr != "" {
		return errors.New(h.s.signalErr)
	}
	return nil
}

// Stop ends the task after kill_after, or by a kill after the timeout.
func (h *handle) Stop(_ context.Context, sig syscall.Signal, timeout time.Duration) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	end, exit := now.Add(h.s.killAfter), driver.Exit{}
	if h.s.killAfter > timeout || sig == syscall.SIGKILL {
		end, exit = now.Add(min(timeout, h.s.killAfter)), driver.Exit{Code: 128 + int(syscall.SIGKILL), Signal: int(syscall.SIGKILL)}
	}
	// A stop can bring the end forward, never put it off.
	if end.Before(h.end) {
		exit.At = end
		h.end, h.exit = end, exit
		close(h.changed)
		h.changed = make(chan struct{})
	}
	return nil
}

// Release implements [driver.Handle]. There is nothing to forget.
func (h *handle) Release(context.Context) error { return nil }

// Usage implements [driver.Handle]. A mock task uses nothing.
func (h *handle) Usage(context.Context) (driver.Usage, error) { return driver.Usage{}, nil }

package docker

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"syscall"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"berth/internal/agent/driver"
)

// handle implements [driver.Handle] and [driver.Execer].
type handle struct {
	d *Driver
	launch
	id, image string
	signal    syscall.Signal // that the engine sends by itself
	logs      *follower      // nil if they are not collected
}

// Launch implements [driver.Handle].
func (h *handle) Launch() uint64 { return h.number }

// State implements [driver.Handle]: Recover reads what it returns.
func (h *handle) State() []byte {
	b, _ := json.Marshal(memory{h.id, h.number}) // plain values: no error
	return b
}

// Wait implements [driver.Handle]. While the engine is away, it waits for it.
func (h *handle) Wait(ctx context.Context) (*driver.Exit, error) {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		x, err := h.exit(ctx)
		if x != nil {
			if err := h.logs.wait(ctx); err != nil {
				return nil, err
			}
			return x, nil
		}
		if gone(err) {
			return nil, fmt.Errorf("%w: its container was removed", driver.ErrLost)
		}
		if err == nil { // it runs
			if h.ended(ctx) {
				wait = 100 * time.Millisecond
				continue
			}
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// ended waits until the container does not run any more, and reports whether
// the engine said so.
func (h *handle) ended(ctx context.Context) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := h.d.engine.ContainerWait(ctx, h.id, client.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
	select {
	case <-w.Result:
		return true
	case <-w.Error:
		return false
	}
}

// exit returns how the container ended, nil if it runs.
func (h *handle) exit(ctx context.Context) (*driver.Exit, error) {
	asked, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	got, err := h.d.engine.ContainerInspect(asked, h.id, client.ContainerInspectOptions{})
	if err != nil {
		return nil, err
	}
	s := got.Container.State
	if s == nil || s.Running || s.Paused || s.Restarting || s.Status == container.StateCreated {
		return nil, nil
	}
	at, err := time.Parse(time.RFC3339Nano, s.FinishedAt)
	if err != nil || at.Year() < 2000 {
		return nil, fmt.Errorf("the engine says that the container ended at %q", s.FinishedAt)
	}
	x := &driver.Exit{Code: s.ExitCode, At: at}
	if n := s.ExitCode - 128; n > 0 && n <= 64 { // as shells count
		x.Signal = n
	}
	x.OOMKilled, x.Err = s.OOMKilled, s.Error
	return x, nil
}

// Signal implements [driver.Handle].
func (h *handle) Signal(ctx context.Context, sig syscall.Signal) error {
	_, err := h.d.engine.ContainerKill(ctx, h.id, client.ContainerKillOptions{Signal: signalName(sig)})
	return err
}

// signalName returns the name of a signal, or its number.
func signalName(sig syscall.Signal) string {
	if s := unix.SignalName(sig); s != "" {
		return s
	}
	return strconv.Itoa(int(sig))
}

// Stop implements [driver.Handle]. The engine counts the timeout, in seconds,
// and goes on if the agent ends; if the agent ends before the engine has heard
// of it, the next agent says it again.
func (h *handle) Stop(ctx context.Context, sig syscall.Signal, timeout time.Duration) error {
	if x, err := h.exit(ctx); gone(err) || x != nil {
		return nil
	}
	if sig == syscall.SIGKILL {
		_, err := h.d.engine.ContainerKill(ctx, h.id, client.ContainerKillOptions{Signal: "SIGKILL"})
		if taken(err) || gone(err) { // it has ended meanwhile
			return nil
		}
		return err
	}
	if sig != h.signal {
		// Engines before API 1.42 send only the signal that the container was
		// created with.
		if err := h.Signal(ctx, sig); err != nil && !taken(err) && !gone(err) {
			return err
		}
		go h.killAfter(timeout)
		return nil
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), timeout+time.Minute)
		defer cancel()
		s := seconds(timeout)
		if _, err := h.d.engine.ContainerStop(ctx, h.id, client.ContainerStopOptions{Timeout: &s}); err != nil && !gone(err) {
			h.d.log.Warn("the engine does not stop a container; killing it", "container", h.id, "error", err)
			h.killAfter(0)
		}
	}()
	return nil
}

// killAfter kills the container after the timeout unless it has ended.
func (h *handle) killAfter(timeout time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	ended := timeout > 0 && h.ended(ctx)
	cancel()
	if ended {
		return
	}
	ctx, cancel = context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := h.d.engine.ContainerKill(ctx, h.id, client.ContainerKillOptions{Signal: "SIGKILL"}); err != nil && !gone(err) && !taken(err) {
		h.d.log.Warn("a container cannot be killed", "container", h.id, "error", err)
	}
}

// Release implements [driver.Handle]: the container is removed.
func (h *handle) Release(ctx context.Context) error {
	if h.d.c.KeepContainers {
		return nil
	}
	if err := h.d.remove(ctx, h.id); err != nil {
		return err
	}
	h.logs.abandon() // it writes to the allocation's directory, which may be removed now
	h.d.images.drop(h.image, h.id)
	h.d.unclaim(h.launch)
	return nil
}

// Usage implements [driver.Handle]. A container that has ended uses nothing.
func (h *handle) Usage(ctx context.Context) (u driver.Usage, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	got, err := h.d.engine.ContainerStats(ctx, h.id, client.ContainerStatsOptions{})
	if gone(err) {
		return u, nil
	}
	if err != nil {
		return u, err
	}
	defer got.Body.Close()
	var s container.StatsResponse
	if err := json.NewDecoder(got.Body).Decode(&s); err != nil {
		return u, fmt.Errorf("the engine's statistics: %w", err)
	}
	cache := s.MemoryStats.Stats["total_inactive_file"] // cgroup version 1
	if v, ok := s.MemoryStats.Stats["inactive_file"]; ok && cache == 0 {
		cache = v
	}
	u.Processes, u.CPU = int(s.PidsStats.Current), time.Duration(s.CPUStats.CPUUsage.TotalUsage)
	u.Memory = int64(s.MemoryStats.Usage - min(cache, s.MemoryStats.Usage))
	u.Engine, u.Cache, u.Swap, u.MaxMemory = true, int64(cache), int64(s.MemoryStats.Stats["swap"]), int64(s.MemoryStats.MaxUsage)
	u.System = time.Duration(s.CPUStats.CPUUsage.UsageInKernelmode)
	u.ThrottledPeriods, u.ThrottledTime = s.CPUStats.ThrottlingData.ThrottledPeriods, time.Duration(s.CPUStats.ThrottlingData.ThrottledTime)
	return u, nil
}

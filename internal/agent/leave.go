package agent

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"berth"
	"berth/internal/rest"
	"berth/op"
)

// An agent that ends for good moves its allocations away first, if its configuration
// says so (client.drain_on_shutdown). When it is back, its node takes work again.

// drainGrace is how much longer than the deadline of a drain the agent waits:
// servers stop what is left then, and tasks take their time to end.
const drainGrace = 30 * time.Second

// drainMark is the file that says that the agent asked for the drain of its node.
const drainMark = "drained-on-shutdown"

// Drain has servers drain the node and returns when nothing runs on it that has to
// leave, the deadline of spec is over by some time, or ctx ends. It may be called
// while Run runs.
func (a *Agent) Drain(ctx context.Context, spec berth.DrainSpec) error {
	// Noted first: an agent that is killed now must know when it is back.
	if err := os.WriteFile(filepath.Join(a.c.StateDir, drainMark), nil, 0o600); err != nil {
		return err
	}
	if spec.Deadline != 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, max(spec.Deadline, 0)+drainGrace+a.longestKill())
		defer cancel()
	}
	for n := 0; ; n++ {
		_, err := op.Call(ctx, a.c.Servers, op.NodeDrainSelf, &op.DrainSelf{NodeID: a.id, Spec: &spec, Write: a.write()})
		if err == nil {
			break
		}
		a.log.Warn("servers do not drain the node; trying again", "node", a.id, "error", err)
		if err := backoff(ctx, n, firstRetry, lastRetry); err != nil {
			return err
		}
	}
	a.log.Info("the node is drained before the agent ends", "node", a.id, "deadline", spec.Deadline)
	for h := a.leaving(spec.IgnoreSystemJobs); h != nil; h = a.leaving(spec.IgnoreSystemJobs) {
		select {
		case <-h.runner.Done():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	// Servers must hear it: the drain is over then.
	for a.reports.unsent() > 0 {
		if err := rest.For(ctx, reportEvery); err != nil {
			return err
		}
	}
	return nil
}

// leaving returns an allocation that still runs and has to leave a drained node, or
// nil.
func (a *Agent) leaving(ignoreSystem bool) *held {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, h := range a.allocs {
		if h.runner == nil || h.over() || ignoreSystem && berth.PerNode(h.alloc.Job.Type) {
			continue
		}
		return h
	}
	return nil
}

// longestKill is how long the slowest task may take to end.
func (a *Agent) longestKill() (longest time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, h := range a.allocs {
		if h.runner == nil {
			continue
		}
		g := h.alloc.Job.Group(h.alloc.TaskGroup)
		for _, t := range g.Tasks {
			longest = max(longest, t.KillTimeout+t.ShutdownDelay+g.ShutdownDelay)
		}
	}
	return longest
}

// returnToWork has servers use the node again that an earlier agent had drained when
// it ended. It tries until they do.
func (a *Agent) returnToWork(ctx context.Context) error {
	mark := filepath.Join(a.c.StateDir, drainMark)
	if _, err := os.Stat(mark); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	select {
	case <-a.registered:
	case <-ctx.Done():
		return nil
	}
	for ctx.Err() == nil {
		_, err := op.Call(ctx, a.c.Servers, op.NodeDrainSelf, &op.DrainSelf{NodeID: a.id, Write: a.write()})
		if err == nil {
			if err := os.Remove(mark); err != nil {
				a.log.Warn("that the node was drained stays noted", "file", mark, "error", err)
			}
			return nil
		}
		a.log.Warn("servers do not use the node again, which was drained when its agent ended; trying again", "node", a.id, "error", err)
		if rest.For(ctx, lastRetry) != nil {
			return nil
		}
	}
	return nil
}

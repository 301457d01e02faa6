package agent

import (
	"context"
	"maps"
	"slices"
	"time"

	"berth/internal/agent/driver/docker"
	"berth/internal/agent/supervise"
	"berth/internal/rest"
)

// How the agent ends and removes what is left of allocations.

// end ends what may be left of an allocation that has no runner.
func (a *Agent) end(id string) {
	a.wait.Go(func() { a.endProcesses(id) })
}

// endProcesses ends what runs of an allocation that is not to be run here any
// more. It may take seconds; failures are only logged.
func (a *Agent) endProcesses(id string) {
	dir, err := a.dirs.Sub(id)
	if err != nil {
		return // it has no directory, so nothing of it ever ran
	}
	defer dir.Close()
	if !supervise.Exists(dir) {
		return
	}
	sup, err := supervise.OpenDir(dir, id, a.c.Supervisor)
	if err == nil {
		defer sup.Close()
		err = sup.EndAll(a.lives, 5*time.Second)
	}
	if err != nil {
		a.log.Warn("what is left of an allocation cannot be ended", "alloc", id, "error", err)
	}
}

// watchContainers removes containers that belong to no task any more, where the
// agent has containers.
func (a *Agent) watchContainers(ctx context.Context) error {
	if d, ok := a.drivers[docker.Name].(*docker.Driver); ok {
		return d.Watch(ctx)
	}
	return nil
}

// tidy clears away what has ended: supervisors, and the oldest directories of
// ended allocations when there are too many.
func (a *Agent) tidy(ctx context.Context) error {
	for {
		if err := rest.For(ctx, 10*time.Second); err != nil {
			return err
		}
		supervise.Reap()
		for _, id := range a.excess() {
			if err := a.dirs.RemoveAll(id); err != nil {
				a.log.Warn("the directory of an allocation cannot be removed", "alloc", id, "error", err)
			}
		}
	}
}

// excess picks directories to remove, and marks them as gone.
func (a *Agent) excess() (out []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var dead []string
	for _, id := range slices.Sorted(maps.Keys(a.allocs)) {
		h := a.allocs[id]
		done := h.runner == nil
		if h.runner != nil {
			select {
			case <-h.runner.Done():
				done = h.runner.Ended()
			default:
			}
		}
		if done && !h.removed && !h.cleared {
			dead = append(dead, id)
		}
	}
	slices.SortStableFunc(dead, func(x, y string) int { return a.allocs[x].ended.Compare(a.allocs[y].ended) })
	for len(dead) > a.c.MaxDeadAllocs {
		a.allocs[dead[0]].cleared = true
		out, dead = append(out, dead[0]), dead[1:]
	}
	return out
}

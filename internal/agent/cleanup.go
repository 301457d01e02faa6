package agent

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"golang.org/x/sync/errgroup"

	"berth/internal/agent/secretdir"
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

// removeDir removes the directory of an allocation that has ended.
func (a *Agent) removeDir(id string) error {
	a.mu.Lock()
	h := a.allocs[id]
	a.mu.Unlock()
	if h != nil && h.runner != nil && h.runner.Unrecorded() {
		a.endProcesses(id) // its supervisor, which keeps the exits until they are recorded
	}
	dir, err := a.dirs.Sub(id)
	if err == nil {
		err = errors.Join(secretdir.UnmountAll(dir), dir.Close())
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return a.dirs.RemoveAll(id)
}

// trySecrets reports whether secrets of tasks can be kept in memory, and says in the
// log if they cannot.
func (a *Agent) trySecrets() bool {
	if !a.c.SecretsInMemory {
		return false
	}
	err := secretdir.Try(a.dirs)
	if err != nil {
		a.log.Warn("secrets of tasks are on the disk of the allocations: nothing can be mounted, which needs an agent that is root", "error", err)
	}
	return err == nil
}

// watchContainers removes containers that belong to no task any more, where the
// agent has containers.
func (a *Agent) watchContainers(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, d := range a.drivers {
		if w, ok := d.(interface{ Watch(context.Context) error }); ok {
			g.Go(func() error { return w.Watch(ctx) })
		}
	}
	return g.Wait()
}

// tidy clears away supervisors that have ended.
func (a *Agent) tidy(ctx context.Context) error {
	for {
		if err := rest.For(ctx, 10*time.Second); err != nil {
			return err
		}
		supervise.Reap()
	}
}

package alloc

import (
	"context"
	"fmt"
	"time"

	"berth"
	"berth/internal/agent/task"
	"berth/internal/saferoot"
	"berth/internal/streams/connect"
)

// An allocation of a stream job is an instance of a processing element. Its
// tasks are not started before it is known what that is connected with, and are
// told when that changes. For those of other jobs there is nothing of this.

// streamRecord is the name under which what is known of connections is recorded
// beside the tasks' states. No task can have it.
const streamRecord = "/stream"

// settling is how long a task has run before it is signalled: so long it may
// take to see to it that the signal does not end it.
const settling = time.Second

// connections are those of an allocation. A nil one is of an allocation that
// can have none.
type connections struct {
	keeper *connect.Keeper
	told   map[string]uint64 // version by task; Run's alone
}

// known reports whether tasks may start, as far as connections go.
func (c *connections) known() bool { return c == nil || c.keeper.Version() > 0 }

// env returns the variables that tell the program where its connections are. It
// may be called on nil, for a job that is no stream job.
func (c *connections) env() map[string]string {
	if c == nil {
		return nil
	}
	return c.keeper.Env()
}

// join takes up the connections of an allocation of a stream job.
func (r *Runner) join(dir *saferoot.Root) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.alloc.Job.Type != berth.TypeStream || r.c.Stream == nil {
		return nil
	}
	if err := task.MakeAllocDirs(dir); err != nil {
		return err
	}
	k, err := connect.Open(connect.Config{
		Servers: r.c.Stream, Dir: dir, Restored: r.c.Restored[streamRecord], Changed: r.nudge,
		Save: func(b []byte) error { return r.c.Save(streamRecord, b) }, Log: r.c.Log.With("alloc", r.id),
	})
	if err != nil {
		return err
	}
	r.stream = &connections{keeper: k, told: map[string]uint64{}}
	return nil
}

// connect keeps the connections until what it returns is called. It is told
// whether the allocation has ended.
func (r *Runner) connect(ctx context.Context, dir *saferoot.Root) (end func(ended bool)) {
	if r.stream == nil {
		return func(bool) {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.stream.keeper.Run(ctx)
	}()
	return func(ended bool) {
		cancel()
		<-done
		if ended {
			connect.Clear(dir)
		}
	}
}

// rewire tells tasks that there is another version of their connections, as
// their job says, and returns when to look again; zero is when something
// changes. It is done again until each was told that may have read an older
// one, also by the next agent. Only Run's goroutine calls it.
func (r *Runner) rewire(now time.Time) (again time.Time) {
	if r.stream == nil {
		return again
	}
	// Nothing to do if every task knows the newest connections.
	version := r.stream.keeper.Version()
	if version <= r.stream.keeper.Notified() {
		return again
	}
	r.mu.Lock()
	g := r.alloc.Job.Group(r.alloc.TaskGroup)
	r.mu.Unlock()
	all := true
	for i, t := range r.tasks {
		name := r.names[i]
		if r.stream.told[name] >= version {
			continue
		}
		// A task that cannot be told yet holds up the mark, not the others.
		done, at := tell(t, g.Task(name).Connectivity, version, now)
		if !done {
			all = false
			if !at.IsZero() {
				again = sooner(again, at)
			}
			continue
		}
		r.stream.told[name] = version
	}
	if all {
		r.stream.keeper.MarkNotified(version)
	}
	return again
}

// tell tells one task. If that cannot be done yet it says when to try again,
// zero being after the task's next change.
func tell(t *task.Runner, c *berth.TaskConnectivity, version uint64, now time.Time) (done bool, again time.Time) {
	if c == nil || c.ChangeMode != berth.ConnectivitySignal && c.ChangeMode != berth.ConnectivityRestart {
		return true, again
	}
	s := t.State()
	switch s.Phase {
	case task.Looking, task.Starting:
		return false, again
	case task.Running:
	default: // it has ended, or reads the newest when it starts
		return true, again
	}
	if !t.Found() {
		return false, again
	}
	if at := s.Task.StartedAt.Add(settling); now.Before(at) {
		return false, at
	}
	why := fmt.Sprintf("its connections changed, to version %d", version)
	if c.ChangeMode == berth.ConnectivityRestart {
		t.Restart(why)
	} else {
		t.Signal(c.ChangeSignal, why)
	}
	return true, again
}

package task

import (
	"context"

	"berth"
	"berth/internal/agent/driver"
	"berth/op"
)

// Update gives the task a newer version of its allocation. What is running is
// not disturbed; the next start goes by it.
func (r *Runner) Update(a *op.Alloc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	scheduled := func(a *op.Alloc) bool { return a.Job.Group(a.TaskGroup).Task(r.c.Name).Schedule != nil }
	changed := scheduled(a) || scheduled(r.alloc)
	r.alloc = a
	if changed {
		r.askSchedule()
	}
}

// askSchedule has Run look at the schedule, which may be another than before. The
// caller holds mu.
func (r *Runner) askSchedule() {
	r.inbox = append(r.inbox, Schedule{})
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Kill orders the task to end.
func (r *Runner) Kill(k Kill) { r.post(Order{k}) }

// Restart orders the task to start again.
func (r *Runner) Restart(reason string) { r.post(Again{Reason: reason}) }

// RestartLaunch is Restart of a launch, unless there is a newer one. It may be
// called again.
func (r *Runner) RestartLaunch(launch uint64, reason string) {
	r.post(Again{Reason: reason, Launch: launch})
}

// Tell adds an event about the task's templates to its history, while it runs.
func (r *Runner) Tell(message string, waits ...berth.TaskWait) { r.post(Told{message, waits}) }

// Join has the task take part in a restart of the whole allocation, also if it
// has ended. A task takes part in each round once.
func (r *Runner) Join(round uint64, reason string) { r.post(Again{Reason: reason, Round: round}) }

// Fail stops a task that runs and does not work, and has it started again as
// after a failure of its own.
func (r *Runner) Fail(reason string) { r.post(Again{Reason: reason, Failed: true}) }

// Note adds an event to the history of a task that was not started yet.
func (r *Runner) Note(typ, message string) { r.post(Note{typ, message}) }

// Signal sends the task a signal, by its name.
func (r *Runner) Signal(name, reason string) { r.post(Signal{name, reason}) }

// Found reports whether what was last started of the task can be signalled: after
// a restart of the agent it cannot before it is found again.
func (r *Runner) Found() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.handle != nil
}

// Usage tells what the task uses of the machine; nothing if it does not run.
func (r *Runner) Usage(ctx context.Context) (driver.Usage, error) {
	r.mu.Lock()
	h := r.handle
	r.mu.Unlock()
	if h == nil {
		return driver.Usage{}, nil
	}
	return h.Usage(ctx)
}

// post puts an event into the inbox and wakes Run. It never blocks and may be
// called from anywhere.
func (r *Runner) post(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inbox = append(r.inbox, e)
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// take empties the inbox and returns what was in it, oldest first.
func (r *Runner) take() []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	events := r.inbox
	r.inbox = nil
	return events
}

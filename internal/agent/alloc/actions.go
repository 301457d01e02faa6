package alloc

import (
	"context"
	"strings"

	"golang.org/x/sys/unix"

	"berth"
	"berth/internal/agent/driver"
	"berth/internal/agent/task"
)

// restartReason is what the history of a task says of a restart by hand.
const restartReason = "User requested task to restart"

// Restart starts a task again, "" being all that run. With all, those that have
// ended are started too, in the order of their lifecycles. It returns when the
// order is given, not when the tasks run again.
func (r *Runner) Restart(name string, all bool) error {
	r.restartedByHand(name)
	if all {
		return r.restartAll()
	}
	tasks, err := r.running(name)
	if err != nil {
		return err
	}
	for _, t := range tasks {
		t.Restart(restartReason)
	}
	return nil
}

// Signal sends a signal, by its name, to a task, "" being all that run.
func (r *Runner) Signal(name, signal string) error {
	signal = strings.ToUpper(signal)
	if unix.SignalNum(signal) == 0 {
		return berth.Errorf(berth.Invalid, "Signal: %.64q is not a signal of this machine; SIGHUP would be", signal)
	}
	tasks, err := r.running(name)
	if err != nil {
		return err
	}
	for _, t := range tasks {
		t.Signal(signal, "User requested that the task be signalled")
	}
	return nil
}

// Execer returns what runs a command beside a task, "" being the only one; see
// [task.Runner.Execer].
func (r *Runner) Execer(name string) (func(context.Context, *driver.Exec) (code int, err error), error) {
	r.mu.Lock()
	names := r.names
	r.mu.Unlock()
	if name == "" && len(names) != 1 {
		return nil, berth.Errorf(berth.Invalid, "task: the allocation has %d tasks: choose one of %s", len(names), strings.Join(names, ", "))
	}
	tasks, err := r.running(name)
	if err != nil {
		return nil, err
	}
	return tasks[0].Execer()
}

// running returns the task of that name, which must run or be about to, or all
// that do.
func (r *Runner) running(name string) (out []*task.Runner, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	found := false
	for i, t := range r.tasks {
		if name != "" && r.names[i] != name {
			continue
		}
		found = true
		switch s := t.State(); {
		case s.Phase == task.Running || s.Phase == task.Waiting:
			out = append(out, t)
		case name != "":
			return nil, berth.Errorf(berth.Invalid, "Task not running: task %q of allocation %s is %s", r.names[i], r.id, s.Task.State)
		}
	}
	switch {
	case name != "" && !found:
		return nil, berth.Errorf(berth.NotFound, "Could not find task %.150q in allocation %s", name, r.id)
	case len(out) == 0:
		return nil, berth.Errorf(berth.Invalid, "Task not running: no task of allocation %s runs", r.id)
	}
	return out, nil
}

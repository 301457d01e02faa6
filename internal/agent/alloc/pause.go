package alloc

import (
	"strings"

	"berth"
	"berth/internal/agent/task"
)

// Pause says what the schedule of a task is made to do, "" being the only task:
// berth.SchedulePause and its siblings. It returns when the order is given.
func (r *Runner) Pause(name, state string) error {
	t, j, err := r.pausable(name)
	if err != nil {
		return err
	}
	if j != berth.TypeService && j != berth.TypeSystem {
		return berth.Errorf(berth.Invalid, "tasks of a job of type %q cannot be paused: they run to their end", j)
	}
	t.Schedule(state)
	return nil
}

// PauseState returns what the schedule of a task is made to do, "" being the only
// task.
func (r *Runner) PauseState(name string) (string, error) {
	t, _, err := r.pausable(name)
	if err != nil {
		return "", err
	}
	return t.ScheduleState(), nil
}

// pausable returns a task that has not ended, and the type of its job. A task
// that runs to its end before or after the others is refused: they wait for it.
func (r *Runner) pausable(name string) (*task.Runner, string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if name == "" && len(r.names) != 1 {
		return nil, "", berth.Errorf(berth.Invalid, "Task: the allocation has %d tasks: choose one of %s", len(r.names), strings.Join(r.names, ", "))
	}
	g := r.alloc.Job.Group(r.alloc.TaskGroup)
	for i, n := range r.names {
		if name != "" && n != name {
			continue
		}
		t := g.Task(n)
		switch {
		case t.Lifecycle != nil && !t.Sidecar():
			return nil, "", berth.Errorf(berth.Invalid, "Task: %q cannot be paused: it runs to its end, and is no sidecar", n)
		case r.tasks[i].State().Phase == task.Dead:
			return nil, "", berth.Errorf(berth.Invalid, "Task not running: task %q of allocation %s is dead", n, r.id)
		}
		return r.tasks[i], r.alloc.Job.Type, nil
	}
	return nil, "", berth.Errorf(berth.NotFound, "Could not find task %.150q in allocation %s", name, r.id)
}

// paused returns the names of the tasks that are paused.
func (r *Runner) paused() (out []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, t := range r.tasks {
		if t.State().Phase == task.Paused {
			out = append(out, r.names[i])
		}
	}
	return out
}

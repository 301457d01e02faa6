package cli

import (
	"context"
	"fmt"

	"berth/client"
	"berth/op"
)

// allocRestartCommand restarts tasks in place. It returns once the agent has
// accepted the request, not when the tasks run again.
func allocRestartCommand() *command {
	return &command{
		name: "alloc restart", args: "<allocation> [task]", synopsis: "Restart the tasks of an allocation in place", min: 1, max: 2,
		example: "alloc restart 0af996ed web",
		help: `Restarts tasks of an allocation on the same node: one task, or all running ones. The allocation keeps its ID, and the restart does
			not count towards its restart policy.`,
		setup: func(f *flags) action {
			r := allocRestart{
				task:    f.String("task", "Restart only this `task`."),
				all:     f.Bool("all-tasks", "Restart all tasks in the order of their lifecycles, also those that have ended. Poststop tasks are not run."),
				verbose: f.Bool("verbose", "Show IDs in full."),
			}
			return r.run
		},
	}
}

// allocRestart holds the flags of "alloc restart".
type allocRestart struct {
	task         *string
	all, verbose *bool
}

// run asks for the restart. The server refuses an allocation that has ended, or
// that runs a processing element: only a new launch starts that one again.
func (r allocRestart) run(ctx context.Context, c *call) error {
	task, err := c.taskWord(*r.task)
	if err != nil {
		return err
	}
	if task != "" && *r.all {
		return c.usagef("-all-tasks cannot be used with a task")
	}
	a, err := c.findAlloc(ctx, c.args[0])
	if err != nil {
		return err
	}
	_, _, err = client.Call(ctx, c.client, op.RestartTask, op.RestartAlloc{AllocID: a.ID.String(), TaskName: task, AllTasks: *r.all})
	if err != nil {
		return err
	}
	what := "all running tasks"
	if *r.all {
		what = "all tasks"
	}
	if task != "" {
		what = fmt.Sprintf("task %q", clean(task))
	}
	_, err = fmt.Fprintf(c.Out, "Allocation %s: %s will be restarted\n", short(a.ID.String(), *r.verbose), what)
	return err
}

// taskWord is the task from the flag, or from the argument after the
// allocation.
func (c *call) taskWord(flag string) (string, error) {
	switch {
	case len(c.args) < 2:
		return flag, nil
	case flag != "" && flag != c.args[1]:
		return "", c.usagef("-task is %q but the argument is %q: give only one", flag, c.args[1])
	}
	return c.args[1], nil
}

// allocSignalCommand sends a signal to tasks. The signal's name is checked by
// the agent, which knows its platform.
func allocSignalCommand() *command {
	return &command{
		name: "alloc signal", args: "<allocation> [task]", synopsis: "Send a signal to tasks of an allocation", min: 1, max: 2,
		example: "alloc signal -s SIGHUP 0af996ed web",
		help:    "Sends a signal to one task of an allocation, or to all running ones.",
		setup: func(f *flags) action {
			s := allocSignal{
				signal:  f.FlagSet.String("s", "SIGKILL", "The `signal` to send."),
				task:    f.String("task", "Signal only this `task`."),
				verbose: f.Bool("verbose", "Show IDs in full."),
			}
			return s.run
		},
	}
}

// allocSignal holds the flags of "alloc signal".
type allocSignal struct {
	signal, task *string
	verbose      *bool
}

// run sends the signal and prints nothing on success, like kill.
func (s allocSignal) run(ctx context.Context, c *call) error {
	task, err := c.taskWord(*s.task)
	if err != nil {
		return err
	}
	a, err := c.findAlloc(ctx, c.args[0])
	if err != nil {
		return err
	}
	_, _, err = client.Call(ctx, c.client, op.SignalTask, op.SignalAlloc{AllocID: a.ID.String(), Task: task, Signal: *s.signal})
	return err
}

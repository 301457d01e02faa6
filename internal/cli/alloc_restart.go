package cli

import (
	"context"
	"fmt"

	"berth/client"
	"berth/op"
)

func allocRestartCommand() *command {
	return &command{
		name: "alloc restart", args: "<allocation> [task]", synopsis: "Start tasks of an allocation anew where they are", min: 1, max: 2,
		help: `Ends tasks of an allocation and starts them again on the same node: one, or all that run. The allocation stays what it is,
and its restart policy does not count it.`,
		setup: func(f *flags) action {
			r := allocRestart{
				task:    f.String("task", "Restart this `task` alone."),
				all:     f.Bool("all-tasks", "Restart all tasks; refused while one of them has ended."),
				verbose: f.Bool("verbose", "Show IDs in full."),
			}
			return r.run
		},
	}
}

type allocRestart struct {
	task         *string
	all, verbose *bool
}

func (r allocRestart) run(ctx context.Context, c *call) error {
	task, err := c.taskWord(*r.task)
	if err != nil {
		return err
	}
	if task != "" && *r.all {
		return c.usagef("-all-tasks and a task cannot both be given")
	}
	a, err := c.findAlloc(ctx, c.args[0])
	if err != nil {
		return err
	}
	_, _, err = client.Call(ctx, c.client, op.RestartTask, op.RestartAlloc{AllocID: a.ID.String(), TaskName: task, AllTasks: *r.all})
	if err != nil {
		return err
	}
	what := "all its tasks that run"
	if task != "" {
		what = fmt.Sprintf("task %q", clean(task))
	}
	_, err = fmt.Fprintf(c.Out, "Allocation %s: %s will be restarted\n", short(a.ID.String(), *r.verbose), what)
	return err
}

// taskWord is the task that a flag names, or the word behind the allocation.
func (c *call) taskWord(flag string) (string, error) {
	switch {
	case len(c.args) < 2:
		return flag, nil
	case flag != "" && flag != c.args[1]:
		return "", c.usagef("-task says %q, the argument %q; give one of the two", flag, c.args[1])
	}
	return c.args[1], nil
}

func allocSignalCommand() *command {
	return &command{
		name: "alloc signal", args: "<allocation> [task]", synopsis: "Send a signal to tasks of an allocation", min: 1, max: 2,
		help: "Sends a signal to a task of an allocation, or to all that run.",
		setup: func(f *flags) action {
			s := allocSignal{
				signal:  f.FlagSet.String("s", "SIGKILL", "The `signal` to send."),
				task:    f.String("task", "Signal this `task` alone."),
				verbose: f.Bool("verbose", "Show IDs in full."),
			}
			return s.run
		},
	}
}

type allocSignal struct {
	signal, task *string
	verbose      *bool
}

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

package cli

import (
	"context"
	"fmt"

	"berth"
	"berth/client"
	"berth/op"
)

// allocPauseCommand overrides the schedule of a task.
func allocPauseCommand() *command {
	return &command{
		name: "alloc pause", args: "<allocation> [task]", synopsis: "Pause a task, or let it run, whatever its schedule says", min: 1, max: 2,
		example: "alloc pause -state run 0af996ed web",
		help: `Stops a task of a service or system job until it is let run again, or overrides its schedule block. The allocation keeps its ID and
			its place, and the stop does not count towards its restart policy. With -status, shows what holds now.`,
		setup: func(f *flags) action {
			p := allocPause{
				state:   f.FlagSet.String("state", berth.SchedulePause, "The `state`: pause stops the task, run starts it, scheduled follows its schedule; without a schedule the task runs."),
				status:  f.Bool("status", "Show the state, and change nothing."),
				task:    f.String("task", "The `task`. It can be left out if there is only one."),
				verbose: f.Bool("verbose", "Show IDs in full."),
			}
			return p.run
		},
	}
}

// allocPause holds the flags of "alloc pause".
type allocPause struct {
	state, task     *string
	status, verbose *bool
}

// run changes or shows the state.
func (p allocPause) run(ctx context.Context, c *call) error {
	task, err := c.taskWord(*p.task)
	if err != nil {
		return err
	}
	in := op.PauseAlloc{Task: task, ScheduleState: *p.state}
	if err := in.Check(); err != nil {
		return c.usagef("-state: unknown state %q: want pause, run or scheduled", *p.state)
	}
	a, err := c.findAlloc(ctx, c.args[0])
	if err != nil {
		return err
	}
	if *p.status {
		got, _, err := client.Call(ctx, c.client, op.ReadPause, op.PauseQuery{AllocID: a.ID.String(), Task: task})
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(c.Out, clean(got.ScheduleState))
		return err
	}
	in.AllocID = a.ID.String()
	if _, _, err = client.Call(ctx, c.client, op.PauseTask, in); err != nil {
		return err
	}
	what := "its task"
	if task != "" {
		what = fmt.Sprintf("task %q", clean(task))
	}
	did := map[string]string{
		berth.SchedulePause: "is paused", berth.ScheduleRun: "is let run", berth.ScheduleFollow: "follows its schedule",
	}[*p.state]
	_, err = fmt.Fprintf(c.Out, "Allocation %s: %s %s\n", short(a.ID.String(), *p.verbose), what, did)
	return err
}

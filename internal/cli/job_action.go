package cli

import (
	"context"
	"strings"

	"berth"
	"berth/client"
	"berth/op"
)

// jobActionCommand runs an action that a task of a job declares.
func jobActionCommand() *command {
	return &command{
		name: "job action", args: "[action]", synopsis: "Run an action that a task of a job declares", max: 1,
		example: "job action -job web flush-cache",
		help: `Runs an action: a command that an action block of a task declares by name. It runs beside the task as with "alloc exec", and the exit code is its own.
			Without an action, the actions of the job are listed. The allocation is that of -alloc, or one of the job's, preferably a running one.`,
		setup: func(f *flags) action {
			x := jobAction{
				allocExec: allocExec{
					stdin:  f.FlagSet.Bool("i", true, "Pass standard input to the command."),
					tty:    f.FlagSet.Bool("t", false, "Give the command a terminal. This is the default if standard input and output are terminals."),
					escape: f.FlagSet.String("e", "~", "The escape `character` of a session with a terminal, or none."),
					job:    f.String("job", "The `job`, given by ID or unique prefix."),
					group:  f.String("group", "Pick an allocation of this `group`."),
					task:   f.String("task", "The `task` whose action to run. It can be omitted if only one task has an action of that name."),
				},
				alloc: f.String("alloc", "Run the action in this `allocation`, given by ID or prefix."),
			}
			return x.act
		},
	}
}

// jobAction holds the flags of "job action".
type jobAction struct {
	allocExec
	alloc *string
}

// act lists the actions, or runs one.
func (x jobAction) act(ctx context.Context, c *call) error {
	escape, err := x.escapeChar(c)
	switch {
	case err != nil:
		return err
	case *x.job == "" && *x.alloc == "":
		return c.usagef("missing flag: -job or -alloc says where the action runs")
	case *x.alloc != "" && *x.group != "":
		return c.usagef("-group cannot be used with -alloc")
	}
	if len(c.args) == 0 {
		return x.list(ctx, c)
	}
	a, err := x.pick(ctx, c, c.args[0])
	if err != nil {
		return err
	}
	return x.session(ctx, c, escape, func(tty bool) (op.Duplex, error) {
		return client.Open(ctx, c.client, op.DoAction, op.RunAction{
			JobID: string(a.JobID), Action: c.args[0], AllocID: a.ID.String(), Group: a.TaskGroup, Task: *x.task, TTY: tty, Query: op.Query{Namespace: a.Namespace},
		})
	})
}

// pick returns the allocation to run an action in. Without -group it is of the
// first group that has the action.
func (x jobAction) pick(ctx context.Context, c *call, name string) (a op.Alloc, err error) {
	if *x.alloc != "" {
		if a, err = c.findAlloc(ctx, *x.alloc); err != nil || *x.job == "" {
			return a, err
		}
		j, _, err := c.findJob(ctx, *x.job)
		if err == nil && j.ID != a.JobID {
			err = berth.Errorf(berth.Invalid, "allocation %s is of job %q, not of %q", a.ID.Short(), a.JobID, j.ID)
		}
		return a, err
	}
	group := *x.group
	if group == "" {
		j, _, err := c.findJob(ctx, *x.job)
		if err != nil {
			return a, err
		}
		for _, known := range op.ActionsOf(j.Job) {
			if group == "" && known.Name == name && (*x.task == "" || *x.task == known.TaskName) {
				group = known.TaskGroupName
			}
		}
	}
	return c.allocOfJob(ctx, *x.job, group)
}

// list prints the actions of the job.
func (x jobAction) list(ctx context.Context, c *call) error {
	id := *x.job
	if *x.alloc != "" {
		a, err := c.findAlloc(ctx, *x.alloc)
		if err != nil {
			return err
		}
		id = string(a.JobID)
	}
	j, _, err := c.findJob(ctx, id)
	if err != nil {
		return err
	}
	all, _, err := client.Call(ctx, c.client, op.JobActions, op.JobRef{JobID: string(j.ID), Query: of(&j)})
	if err != nil {
		return err
	}
	p := c.page()
	if len(all) == 0 {
		p.linef("Job %q has no actions", j.ID)
		return c.show(p)
	}
	rows := [][]string{{"Action", "Group", "Task", "Command"}}
	for _, a := range all {
		rows = append(rows, []string{a.Name, a.TaskGroupName, a.TaskName, strings.Join(append([]string{a.Command}, a.Args...), " ")})
	}
	p.table(rows)
	return c.show(p)
}

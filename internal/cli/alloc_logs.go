package cli

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"berth"
	"berth/client"
	"berth/op"

	"golang.org/x/sync/errgroup"
)

// allocLogsCommand prints what a task wrote. Output is not cleaned of control
// characters: it can be binary.
func allocLogsCommand() *command {
	return &command{
		name: "alloc logs", args: "<allocation> [task]", synopsis: "Show the output of a task", max: 2,
		example: "alloc logs -f 0af996ed web",
		help: `Prints the output of a task. The allocation is given by ID or prefix. With -job, the command picks one of the job's allocations
			instead, preferably a running one. The task can be omitted if the allocation has only one. -task overrides the argument.

			With -job and -f, the command follows all running allocations of the job and those that are placed meanwhile, until the job has
			ended. Each line begins with its allocation and task.

			Prints standard output, or standard error with -stderr, and says so if only standard error has any text. With -f and neither flag, follows both until the task has ended. The
			output is printed unchanged, so terminal control sequences in it take effect.`,
		setup: func(f *flags) action {
			l := allocLogs{
				stdout:  f.Bool("stdout", "Show standard output. This is the default except with -f."),
				stderr:  f.Bool("stderr", "Show standard error."),
				follow:  f.Bool("f", "Follow the output as it is written."),
				tail:    f.Bool("tail", "Show the last 10 lines, or as much as -n or -c say."),
				lines:   f.Int("n", 0, "Show this `number` of lines from the end. Implies -tail."),
				bytes:   f.FlagSet.Int64("c", 0, "Show this `number` of bytes from the end. Implies -tail."),
				job:     f.String("job", "Pick an allocation of this `job`, given by ID or unique prefix. With -f: follow all of them."),
				group:   f.String("group", "With -job: only allocations of this `group`."),
				task:    f.String("task", "The `task` whose output to show."),
				verbose: f.Bool("verbose", "Print the allocation and task, and any truncated or removed log file, to standard error."),
			}
			return l.run
		},
	}
}

// allocLogs holds the flags of "alloc logs".
type allocLogs struct {
	stdout, stderr, follow, tail, verbose *bool
	lines                                 *int
	bytes                                 *int64
	job, group, task                      *string
}

// run prints one or both outputs of a task. Both are read at the same time, and
// an error of one ends the other.
func (l allocLogs) run(ctx context.Context, c *call) error {
	if err := l.check(c); err != nil {
		return err
	}
	if *l.job != "" && *l.follow {
		if ok, err := l.followJob(ctx, c); ok {
			return err
		}
	}
	// The allocation decides which tasks there are, so it is found first.
	a, err := l.alloc(ctx, c)
	if err != nil {
		return err
	}
	task, err := l.taskOf(c, &a)
	if err != nil {
		return err
	}
	if *l.verbose {
		fmt.Fprintf(c.Err, "Allocation %s, task %q\n", a.ID, clean(task))
	}
	out := &shared{out: c.Out, err: c.Err}
	caller := ctx
	g, ctx := errgroup.WithContext(ctx)
	// A request reads one of the outputs.
	for _, s := range l.streams() {
		t := &tailing{call: c, out: out, verbose: *l.verbose, read: logsOf(c, &a, task, s)}
		g.Go(func() error { return t.print(ctx, l.part()) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if !out.wrote && !*l.stdout && !*l.stderr {
		return hintAtStderr(caller, c, &a, task)
	}
	return nil
}

// hintAtStderr tells of a task that wrote to standard error alone where its output is.
func hintAtStderr(ctx context.Context, c *call, a *op.Alloc, task string) error {
	for frame, err := range logsOf(c, a, task, "stderr")(ctx, section{origin: "start"}) {
		if err != nil {
			return err
		}
		if len(frame.Data) > 0 {
			fmt.Fprintln(c.Err, "Task wrote nothing to standard output. -stderr shows what it wrote to standard error.")
			return nil
		}
	}
	return nil
}

// streams are the outputs to show. Following without a choice shows both, as a
// task may log to either.
func (l allocLogs) streams() []string {
	switch {
	case *l.stderr && *l.stdout, *l.follow && !*l.stderr && !*l.stdout:
		return []string{"stdout", "stderr"}
	case *l.stderr:
		return []string{"stderr"}
	}
	return []string{"stdout"}
}

// part is the part of the output that the flags ask for.
func (l allocLogs) part() part {
	return part{follow: *l.follow, tail: *l.tail, lines: *l.lines, bytes: *l.bytes}
}

// logsOf reads one of a task's two outputs.
func logsOf(c *call, a *op.Alloc, task, stream string) opener {
	return func(ctx context.Context, from section) iter.Seq2[*op.StreamFrame, error] {
		return client.Stream(ctx, c.client, op.ReadLogs, op.LogsQuery{
			AllocID: a.ID.String(), Task: task, Type: stream, Follow: from.follow, Offset: from.offset, Origin: from.origin, File: from.file,
			Query: op.Query{Namespace: a.Namespace},
		})
	}
}

// check returns a usage error for flags and arguments that contradict each
// other. It calls no server.
func (l allocLogs) check(c *call) error {
	if err := c.notNegative(numberFlag{"n", int64(*l.lines)}, numberFlag{"c", *l.bytes}); err != nil {
		return err
	}
	switch {
	case c.flags.given("n") && c.flags.given("c"):
		return c.usagef("-n and -c cannot be used together")
	case *l.job == "" && len(c.args) == 0:
		return c.usagef("missing argument: give an allocation or -job, usage: %s alloc logs <allocation> [task]", c.Name)
	case *l.job != "" && len(c.args) > 1:
		return c.usagef("unexpected argument %q: with -job, the only argument is the task", c.args[1])
	case *l.group != "" && *l.job == "":
		return c.usagef("-group requires -job")
	}
	return nil
}

// alloc finds the allocation whose output to show.
func (l allocLogs) alloc(ctx context.Context, c *call) (a op.Alloc, err error) {
	if *l.job == "" {
		return c.findAlloc(ctx, c.args[0])
	}
	return c.allocOfJob(ctx, *l.job, *l.group)
}

// taskOf returns the task whose output to show.
func (l allocLogs) taskOf(c *call, a *op.Alloc) (string, error) {
	tasks := tasksOf(a)
	name := *l.task
	// With -job, the only argument is the task; otherwise the task follows the
	// allocation.
	if given := c.args; name == "" {
		if *l.job == "" {
			given = given[1:]
		}
		if len(given) > 0 {
			name = given[0]
		}
	}
	switch {
	case name == "" && len(tasks) == 1:
		return tasks[0], nil
	case name == "":
		return "", c.usagef("allocation %s has several tasks: choose one of %s", a.ID.Short(), strings.Join(tasks, ", "))
	case !slices.Contains(tasks, name):
		return "", berth.Errorf(berth.NotFound, "allocation %s has no task %q: want one of %s", a.ID.Short(), name, strings.Join(tasks, ", "))
	}
	return name, nil
}

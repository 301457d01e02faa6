package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth"
	"berth/client"
	"berth/op"
)

// jobRestartCommand restarts the allocations of a job in batches. The command
// drives it: if it is interrupted, the rest is left alone.
func jobRestartCommand() *command {
	return &command{
		name: "job restart", args: "<job>", synopsis: "Restart the tasks of a job in batches", min: 1, max: 1,
		example: "job restart -batch-size 25% -batch-wait 30s web",
		help: `Restarts the tasks of a job's running allocations in place, batch by batch. The next batch starts when the tasks of the previous
			one are running again. With -reschedule, the allocations are stopped and rescheduled instead, and the next batch starts when their
			replacements are running.

			On an error, asks on a terminal whether to continue; without a terminal, the command stops. Allocations it has not reached stay as
			they are. The command also stops if the job changes meanwhile.`,
		setup: func(f *flags) action {
			r := jobRestart{
				all:        f.Bool("all-tasks", "Restart all tasks in the order of their lifecycles, also those that have ended. Poststop tasks are not run."),
				yes:        f.Bool("yes", "Do not ask for confirmation; continue after errors and between batches."),
				size:       f.FlagSet.String("batch-size", "1", "The `size` of a batch: a number of allocations, or a percentage such as 25%."),
				wait:       f.FlagSet.String("batch-wait", "0s", "The `duration` to wait between batches, or \"ask\"."),
				onError:    f.FlagSet.String("on-error", "ask", "The `action` on an error: \"ask\" or \"fail\"."),
				noDelay:    f.Bool("no-shutdown-delay", "With -reschedule: do not wait for the shutdown_delay of groups and tasks."),
				reschedule: f.Bool("reschedule", "Stop and reschedule the allocations instead of restarting their tasks."),
				verbose:    f.Bool("verbose", "Show IDs in full."),
				groups:     f.List("group", "Restart only allocations of this `group`. Can be repeated."),
				tasks:      f.List("task", "Restart only this `task`. Can be repeated."),
			}
			return r.run
		},
	}
}

// jobRestart holds the flags of "job restart".
type jobRestart struct {
	all, yes, noDelay, reschedule, verbose *bool
	size, wait, onError                    *string
	groups, tasks                          *[]string
}

// restarting is one run of the command.
type restarting struct {
	jobRestart
	*call
	job   op.Job
	pause time.Duration // between batches; below 0: ask
}

// run restarts batch after batch. The allocations are chosen once, at the
// beginning; ones placed later are not restarted.
func (r jobRestart) run(ctx context.Context, c *call) error {
	if err := r.check(c); err != nil {
		return err
	}
	x := &restarting{jobRestart: r, call: c}
	var err error
	// A negative pause stands for asking.
	if *r.wait == "ask" {
		x.pause = -1
	} else if x.pause, err = time.ParseDuration(*r.wait); err != nil || x.pause < 0 {
		return c.usagef("flag -batch-wait must be a duration such as 30s, or \"ask\", got %q", *r.wait)
	}
	var exact bool
	if x.job, exact, err = c.findJob(ctx, c.args[0]); err != nil {
		return err
	}
	// The question comes before the allocations are read, which may change
	// while the user thinks.
	if err := x.confirm(exact); err != nil {
		return err
	}
	list, err := x.allocs(ctx)
	if err != nil {
		return err
	}
	// A percentage is of the selected allocations, not of the whole job.
	size, err := batchSize(c, *r.size, len(list))
	if err != nil {
		return err
	}
	return x.batches(ctx, list, size)
}

// check returns a usage error for flags that contradict each other.
func (r jobRestart) check(c *call) error {
	switch {
	case *r.all && len(*r.tasks) > 0:
		return c.usagef("-all-tasks and -task cannot be used together")
	case *r.reschedule && (*r.all || len(*r.tasks) > 0):
		return c.usagef("-reschedule replaces whole allocations: it cannot be used with -task or -all-tasks")
	case *r.noDelay && !*r.reschedule:
		return c.usagef("-no-shutdown-delay requires -reschedule")
	case *r.onError != "ask" && *r.onError != "fail":
		return c.usagef("flag -on-error must be ask or fail, got %q", *r.onError)
	}
	return nil
}

// batchSize is how many of all allocations make a batch.
func batchSize(c *call, text string, all int) (int, error) {
	number, part := strings.CutSuffix(text, "%")
	n, err := strconv.Atoi(number)
	switch {
	case err != nil || n < 1 || part && n > 100:
		return 0, c.usagef("flag -batch-size must be an integer of at least 1 or a percentage from 1%% to 100%%, got %q", text)
	case part:
		return max(1, (all*n+99)/100), nil
	}
	return n, nil
}

// confirm asks if the job was given by prefix. A stopped job is an error.
func (x *restarting) confirm(exact bool) error {
	switch {
	case x.job.Stop:
		return berth.Errorf(berth.Invalid, "job %q is stopped and has nothing to restart", x.job.ID)
	case exact || *x.yes:
		return nil
	case !x.Terminal:
		return notWhole(x.call, &x.job)
	}
	yes, err := x.ask(fmt.Sprintf("Are you sure you want to restart job %q in namespace %q?", clean(string(x.job.ID)), clean(x.job.Namespace)))
	if err == nil && !yes {
		err = berth.Errorf(berth.Invalid, "job %q was not restarted", x.job.ID)
	}
	return err
}

// allocs are the selected allocations that are running.
func (x *restarting) allocs(ctx context.Context) (out []op.AllocStub, err error) {
	// A misspelled group or task must not look like one without allocations.
	for _, g := range *x.groups {
		if x.job.Group(g) == nil {
			return nil, noGroup(x.job.Job, g)
		}
	}
	for _, t := range *x.tasks {
		if !slices.ContainsFunc(x.job.TaskGroups, func(g *berth.TaskGroup) bool { return g.Task(t) != nil }) {
			return nil, berth.Errorf(berth.NotFound, "job %q has no task %q", x.job.ID, t)
		}
	}
	list, _, err := client.Call(ctx, x.client, op.JobAllocs, op.JobAllocsQuery{JobID: string(x.job.ID), Query: of(&x.job)})
	if err != nil {
		return nil, err
	}
	for _, a := range list {
		runs := a.DesiredStatus == berth.DesiredRun && a.ClientStatus == berth.ClientRunning
		if runs && (len(*x.groups) == 0 || slices.Contains(*x.groups, a.TaskGroup)) && (len(*x.tasks) == 0 || len(x.running(&a)) > 0) {
			out = append(out, a)
		}
	}
	// Names order by group and index, so that batches are the same each time.
	slices.SortFunc(out, func(a, b op.AllocStub) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// running are the selected tasks of an allocation that are running.
func (x *restarting) running(a *op.AllocStub) (out []string) {
	for name, s := range a.TaskStates {
		if s.State == berth.TaskRunning && (len(*x.tasks) == 0 || slices.Contains(*x.tasks, name)) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// batches restarts the list, size allocations at a time. After an error it
// continues only if failed agrees; then it returns an error at the end.
func (x *restarting) batches(ctx context.Context, list []op.AllocStub, size int) error {
	if len(list) == 0 {
		x.say("==> ", "No allocations to restart")
		return nil
	}
	x.say("==> ", "Restarting %s in batches of %d", plural(len(list), "allocation"), min(size, len(list)))
	failed, done := 0, 0
	for batch := range slices.Chunk(list, size) {
		if done > 0 {
			if err := x.between(ctx, len(list)-done); err != nil {
				return err
			}
		}
		if err := x.batch(ctx, batch); err != nil {
			// An interrupt ends the command; it is not the error of a batch.
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := x.failed(err, len(list)-done-len(batch)); err != nil {
				return err
			}
			failed++
		}
		done += len(batch)
	}
	if failed > 0 {
		return berth.Errorf(berth.Unavailable, "%s failed", plural(failed, "batch"))
	}
	x.say("==> ", "All allocations have been restarted")
	return nil
}

// between waits between two batches and checks that the job has not changed.
func (x *restarting) between(ctx context.Context, left int) error {
	switch {
	case x.pause < 0 && !*x.yes:
		if !x.Terminal {
			return berth.Errorf(berth.Invalid, "-batch-wait=ask needs a terminal; %s not restarted", plural(left, "allocation"))
		}
		yes, err := x.ask(fmt.Sprintf("Continue with the next batch? %s left.", plural(left, "allocation")))
		if err == nil && !yes {
			err = berth.Errorf(berth.Invalid, "%s not restarted", plural(left, "allocation"))
		}
		if err != nil {
			return err
		}
	case x.pause > 0:
		x.say("==> ", "Waiting %s before the next batch", x.pause)
		t := time.NewTimer(x.pause)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	// A new version replaces allocations itself; restarting them too would
	// disturb its deployment.
	now, _, err := client.Call(ctx, x.client, op.ReadJob, op.JobRef{JobID: string(x.job.ID), Query: of(&x.job)})
	if err == nil && (now.UID != x.job.UID || now.Version != x.job.Version) {
		err = berth.Errorf(berth.Conflict, "job %q has changed meanwhile; %s not restarted", x.job.ID, plural(left, "allocation"))
	}
	return err
}

// failed decides whether to continue after an error.
func (x *restarting) failed(err error, left int) error {
	if code := exit(0); errors.As(err, &code) {
		err = berth.Errorf(berth.Unavailable, "a replacement could not be placed or is not running")
	}
	switch {
	// -on-error=fail holds even with -yes.
	case *x.onError == "fail" && (!*x.yes || x.flags.given("on-error")):
		return err
	case left == 0 && !*x.yes:
		return err
	case *x.yes:
	case !x.Terminal:
		return err
	default:
		fmt.Fprintln(x.Err, "Error: "+clean(err.Error()))
		yes, askErr := x.ask(fmt.Sprintf("Continue with the remaining batches? %s left.", plural(left, "allocation")))
		if askErr != nil || !yes {
			return errors.Join(err, askErr)
		}
		return nil
	}
	fmt.Fprintln(x.Err, "Error: "+clean(err.Error()))
	return nil
}

// batch restarts some allocations and waits until their tasks are running
// again.
func (x *restarting) batch(ctx context.Context, list []op.AllocStub) error {
	if *x.reschedule {
		return x.replace(ctx, list)
	}
	for i := range list {
		// Each restart is requested before the first wait, so that they
		// overlap.
		if err := x.restart(ctx, &list[i]); err != nil {
			return err
		}
	}
	for i := range list {
		if err := x.again(ctx, &list[i]); err != nil {
			return err
		}
	}
	return nil
}

// restart requests the restart of one allocation's selected tasks. It does not
// wait.
func (x *restarting) restart(ctx context.Context, a *op.AllocStub) error {
	// An empty name is all running tasks, which is one request instead of many.
	tasks := []string{""}
	if len(*x.tasks) > 0 {
		tasks = x.running(a)
	}
	for _, t := range tasks {
		what := "all running tasks"
		if t != "" {
			what = fmt.Sprintf("task %q", t)
		}
		x.say("    ", "Restarting %s in allocation %q for group %q", what, short(a.ID.String(), *x.verbose), a.TaskGroup)
		in := op.RestartAlloc{AllocID: a.ID.String(), TaskName: t, AllTasks: *x.all, Write: op.Write{Namespace: a.Namespace}}
		if _, _, err := client.Call(ctx, x.client, op.RestartTask, in); err != nil {
			return fmt.Errorf("allocation %s: %w", short(a.ID.String(), *x.verbose), err)
		}
	}
	return nil
}

// again waits until the restarted tasks of an allocation are running.
func (x *restarting) again(ctx context.Context, before *op.AllocStub) error {
	tasks := x.running(before)
	var index uint64
	for {
		a, meta, err := client.Call(ctx, x.client, op.ReadAlloc, op.AllocRef{
			AllocID: before.ID.String(), Query: op.Query{MinQueryIndex: index, MaxQueryTime: longPoll},
		})
		if err != nil {
			return err
		}
		if a.DesiredStatus != berth.DesiredRun || a.ClientStatus.Ended() {
			return berth.Errorf(berth.Unavailable, "allocation %s is now %s and not running again", short(a.ID.String(), *x.verbose), a.ClientStatus)
		}
		index = meta.Index
		if !slices.ContainsFunc(tasks, func(t string) bool {
			s := a.TaskStates[t]
			// Running alone is not enough: the agent may not have begun the
			// restart.
			return s == nil || s.State != berth.TaskRunning || !s.StartedAt.After(before.TaskStates[t].StartedAt)
		}) {
			return nil
		}
	}
}

// replace stops some allocations and waits until their replacements are
// running.
func (x *restarting) replace(ctx context.Context, list []op.AllocStub) error {
	var evals []berth.EvalID
	for i := range list {
		a := &list[i]
		x.say("    ", "Rescheduling allocation %q for group %q", short(a.ID.String(), *x.verbose), a.TaskGroup)
		out, _, err := client.Call(ctx, x.client, op.HaltAlloc, op.StopAlloc{
			AllocID: a.ID.String(), NoShutdownDelay: *x.noDelay, Write: op.Write{Namespace: a.Namespace},
		})
		if err != nil {
			return fmt.Errorf("allocation %s: %w", short(a.ID.String(), *x.verbose), err)
		}
		evals = append(evals, out.EvalID)
	}
	// Each stop has its own evaluation; most of them end while the first is
	// followed.
	for _, id := range evals {
		if err := x.monitor(ctx, id, monitorOptions{verbose: *x.verbose, settle: true, job: x.job.ID, namespace: x.job.Namespace}); err != nil {
			return err
		}
	}
	return nil
}

// say prints one line with the time. mark is the indentation or the arrow of a
// section.
func (x *restarting) say(mark, format string, args ...any) {
	fmt.Fprintf(x.Out, "%s%s: %s\n", mark, stamp(x.Now()), clean(fmt.Sprintf(format, args...)))
}

package cli

import (
	"context"
	"errors"
	"fmt"

	"berth"
	"berth/client"
	"berth/op"
)

// jobStopCommand stops jobs, and with -purge deletes them.
func jobStopCommand() *command {
	return &command{
		name: "job stop", args: "<job>...", synopsis: "Stop jobs, and optionally purge them", min: 1, max: -1,
		example: "job stop -purge web",
		help: `Stops jobs, each given by ID or prefix, and monitors the evaluation until the scheduler has decided which allocations to stop. The
			agents then stop them; "job status" shows their state.

			A stopped job can still be inspected. With -purge it is deleted at once, but only if it is still the job that this command found:
			a job registered meanwhile under the same ID is left alone. With -uid, only the job with that UID is stopped.

			-propagation decides what happens to the allocations of a purged job. With background, the default, the job is deleted at once and
			its allocations are stopped afterwards. With foreground, the job stays until all of them have ended, and its ID cannot be reused
			before; the command follows the deletion, and "job tree" shows what blocks it. With orphan, the job is deleted at once and its
			allocations keep running without being replaced; stop them with "alloc stop".

			With foreground, -force does not wait: allocations that have not ended are marked lost, even on a healthy node, and their
			resources are freed. Use it for unreachable nodes and for tasks that do not end. An allocation that is still running is stopped
			when its node reconnects. With ACLs enabled, -force needs a management token.

			Asks for confirmation on a terminal if a job is given by prefix or is purged. Without a terminal, a prefix requires -yes.`,
		setup: func(f *flags) action {
			s := jobStop{
				detach:   f.Bool("detach", "Print the evaluation ID and return without monitoring."),
				verbose:  f.Bool("verbose", "Show IDs in full."),
				purge:    f.Bool("purge", "Delete the job as well."),
				yes:      f.Bool("yes", "Do not ask for confirmation."),
				how:      f.String("propagation", "With -purge: the `policy` for the job's allocations: background, foreground or orphan."),
				force:    f.Bool("force", "With -propagation=foreground: do not wait; mark allocations that have not ended as lost."),
				uid:      f.String("uid", "Stop the job only if it has this `UID`, as shown by \"job status -verbose\"."),
				global:   f.Bool("global", "Stop a multiregion job in all its regions. No effect on other jobs."),
				noDelay:  f.Bool("no-shutdown-delay", "Do not wait for the shutdown_delay of groups and tasks."),
				priority: f.Int("eval-priority", 0, "The `priority` of the evaluation, 1 to 100. Defaults to the priority of the job."),
			}
			return s.run
		},
	}
}

// jobStop holds the flags of "job stop".
type jobStop struct {
	detach, verbose, purge, yes, global, noDelay, force *bool
	how, uid                                            *string
	priority                                            *int
}

// run stops one job after another. It continues if one of them cannot be
// stopped.
func (s *jobStop) run(ctx context.Context, c *call) error {
	switch {
	case *s.how != "" && !*s.purge:
		return c.usagef("-propagation requires -purge")
	case *s.force && *s.how != string(berth.Foreground):
		return c.usagef("-force requires -purge and -propagation=foreground")
	case *s.uid != "" && len(c.args) > 1:
		return c.usagef("-uid works with one job, got %d", len(c.args))
	}
	// The server would refuse too, but only after jobs before this one were
	// stopped.
	if _, err := berth.ParsePropagation("-propagation", *s.how); err != nil {
		return c.usagef("%v", err)
	}
	var failed error
	for _, text := range c.args {
		if err := s.stop(ctx, c, text); err != nil {
			if len(c.args) == 1 || ctx.Err() != nil {
				return err
			}
			// An exit has printed its error already.
			if _, quiet := errors.AsType[exit](err); !quiet {
				fmt.Fprintln(c.Err, "Error: "+clean(c.explain(ctx, c.config.advise(err))))
			}
			failed = exit(exitError)
		}
	}
	return failed
}

// stop stops the job that text names, and follows the evaluation and, with
// -propagation=foreground, the deletion.
func (s *jobStop) stop(ctx context.Context, c *call, text string) error {
	j, exact, err := c.findJob(ctx, text)
	if err != nil {
		return err
	}
	if err := s.confirm(c, &j, text, exact); err != nil {
		return err
	}
	in := op.StopJob{
		JobID: string(j.ID), Purge: *s.purge, Global: *s.global, EvalPriority: *s.priority, NoShutdownDelay: *s.noDelay,
		UID: *s.uid, Propagation: *s.how, Force: *s.force, Write: op.Write{Namespace: j.Namespace},
	}
	if *s.purge && in.UID == "" {
		in.UID = j.UID // purge only the job that was found
	}
	out, _, err := client.Call(ctx, c.client, op.Stop, in)
	if err != nil {
		return err
	}
	// Periodic and parameterized jobs have nothing to evaluate.
	done := "stopped"
	switch {
	case *s.how == string(berth.Foreground):
		done = "being deleted"
	case *s.purge:
		done = "purged"
	}
	// Only the ID is printed, so that a script can use it.
	if *s.detach {
		if out.EvalID.IsZero() {
			_, err = fmt.Fprintf(c.Err, "Job %q is %s\n", j.ID, done)
		} else {
			_, err = fmt.Fprintln(c.Out, out.EvalID)
		}
		return err
	}
	o := monitorOptions{verbose: *s.verbose, job: j.ID, namespace: j.Namespace}
	if !out.EvalID.IsZero() {
		err = c.monitor(ctx, out.EvalID, o)
	} else if *s.how != string(berth.Foreground) { // untilGone tells of that
		_, err = fmt.Fprintf(c.Out, "Job %q is %s\n", j.ID, done)
	}
	if err != nil || *s.how != string(berth.Foreground) {
		return err
	}
	return c.untilGone(ctx, &j, o)
}

// untilGone follows the deletion of a job until it is gone.
func (c *call) untilGone(ctx context.Context, j *op.Job, o monitorOptions) error {
	m := &monitor{call: c, options: o, began: c.Now(), progress: &progress{out: c.Out, terminal: c.Terminal, width: c.Width}}
	defer m.progress.erase()
	var index uint64
	reported := -1
	for {
		var now op.Job
		var meta op.Meta
		err := m.ask(ctx, func(ctx context.Context) (err error) {
			now, meta, err = client.Call(ctx, c.client, op.ReadJob, op.JobRef{
				JobID: string(j.ID), Query: op.Query{Namespace: j.Namespace, MinQueryIndex: index, MaxQueryTime: m.poll()},
			})
			return err
		})
		switch {
		// A job with another UID is a new one with the same ID.
		case berth.KindOf(err) == berth.NotFound || err == nil && (now.UID != j.UID || now.Deletion == nil):
			m.head("Job %q is gone", j.ID)
			return nil
		case err != nil && ctx.Err() != nil:
			fmt.Fprintf(c.Err, "Interrupted. The deletion continues in the background; \"%s job tree%s %s\" shows what blocks it.\n", c.Name, nonDefault(j.Namespace), quoted(clean(string(j.ID))))
			return exit(exitError)
		case err != nil:
			return err
		}
		// Only a change is news.
		if n := now.Deletion.Blocking; n != reported && n > 0 {
			reported = n
			m.line("Job %q is being deleted; waiting for %s to end", j.ID, plural(n, held(&now)))
		}
		index = meta.Index
	}
}

// held is the noun for what blocks the deletion of a job. For a stream job that
// is more than allocations.
func held(j *op.Job) string {
	switch {
	case j.Type == berth.TypeStream:
		return "object"
	case j.Periodic != nil || j.ParameterizedJob != nil:
		return "child job"
	}
	return "allocation"
}

// confirm asks before stopping something that may not be meant.
func (s *jobStop) confirm(c *call, j *op.Job, text string, exact bool) error {
	if *s.yes || exact && !(*s.purge && c.Terminal) {
		return nil
	}
	if !c.Terminal {
		return berth.Errorf(berth.Invalid, "%q is not the full ID of job %q: give the full ID or use -yes", text, j.ID)
	}
	deed := "stop"
	if *s.purge {
		deed = "stop and purge"
	}
	if *s.force {
		deed = "stop and forcibly purge"
	}
	yes, err := c.ask(fmt.Sprintf("Are you sure you want to %s job %q in namespace %q?", deed, clean(string(j.ID)), clean(j.Namespace)))
	if err == nil && !yes {
		err = berth.Errorf(berth.Invalid, "job %q was not stopped", j.ID)
	}
	return err
}

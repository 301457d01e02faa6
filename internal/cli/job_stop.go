package cli

import (
	"context"
	"errors"
	"fmt"

	"berth"
	"berth/client"
	"berth/op"
)

func jobStopCommand() *command {
	return &command{
		name: "job stop", args: "<job>...", synopsis: "Stop jobs, and forget them if asked to", min: 1, max: -1,
		help: `Stops jobs, each named by its ID or the beginning of it, and follows the evaluation until it has been decided which
allocations stop. The agents then stop them; "job status" shows how far they are.

A stopped job can still be looked at. With -purge it is forgotten at once, and only if it is still the job that this
command found: one that was registered anew under the same ID in the meantime is left alone. Of one that -uid names, that
one alone is stopped.

What becomes of what a job that is forgotten runs is for -propagation to say. With background, which is the default, the
job is gone at once, and what it runs is stopped then. With foreground the job stays until all of that has ended, and
nothing can be registered under its ID before; it can be watched until it has gone, and "job tree" shows what holds it.
With orphan the job is gone at once and what it runs is left to itself: it runs on, nothing replaces it, and "alloc stop"
stops it.

With foreground, -force waits for nothing: whatever of the job has not ended is taken for lost, also on a node that is
well, and its room is given to others. It is for nodes that cannot be reached, and tasks that do not end. What runs all
the same is stopped when its node is heard. Where there are roles, it takes a management token.

A person at a terminal is asked first if a job is named by a part of its ID or is to be forgotten. Without a terminal,
part of an ID is refused unless -yes is given.`,
		setup: func(f *flags) action {
			s := jobStop{
				detach:   f.Bool("detach", "Print the ID of the evaluation and follow nothing."),
				verbose:  f.Bool("verbose", "Show IDs in full."),
				purge:    f.Bool("purge", "Forget the job, too."),
				yes:      f.Bool("yes", "Do not ask."),
				how:      f.String("propagation", "With -purge: what becomes of what the job runs, by this `policy`: background, foreground or orphan."),
				force:    f.Bool("force", "With -propagation=foreground: wait for nothing; what has not ended is taken for lost."),
				uid:      f.String("uid", "Stop the job only if it has this `UID`, as \"job status -verbose\" shows it."),
				global:   f.Bool("global", "Stop a job of several regions in all of them. Of no effect on a job of one region."),
				noDelay:  f.Bool("no-shutdown-delay", "Do not wait for the shutdown_delay of groups and tasks."),
				priority: f.Int("eval-priority", 0, "The `priority` of the evaluation, 1 to 100; 0 is the job's."),
			}
			return s.run
		},
	}
}

type jobStop struct {
	detach, verbose, purge, yes, global, noDelay, force *bool
	how, uid                                            *string
	priority                                            *int
}

// run stops one job after the other, and goes on with the next if one cannot
// be stopped.
func (s *jobStop) run(ctx context.Context, c *call) error {
	switch {
	case *s.how != "" && !*s.purge:
		return c.usagef("-propagation says how a job is forgotten; give -purge, too")
	case *s.force && *s.how != string(berth.Foreground):
		return c.usagef("-force is for a job that is forgotten in the foreground; give -purge and -propagation=foreground, too")
	case *s.uid != "" && len(c.args) > 1:
		return c.usagef("-uid names one job, and there are %d arguments", len(c.args))
	}
	if _, err := berth.ParsePropagation("-propagation", *s.how); err != nil {
		return c.usagef("%v", err)
	}
	var failed error
	for _, text := range c.args {
		if err := s.stop(ctx, c, text); err != nil {
			if len(c.args) == 1 || ctx.Err() != nil {
				return err
			}
			if _, quiet := errors.AsType[exit](err); !quiet {
				fmt.Fprintln(c.Err, "Error: "+clean(c.explain(ctx, c.config.advise(err))))
			}
			failed = exit(exitError)
		}
	}
	return failed
}

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
		in.UID = j.UID // what was seen is forgotten, and nothing else
	}
	out, _, err := client.Call(ctx, c.client, op.Stop, in)
	if err != nil {
		return err
	}
	if *s.detach {
		if !out.EvalID.IsZero() {
			_, err = fmt.Fprintln(c.Out, out.EvalID)
		}
		return err
	}
	o := monitorOptions{verbose: *s.verbose, job: j.ID, namespace: j.Namespace}
	if !out.EvalID.IsZero() {
		err = c.monitor(ctx, out.EvalID, o)
	}
	if err != nil || *s.how != string(berth.Foreground) {
		return err
	}
	return c.untilGone(ctx, &j, o)
}

// untilGone shows what holds a job that is being deleted, until it has gone.
func (c *call) untilGone(ctx context.Context, j *op.Job, o monitorOptions) error {
	m := &monitor{call: c, options: o, began: c.Now(), progress: &progress{out: c.Out, terminal: c.Terminal, width: c.Width}}
	defer m.progress.erase()
	var index uint64
	told := -1
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
		case berth.KindOf(err) == berth.NotFound || err == nil && (now.UID != j.UID || now.Deletion == nil):
			m.head("Job %q has gone", j.ID)
			return nil
		case err != nil && ctx.Err() != nil:
			fmt.Fprintf(c.Err, "Interrupted. The job goes without being watched; \"%s job tree%s %s\" shows what holds it.\n", c.Name, nonDefault(j.Namespace), quoted(clean(string(j.ID))))
			return exit(exitError)
		case err != nil:
			return err
		}
		if n := now.Deletion.Blocking; n != told && n > 0 {
			told = n
			m.line("Job %q is being deleted; it waits for the end of %s", j.ID, plural(n, held(&now)))
		}
		index = meta.Index
	}
}

// held is what holds a job that is being deleted: of a stream job not only its
// allocations.
func held(j *op.Job) string {
	if j.Type == berth.TypeStream {
		return "object"
	}
	return "allocation"
}

// confirm asks before something is stopped that may not be meant.
func (s *jobStop) confirm(c *call, j *op.Job, text string, exact bool) error {
	if *s.yes || exact && !(*s.purge && c.Terminal) {
		return nil
	}
	if !c.Terminal {
		return berth.Errorf(berth.Invalid, "%q is not the whole ID of job %q; give it in full, or -yes", text, j.ID)
	}
	deed := "stop"
	if *s.purge {
		deed = "stop and forget"
	}
	if *s.force {
		deed = "stop and, by force, forget"
	}
	yes, err := c.ask(fmt.Sprintf("Are you sure you want to %s job %q in namespace %q?", deed, clean(string(j.ID)), clean(j.Namespace)))
	if err == nil && !yes {
		err = berth.Errorf(berth.Invalid, "job %q is left as it is", j.ID)
	}
	return err
}

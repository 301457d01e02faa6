package cli

import (
	"context"
	"errors"
	"fmt"

	"berth"
	"berth/client"
	"berth/op"
)

// jobStartCommand starts stopped jobs again.
func jobStartCommand() *command {
	return &command{
		name: "job start", args: "<job>...", synopsis: "Start stopped jobs again", min: 1, max: -1,
		example: "job start web",
		help: `Starts jobs that were stopped, each given by ID or prefix, as they were, and monitors the evaluation until their allocations run.
			The start is stored as a new version. A purged job cannot be started; register it again with "job run".`,
		setup: func(f *flags) action {
			s := jobStart{
				detach:  f.Bool("detach", "Print the evaluation ID and return without monitoring."),
				verbose: f.Bool("verbose", "Show IDs in full."),
			}
			return s.run
		},
	}
}

// jobStart holds the flags of "job start".
type jobStart struct{ detach, verbose *bool }

// run starts one job after another. It continues if one of them cannot be
// started.
func (s jobStart) run(ctx context.Context, c *call) error {
	var failed error
	for _, text := range c.args {
		err := s.start(ctx, c, text)
		if err == nil {
			continue
		}
		if len(c.args) == 1 || ctx.Err() != nil {
			return err
		}
		// An exit has printed its error already.
		if _, quiet := errors.AsType[exit](err); !quiet {
			fmt.Fprintln(c.Err, "Error: "+clean(c.explain(ctx, c.config.advise(err))))
		}
		failed = exit(exitError)
	}
	return failed
}

// start registers a stopped job again, if nobody changed it meanwhile.
func (s jobStart) start(ctx context.Context, c *call, text string) error {
	j, exact, err := c.findJob(ctx, text)
	switch {
	case err != nil:
		return err
	case !exact:
		return berth.Errorf(berth.Invalid, "%q is not the full ID of job %q: give the full ID", text, j.ID)
	case !j.Stop:
		return berth.Errorf(berth.Invalid, "job %q is not stopped", j.ID)
	case j.ParentID != "":
		return berth.Errorf(berth.Invalid, "job %q is a child of job %q: use \"job dispatch\" or \"job periodic force\"", j.ID, j.ParentID)
	}
	tree, err := client.JobTree(j.Job)
	if err != nil {
		return err
	}
	in := op.RegisterJob{
		JobID: string(j.ID), Job: tree, EnforceIndex: true, JobModifyIndex: j.JobModifyIndex, Write: op.Write{Namespace: j.Namespace},
	}
	in.Submission = c.sourceBeforeStop(ctx, &j)
	out, _, err := client.Call(ctx, c.client, op.RegisterNamed, in)
	if err != nil {
		return err
	}
	return c.raised(ctx, &j, out.EvalID, *s.detach, *s.verbose)
}

// sourceBeforeStop returns the source of the newest version that was not
// stopped, nil if it is not kept. Stopping a job stores a version without one.
func (c *call) sourceBeforeStop(ctx context.Context, j *op.Job) *berth.JobSubmission {
	all, _, err := client.Call(ctx, c.client, op.ListVersions, op.JobVersionsQuery{JobID: string(j.ID), Query: of(j)})
	if err != nil {
		return nil
	}
	for _, v := range all.Versions { // newest first
		if v.Stop {
			continue
		}
		sub, _, err := client.Call(ctx, c.client, op.ReadSubmission, op.SubmissionQuery{JobID: string(j.ID), Version: &v.Version, Query: of(j)})
		if err != nil {
			return nil
		}
		return &sub
	}
	return nil
}

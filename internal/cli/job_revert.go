package cli

import (
	"context"
	"fmt"
	"strconv"

	"berth"
	"berth/client"
	"berth/op"
)

// jobRevertCommand registers an earlier version of a job as its newest.
func jobRevertCommand() *command {
	return &command{
		name: "job revert", args: "<job> <version|tag>", synopsis: "Revert a job to an earlier version", min: 2, max: 2,
		example: "job revert web 3",
		help: `Reverts a job to one of its earlier versions, given by number or tag, and monitors the evaluation until its allocations run. The
			revert is stored as a new version. "job history" lists the versions.`,
		setup: func(f *flags) action {
			r := jobRevert{
				detach:  f.Bool("detach", "Print the evaluation ID and return without monitoring."),
				verbose: f.Bool("verbose", "Show IDs in full."),
			}
			f.Unsupported("consul-token", "vault-token")
			return r.run
		},
	}
}

// jobRevert holds the flags of "job revert".
type jobRevert struct{ detach, verbose *bool }

// run reverts the job and monitors the evaluation unless -detach.
func (r jobRevert) run(ctx context.Context, c *call) error {
	j, exact, err := c.findJob(ctx, c.args[0])
	if err != nil {
		return err
	}
	if !exact {
		return notWhole(c, &j)
	}
	version, err := c.versionOf(ctx, &j, c.args[1])
	if err != nil {
		return err
	}
	out, _, err := client.Call(ctx, c.client, op.Revert, op.RevertJob{
		JobID: string(j.ID), JobVersion: version, Write: op.Write{Namespace: j.Namespace},
	})
	if err != nil {
		return err
	}
	return c.raised(ctx, &j, out.EvalID, *r.detach, *r.verbose)
}

// notWhole rejects a prefix of a job ID in commands that change the job.
func notWhole(c *call, j *op.Job) error {
	return berth.Errorf(berth.Invalid, "%q is not the full ID of job %q: give the full ID", c.args[0], j.ID)
}

// versionOf returns the version with the given number or tag.
func (c *call) versionOf(ctx context.Context, j *op.Job, text string) (uint64, error) {
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		return n, nil
	}
	out, _, err := client.Call(ctx, c.client, op.ListVersions, op.JobVersionsQuery{JobID: string(j.ID), Query: of(j)})
	if err != nil {
		return 0, err
	}
	for _, v := range out.Versions {
		if v.VersionTag != nil && v.VersionTag.Name == text {
			return v.Version, nil
		}
	}
	return 0, berth.Errorf(berth.NotFound, "no version of job %q has the tag %q; see %q", j.ID, text, c.Name+" job history")
}

// raised prints the evaluation that a change of a job created, and monitors it
// unless detach.
func (c *call) raised(ctx context.Context, j *op.Job, eval berth.EvalID, detach, verbose bool) error {
	switch {
	case eval.IsZero():
		_, err := fmt.Fprintf(c.Out, "Job %q has been changed; it runs no allocations itself.\n", j.ID)
		return err
	case detach:
		_, err := fmt.Fprintln(c.Out, "Evaluation ID: "+eval.String())
		return err
	}
	return c.monitor(ctx, eval, monitorOptions{verbose: verbose, settle: true, job: j.ID, namespace: j.Namespace})
}

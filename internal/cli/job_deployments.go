package cli

import (
	"context"

	"berth"
	"berth/client"
	"berth/op"
)

// jobDeploymentsCommand lists the deployments of one job, or shows the latest.
func jobDeploymentsCommand() *command {
	return &command{
		name: "job deployments", args: "<job>", synopsis: "List the deployments of a job", min: 1, max: 1,
		example: "job deployments -latest web",
		help:    "Lists the deployments of a job, given by ID or prefix, newest first.",
		setup: func(f *flags) action {
			l := jobDeployments{
				data:    f.data(),
				latest:  f.Bool("latest", "Show only the latest deployment, with the progress of its groups."),
				all:     f.Bool("all", "Include deployments of earlier jobs with the same ID."),
				verbose: f.Bool("verbose", "Show IDs in full."),
			}
			return l.run
		},
	}
}

// jobDeployments holds the flags of "job deployments".
type jobDeployments struct {
	data                 dataFlags
	latest, all, verbose *bool
}

// run prints the list or the latest deployment. With -latest and -json, a job
// without deployments prints null.
func (l jobDeployments) run(ctx context.Context, c *call) error {
	if err := l.data.check(c); err != nil {
		return err
	}
	j, _, err := c.findJob(ctx, c.args[0])
	if err != nil {
		return err
	}
	if !*l.latest {
		list, _, err := client.Call(ctx, c.client, op.JobDeployments, op.JobDeploymentsQuery{JobID: string(j.ID), All: *l.all, Query: of(&j)})
		if err != nil {
			return err
		}
		return c.showDeployments(list, l.data, *l.verbose)
	}
	d, err := c.lastDeployment(ctx, j.ID, j.Namespace)
	switch {
	case err != nil:
		return err
	case l.data.wanted():
		return l.data.write(c, d)
	case d == nil:
		return c.showDeployments(nil, l.data, *l.verbose)
	}
	p := c.page()
	latestDeployment(p, d, *l.verbose)
	return c.show(p)
}

// jobPromoteCommand is deploymentPromoteCommand for the latest deployment of a
// job, so that nobody has to look up its ID.
func jobPromoteCommand() *command {
	return &command{
		name: "job promote", args: "<job>", synopsis: "Promote the canaries of a job's latest deployment", min: 1, max: 1,
		example: "job promote web",
		help:    "Promotes the canaries of the latest deployment of a job, given by ID or prefix. See \"deployment promote\".",
		setup: func(f *flags) action {
			x := promotion(f)
			return func(ctx context.Context, c *call) error {
				j, _, err := c.findJob(ctx, c.args[0])
				if err != nil {
					return err
				}
				d, err := c.lastDeployment(ctx, j.ID, j.Namespace)
				if err == nil && d == nil {
					err = berth.Errorf(berth.NotFound, "job %q has no deployment", j.ID)
				}
				if err != nil {
					return err
				}
				return x.change(ctx, c, d)
			}
		},
	}
}

package cli

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"berth"
	"berth/client"
	"berth/op"
)

// deploymentStatusCommand shows or follows one deployment.
func deploymentStatusCommand() *command {
	return &command{
		name: "deployment status", args: "<deployment>", synopsis: "Show the progress of a deployment", max: 1,
		example: "deployment status -monitor 3b6f1f2c",
		help: `Shows a deployment, given by ID or prefix: how many allocations of each group are placed and healthy. Without an argument, lists
			all deployments.

			With -monitor, follows the deployment until it ends, even while it is paused or waits for promotion, and then shows it. If it
			fails and the job is reverted, the deployment of the revert is followed as well. With -monitor the exit code is 0 if the
			deployment succeeded, and 1 otherwise.`,
		setup: func(f *flags) action {
			s := deploymentStatus{
				data:    f.data(),
				monitor: f.Bool("monitor", "Follow the deployment until it ends."),
				wait:    f.FlagSet.String("wait", "", "With -monitor: the `duration` between updates, such as 2s. By default each change is shown immediately."),
				verbose: f.Bool("verbose", "Show full IDs and the allocations of the deployment."),
			}
			f.webFlag()
			return s.run
		},
	}
}

// deploymentStatus holds the flags of "deployment status".
type deploymentStatus struct {
	data             dataFlags
	monitor, verbose *bool
	wait             *string
}

// run lists, shows or follows, by arguments and flags. When following, it
// returns exit(exitError) unless the deployment succeeds.
func (s deploymentStatus) run(ctx context.Context, c *call) error {
	if err := s.data.check(c); err != nil {
		return err
	}
	pace, err := s.pace(c)
	if err != nil {
		return err
	}
	if len(c.args) == 0 {
		c.web(ctx, "/deployments")
		return deploymentList{s.data, new(string), s.verbose}.run(ctx, c)
	}
	d, err := c.findDeployment(ctx, c.args[0])
	if err != nil {
		return err
	}
	c.web(ctx, uiDeployment(d.ID))
	switch {
	case s.data.wanted():
		return s.data.write(c, d)
	case *s.monitor:
		return c.monitorDeployment(ctx, d, *s.verbose, pace)
	}
	p, err := c.deploymentPage(ctx, d, *s.verbose)
	if err != nil {
		return err
	}
	return c.show(p)
}

// pace is the time between two updates; 0 means at each change.
func (s deploymentStatus) pace(c *call) (time.Duration, error) {
	if *s.wait == "" {
		return 0, nil
	}
	if !*s.monitor {
		return 0, c.usagef("-wait requires -monitor")
	}
	d, err := time.ParseDuration(*s.wait)
	if err != nil || d <= 0 {
		return 0, c.usagef("flag -wait must be a duration above 0, such as 2s, got %q", *s.wait)
	}
	return d, nil
}

// deploymentPage shows a deployment, with verbose including its allocations.
func (c *call) deploymentPage(ctx context.Context, d *berth.Deployment, verbose bool) (*page, error) {
	p := c.page()
	kv := []string{"ID", short(d.ID.String(), verbose), "Job ID", string(d.JobID), "Job Version", strconv.FormatUint(d.JobVersion, 10),
		"Status", d.Status, "Description", d.StatusDescription}
	if !d.EvalID.IsZero() {
		kv = append(kv, "Evaluation", short(d.EvalID.String(), verbose))
	}
	p.pairs(kv...)
	p.heading("Deployed")
	p.table(deployed(d))
	if !verbose {
		return p, nil
	}
	// Allocations of a large deployment are many, so they are read only when
	// asked for.
	list, _, err := client.Call(ctx, c.client, op.DeploymentAllocs, op.DeploymentRef{DeploymentID: d.ID.String()})
	if err != nil {
		return nil, err
	}
	p.heading("Allocations")
	if len(list) == 0 {
		p.linef("No allocations placed")
	} else {
		p.table(c.jobAllocRows(list, verbose))
	}
	return p, nil
}

// newestDeployments sorts the list in place, newest first.
func newestDeployments(list []*berth.Deployment) {
	slices.SortStableFunc(list, func(a, b *berth.Deployment) int { return cmp.Compare(b.CreateIndex, a.CreateIndex) })
}

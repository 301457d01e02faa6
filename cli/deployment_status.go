package cli

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"berth"
)

func deploymentStatusCommand() *command {
	return &command{
		name: "deployment status", args: "<deployment>", synopsis: "Show how far a deployment is", max: 1,
		help: `Shows a deployment, which is named by its ID or the beginning of it: how many instances of each group are to become
healthy, and how many are. Without an argument, lists all deployments. With -monitor it is followed until it ends.

The exit code of -monitor is 0 if the deployment was successful, and 1 for any other end.`,
		setup: func(f *flags) action {
			s := deploymentStatus{
				data:    f.data(),
				monitor: f.Bool("monitor", "Follow the deployment until it ends."),
				verbose: f.Bool("verbose", "Show IDs in full."),
			}
			f.Unbuilt("wait")
			f.UnbuiltBool("ui")
			return s.run
		},
	}
}

type deploymentStatus struct {
	data             dataFlags
	monitor, verbose *bool
}

func (s deploymentStatus) run(ctx context.Context, c *call) error {
	if err := s.data.check(c); err != nil {
		return err
	}
	if len(c.args) == 0 {
		return deploymentList{s.data, new(string), s.verbose}.run(ctx, c)
	}
	d, err := c.findDeployment(ctx, c.args[0])
	switch {
	case err != nil:
		return err
	case s.data.wanted():
		return s.data.write(c, d)
	case *s.monitor:
		return c.monitorDeployment(ctx, d, *s.verbose)
	}
	p := c.page()
	p.pairs("ID", short(d.ID.String(), *s.verbose), "Job ID", string(d.JobID), "Job Version", strconv.FormatUint(d.JobVersion, 10),
		"Status", d.Status, "Description", d.StatusDescription)
	p.heading("Deployed")
	p.table(deployed(d))
	return c.show(p)
}

func newestDeployments(list []*berth.Deployment) {
	slices.SortStableFunc(list, func(a, b *berth.Deployment) int { return cmp.Compare(b.CreateIndex, a.CreateIndex) })
}

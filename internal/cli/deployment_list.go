package cli

import (
	"context"

	"berth"
	"berth/client"
	"berth/op"
)

// deploymentListCommand lists the deployments of a namespace.
func deploymentListCommand() *command {
	return &command{
		name: "deployment list", synopsis: "List deployments", max: 0,
		example: `deployment list -filter 'Status == "running"'`,
		help:    "Lists all deployments: the rollouts of new job versions, past and present.",
		setup: func(f *flags) action {
			l := deploymentList{
				data:    f.data(),
				filter:  f.String("filter", "List only deployments that match this `expression` over the fields shown by -json, such as 'Status == \"running\"'."),
				verbose: f.Bool("verbose", "Show IDs in full."),
			}
			return l.run
		},
	}
}

// deploymentList holds the flags of "deployment list". Without an argument,
// "deployment status" uses it too.
type deploymentList struct {
	data    dataFlags
	filter  *string
	verbose *bool
}

// run prints the list, newest first.
func (l deploymentList) run(ctx context.Context, c *call) error {
	if err := l.data.check(c); err != nil {
		return err
	}
	list, _, err := client.Call(ctx, c.client, op.ListDeployments, op.Query{Filter: *l.filter})
	if err != nil {
		return err
	}
	return c.showDeployments(list, l.data, *l.verbose)
}

// showDeployments shows deployments, newest first.
func (c *call) showDeployments(list []*berth.Deployment, data dataFlags, verbose bool) error {
	newestDeployments(list)
	if data.wanted() {
		return data.write(c, list)
	}
	p := c.page()
	if len(list) == 0 {
		p.linef("No deployments found")
	} else {
		p.table(deploymentRows(list, func(id berth.DeploymentID) string { return short(id.String(), verbose) }))
	}
	return c.show(p)
}

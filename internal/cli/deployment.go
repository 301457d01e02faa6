package cli

import (
	"context"
	"maps"
	"slices"
	"strconv"

	"berth"
	"berth/client"
	"berth/op"
)

// findDeployment returns the deployment whose ID is or begins with text.
func (c *call) findDeployment(ctx context.Context, text string) (*berth.Deployment, error) {
	if len(text) != fullID {
		found, err := c.deploymentsWith(ctx, text)
		switch {
		case err != nil:
			return nil, err
		case len(found) == 0:
			return nil, c.notFound("deployment", text, "deployment list")
		case len(found) == 1:
			return found[0], nil
		}
		return nil, ambiguous("deployments", text, deploymentRows(found, func(id berth.DeploymentID) string { return telling(text, id.String()) }))
	}
	d, _, err := client.Call(ctx, c.client, op.ReadDeployment, op.DeploymentRef{DeploymentID: text})
	if berth.KindOf(err) == berth.NotFound {
		err = c.notFound("deployment", text, "deployment list")
	}
	return d, err
}

// deploymentsWith returns the deployments whose IDs begin with prefix, one more
// than are listed as candidates. A prefix that cannot begin an ID is an error.
func (c *call) deploymentsWith(ctx context.Context, prefix string) ([]*berth.Deployment, error) {
	if err := prefixOf("deployment", prefix); err != nil {
		return nil, err
	}
	found, _, err := client.Call(ctx, c.client, op.ListDeployments, op.Query{Prefix: prefix, Namespace: c.config.anySpace(), PerPage: candidates + 1})
	return found, err
}

// deploymentRows is a table of deployments.
func deploymentRows(list []*berth.Deployment, id func(berth.DeploymentID) string) [][]string {
	rows := [][]string{{"ID", "Job ID", "Job Version", "Status", "Description"}}
	for _, d := range list {
		rows = append(rows, []string{id(d.ID), string(d.JobID), strconv.FormatUint(d.JobVersion, 10), d.Status, d.StatusDescription})
	}
	return rows
}

// deployed shows the progress of each group of a deployment. Columns that no
// group uses are left out.
func deployed(d *berth.Deployment) [][]string {
	revert, canaries := false, false
	for _, s := range d.TaskGroups {
		revert, canaries = revert || s.AutoRevert, canaries || s.DesiredCanaries > 0
	}
	// line leaves out the columns that no group uses, in rows and heading
	// alike.
	line := func(name, reverts, promoted, desired, wanted, placed, healthy, unhealthy, by string) []string {
		row := []string{name}
		if revert {
			row = append(row, reverts)
		}
		if canaries {
			row = append(row, promoted)
		}
		row = append(row, desired)
		if canaries {
			row = append(row, wanted)
		}
		return append(row, placed, healthy, unhealthy, by)
	}
	rows := [][]string{line("Task Group", "Auto Revert", "Promoted", "Desired", "Canaries", "Placed", "Healthy", "Unhealthy", "Progress Deadline")}
	for _, name := range slices.Sorted(maps.Keys(d.TaskGroups)) {
		s := d.TaskGroups[name]
		promoted, by := strconv.FormatBool(s.Promoted), stamp(s.RequireProgressBy)
		if s.DesiredCanaries == 0 {
			promoted = notYet
		}
		if s.PlacedAllocs == 0 { // the deadline starts with the first placement
			by = notYet
		}
		rows = append(rows, line(name, strconv.FormatBool(s.AutoRevert), promoted, strconv.Itoa(s.DesiredTotal), strconv.Itoa(s.DesiredCanaries),
			strconv.Itoa(s.PlacedAllocs), strconv.Itoa(s.HealthyAllocs), strconv.Itoa(s.UnhealthyAllocs), by))
	}
	return rows
}

// latestDeployment shows a job's newest deployment, if it has one.
func latestDeployment(p *page, d *berth.Deployment, verbose bool) {
	if d == nil {
		return
	}
	p.heading("Latest Deployment")
	p.pairs("ID", short(d.ID.String(), verbose), "Status", d.Status, "Description", d.StatusDescription)
	p.heading("Deployed")
	p.table(deployed(d))
}

// lastDeployment returns the newest deployment of a job, nil if it has none.
func (c *call) lastDeployment(ctx context.Context, id berth.JobID, namespace string) (*berth.Deployment, error) {
	d, _, err := client.Call(ctx, c.client, op.JobLastDeployment, op.JobRef{JobID: string(id), Query: op.Query{Namespace: namespace}})
	return d, err
}

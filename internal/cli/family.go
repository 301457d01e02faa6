package cli

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth"
	"berth/client"
	"berth/internal/cron"
	"berth/op"
)

// runsShown is how many upcoming runs of a periodic job are shown.
const runsShown = 5

// nextRuns lists when a periodic job is due.
func (c *call) nextRuns(p *berth.PeriodicConfig) (out []string) {
	times, err := cron.New(p)
	if err != nil || !p.Enabled {
		return nil
	}
	for _, t := range times.Upcoming(c.Now(), runsShown) {
		out = append(out, t.Format(time.RFC3339)+" ("+c.ago(t)+")")
	}
	return out
}

// nextLaunch is the time of a periodic job's next launch.
func (c *call) nextLaunch(j *op.Job) string {
	switch {
	case j.Stop:
		return "none (job stopped)"
	case !j.Periodic.Enabled:
		return "none (periodic disabled)"
	}
	if runs := c.nextRuns(j.Periodic); len(runs) > 0 {
		return runs[0]
	}
	return "none"
}

// loadChildren finds the children of a job.
func (c *call) loadChildren(ctx context.Context, j *op.Job) ([]op.JobStub, error) {
	// The prefix narrows the search. Other jobs may have such IDs too, so the
	// parent decides.
	infix := berth.PeriodicInfix
	if j.ParameterizedJob != nil {
		infix = berth.DispatchInfix
	}
	list, _, err := client.Call(ctx, c.client, op.ListJobs, op.JobsQuery{Query: op.Query{Namespace: j.Namespace, Prefix: string(j.ID) + infix}})
	return slices.DeleteFunc(list, func(s op.JobStub) bool { return s.ParentID != j.ID }), err
}

// family shows the children of a periodic or parameterized job.
func (c *call) family(p *page, j *op.Job, sum *op.JobSummary, children []op.JobStub, verbose bool) {
	if j.Periodic != nil {
		if runs := c.nextRuns(j.Periodic); len(runs) > 0 && !j.Stop {
			p.heading("Next Runs")
			for _, r := range runs {
				p.linef("%s", r)
			}
		}
	}
	title := "Previously Launched Jobs"
	if t := j.ParameterizedJob; t != nil {
		title = "Dispatched Jobs"
		p.heading("Parameterized Job")
		p.pairs("Payload", t.Payload, "Required Metadata", listed(t.MetaRequired), "Optional Metadata", listed(t.MetaOptional))
		p.heading("Parameterized Job Summary")
	} else {
		p.heading("Children Job Summary")
	}
	n := sum.Children
	if n == nil {
		n = &op.ChildrenSummary{}
	}
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	p.table([][]string{{"Pending", "Running", "Dead"}, {number(n.Pending), number(n.Running), number(n.Dead)}})
	p.heading(title)
	if len(children) == 0 {
		p.linef("None")
		return
	}
	rows := [][]string{{"ID", "Status", "Submit Date"}}
	for _, s := range children {
		rows = append(rows, []string{string(s.ID), jobState(s.Status, s.Stop), at(s.SubmitTime)})
	}
	p.table(rows)
}

// listed joins words, or returns a mark for an empty list.
func listed(words []string) string {
	if len(words) == 0 {
		return "<none>"
	}
	return strings.Join(words, ", ")
}

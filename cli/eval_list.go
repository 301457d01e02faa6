package cli

import (
	"context"
	"strconv"

	"berth"
	"berth/client"
	"berth/op"
)

func evalListCommand() *command {
	return &command{
		name: "eval list", synopsis: "List evaluations", max: 0,
		help: `Lists evaluations, newest first: the notes by which the servers remember that something about a job has to be decided.
The status of one that is open is followed by where it is: delayed, scheduling or applying.`,
		setup: func(f *flags) action {
			l := evalList{
				data:    f.data(),
				page:    f.paging(),
				job:     f.String("job", "Only those of this `job`."),
				status:  f.String("status", "Only those of this `status`: pending, blocked, complete, failed or canceled."),
				verbose: f.Bool("verbose", "Show IDs in full."),
			}
			f.UnbuiltBool("ui")
			return l.run
		},
	}
}

type evalList struct {
	data        dataFlags
	page        pageFlags
	job, status *string
	verbose     *bool
}

// pageFlags are the flags of long lists.
type pageFlags struct {
	filter, token *string
	perPage       *int
}

func (f *flags) paging() pageFlags {
	return pageFlags{
		filter:  f.String("filter", "Only those that meet this `expression` over the fields that -json shows, such as 'Status == \"ready\"'."),
		token:   f.String("page-token", "The `token` that the page before named."),
		perPage: f.Int("per-page", 0, "The `number` of rows on a page; 0 is all."),
	}
}

// query puts the flags into a query.
func (f pageFlags) query(c *call, q *op.Query) error {
	if *f.perPage < 0 || *f.perPage > op.MaxPage {
		return c.usagef("the flag -per-page: %d is out of range; allowed are 0 to %d", *f.perPage, op.MaxPage)
	}
	q.Filter, q.NextToken, q.PerPage = *f.filter, *f.token, int32(*f.perPage)
	return nil
}

func (l evalList) run(ctx context.Context, c *call) error {
	if err := l.data.check(c); err != nil {
		return err
	}
	in := op.EvalsQuery{Job: *l.job, Status: *l.status, Query: op.Query{Reverse: true}}
	if err := l.page.query(c, &in.Query); err != nil {
		return err
	}
	list, meta, err := client.Call(ctx, c.client, op.ListEvals, in)
	if err != nil {
		return err
	}
	if l.data.wanted() {
		return l.data.write(c, list)
	}
	p := c.page()
	if len(list) == 0 {
		p.linef("No evals found")
	} else {
		p.table(evalRows(list, func(id berth.EvalID) string { return short(id.String(), *l.verbose) }))
	}
	c.paged(p, meta.NextToken)
	return c.show(p)
}

// evalRows lists evaluations.
func evalRows(list []op.Eval, id func(berth.EvalID) string) [][]string {
	rows := [][]string{{"ID", "Priority", "Triggered By", "Job ID", "Status", "Placement Failures"}}
	for i := range list {
		e := &list[i]
		rows = append(rows, []string{id(e.ID), strconv.Itoa(e.Priority), e.TriggeredBy, string(e.JobID), evalState(e), placementFailures(e)})
	}
	return rows
}

// evalState is the status of an evaluation, and where it is while it is open.
func evalState(e *op.Eval) string {
	if e.QuasiStatus == "" {
		return e.Status
	}
	return e.Status + " (" + e.QuasiStatus + ")"
}

// placementFailures says whether an evaluation left something without a
// place.
func placementFailures(e *op.Eval) string {
	if !terminal(e.Status) {
		return "N/A - In Progress"
	}
	return strconv.FormatBool(len(e.FailedTGAllocs) > 0)
}

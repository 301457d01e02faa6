package cli

import (
	"context"
	"strconv"

	"berth"
	"berth/op"
)

func evalListCommand() *command {
	return &command{
		name: "eval list", synopsis: "List evaluations", max: 0,
		help: `Lists evaluations, newest first: the notes by which the servers remember that something about a job has to be decided.
The status of one that is open is followed by where it is: delayed, scheduling or applying.`,
		setup: func(f *flags) action {
			l := evalList{
				listFlags: f.list(),
				job:       f.String("job", "Only those of this `job`."),
				status:    f.String("status", "Only those of this `status`: pending, blocked, complete, failed or canceled."),
				verbose:   f.Bool("verbose", "Show IDs in full."),
			}
			f.UnbuiltBool("ui")
			return l.run
		},
	}
}

type evalList struct {
	listFlags
	job, status *string
	verbose     *bool
}

func (l evalList) run(ctx context.Context, c *call) error {
	in := op.EvalsQuery{Job: *l.job, Status: *l.status, Query: op.Query{Reverse: true}}
	return showList(ctx, c, l.listFlags, op.ListEvals, &in, &in.Query, "No evals found", func(p *page, list []op.Eval) {
		p.table(evalRows(list, func(id berth.EvalID) string { return short(id.String(), *l.verbose) }))
	})
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

package cli

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"berth"
	"berth/op"
)

// evalListCommand lists evaluations, newest first, in pages.
func evalListCommand() *command {
	return &command{
		name: "eval list", synopsis: "List evaluations", max: 0,
		example: "eval list -job web -status blocked",
		help: `Lists evaluations, newest first. An evaluation is a request to the scheduler to decide something about a job. The status of an
			open evaluation is followed by its phase: delayed, scheduling or applying.`,
		setup: func(f *flags) action {
			l := evalList{
				listFlags: f.list(),
				job:       f.String("job", "List only evaluations of this `job`."),
				status:    f.String("status", "List only evaluations with this `status`: pending, blocked, complete, failed or canceled."),
				verbose:   f.Bool("verbose", "Show IDs in full."),
			}
			f.webFlag()
			return l.run
		},
	}
}

// evalList holds the flags of "eval list".
type evalList struct {
	listFlags
	job, status *string
	verbose     *bool
}

// run prints one page of the list.
func (l evalList) run(ctx context.Context, c *call) error {
	if !slices.Contains(evalStatuses, *l.status) {
		return berth.Errorf(berth.Invalid, "-status: must be one of %s, got %q", strings.Join(evalStatuses[1:], ", "), *l.status)
	}
	c.web(ctx, "/evaluations")
	in := op.EvalsQuery{Job: *l.job, Status: *l.status, Query: op.Query{Reverse: true}}
	return showList(ctx, c, l.listFlags, op.ListEvals, &in, &in.Query, "No evals found", func(p *page, list []op.Eval) {
		p.table(evalRows(list, func(id berth.EvalID) string { return short(id.String(), *l.verbose) }))
	})
}

// evalStatuses are what -status takes; "" is all.
var evalStatuses = []string{"", berth.EvalPending, berth.EvalBlocked, berth.EvalComplete, berth.EvalFailed, berth.EvalCanceled}

// evalRows is a table of evaluations.
func evalRows(list []op.Eval, id func(berth.EvalID) string) [][]string {
	rows := [][]string{{"ID", "Priority", "Triggered By", "Job ID", "Status", "Placement Failures"}}
	for i := range list {
		e := &list[i]
		rows = append(rows, []string{id(e.ID), strconv.Itoa(e.Priority), e.TriggeredBy, string(e.JobID), evalState(e), placementFailures(e)})
	}
	return rows
}

// evalState is the status of an evaluation, with its phase while it is open.
func evalState(e *op.Eval) string {
	if e.QuasiStatus == "" {
		return e.Status
	}
	return e.Status + " (" + e.QuasiStatus + ")"
}

// placementFailures reports whether an evaluation failed to place something.
func placementFailures(e *op.Eval) string {
	if !terminal(e.Status) {
		return "N/A - In Progress"
	}
	return strconv.FormatBool(len(e.FailedTGAllocs) > 0)
}

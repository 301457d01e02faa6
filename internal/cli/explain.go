package cli

import (
	"context"
	"fmt"
	"strings"

	"berth"
	"berth/client"
	"berth/op"
)

// evalExplainCommand explains one decision, from what the servers stored about
// it and the current state.
func evalExplainCommand() *command {
	return &command{
		name: "eval explain", args: "<evaluation>", synopsis: "Explain why an evaluation is open, or why it ended as it did", min: 1, max: 1,
		example: "eval explain 5c1e33a6",
		help: `Explains why an evaluation has not completed, or why it ended as it did. For allocations that could not be placed, it shows what
			each node lacks and the smallest change that would place them. Suggested changes have been tried on a copy of the current cluster
			state.`,
		setup: func(f *flags) action {
			x := explain{data: f.data(), verbose: f.Bool("verbose", "Show IDs in full.")}
			return x.eval
		},
	}
}

// jobExplainCommand explains the current state of a job rather than one
// decision.
func jobExplainCommand() *command {
	return &command{
		name: "job explain", args: "<job>", synopsis: "Explain why a job is pending or placed where it is, and what would help", min: 1, max: 1,
		example: "job explain web",
		help: `Explains why the allocations of a job are pending, why they run where they do, or why they are missing. For each group it shows
			what each node lacks, which allocation holds a port that the group needs, and the smallest change that would place it. Suggested
			changes have been tried on a copy of the current cluster state.`,
		setup: func(f *flags) action {
			x := explain{data: f.data(), verbose: f.Bool("verbose", "Show IDs in full.")}
			return x.job
		},
	}
}

// explain holds the flags of "eval explain" and "job explain".
type explain struct {
	data    dataFlags
	verbose *bool
}

// eval explains the evaluation that the argument names.
func (x explain) eval(ctx context.Context, c *call) error {
	if err := x.data.check(c); err != nil {
		return err
	}
	e, err := c.findEval(ctx, c.args[0])
	if err != nil {
		return err
	}
	out, _, err := client.Call(ctx, c.client, op.ExplainEval, op.EvalRef{EvalID: e.ID.String()})
	if err != nil {
		return err
	}
	return x.show(c, &out)
}

// job explains a job. A purged job is found by its full ID.
func (x explain) job(ctx context.Context, c *call) error {
	if err := x.data.check(c); err != nil {
		return err
	}
	in := op.JobRef{JobID: c.args[0]}
	j, _, missing := c.findJob(ctx, c.args[0])
	switch {
	case missing == nil:
		in = op.JobRef{JobID: string(j.ID), Query: of(&j)}
	case berth.KindOf(missing) != berth.NotFound:
		return missing
	}
	out, _, err := client.Call(ctx, c.client, op.ExplainJob, in)
	if berth.KindOf(err) == berth.NotFound && missing != nil {
		return missing
	}
	if err != nil {
		return err
	}
	return x.show(c, &out)
}

// show prints an explanation, with the evaluations that are still open at the
// end.
func (x explain) show(c *call, e *op.Explanation) error {
	if x.data.wanted() {
		return x.data.write(c, e)
	}
	p := c.page()
	p.linef("%s", e.Summary)
	for i := range e.Groups {
		x.group(p, &e.Groups[i])
	}
	if len(e.Waits) > 0 {
		p.heading("Open Evaluations")
		rows := [][]string{{"ID", "Triggered By", "Status", "Until", "Why"}}
		for _, w := range e.Waits {
			rows = append(rows, []string{short(w.EvalID.String(), *x.verbose), w.TriggeredBy, evalState(&op.Eval{Status: w.Status, QuasiStatus: w.QuasiStatus}), stamp(w.Until), w.Why})
		}
		p.table(rows)
	}
	return c.show(p)
}

// group explains one group: what the nodes lack, what would help, and why
// running allocations are where they are.
func (x explain) group(p *page, g *op.GroupExplanation) {
	p.heading(fmt.Sprintf("Task Group %q", g.Group))
	p.linef("%s", g.Summary)
	if g.Missing > 0 {
		x.missing(p, g)
	}
	if len(g.Allocs) == 0 {
		return
	}
	rows := [][]string{{"ID", "Name", "Node", "Why There"}}
	for _, a := range g.Allocs {
		rows = append(rows, []string{short(a.AllocID.String(), *x.verbose), a.Name, a.NodeName, a.Text})
	}
	p.gap()
	p.table(rows)
	if more := g.Live - len(g.Allocs); more > 0 {
		p.linef("(and %d more)", more)
	}
}

// missing adds why allocations of a group have no node: what nodes lack, the
// nodes that come nearest, and changes that would help.
func (x explain) missing(p *page, g *op.GroupExplanation) {
	if len(g.Quota) > 0 {
		x.changes(p, g)
		return
	}
	p.linef("Of %s, %d did not meet the constraints and %d lacked capacity:", plural(g.Nodes, "ready node"), g.Filtered, g.Exhausted)
	for _, s := range g.Shortages {
		p.linef("  * %s: %s", plural(s.Nodes, "node"), shortage(s))
	}
	for _, cond := range most(g.Conditions) {
		p.linef("  * %s: %s", plural(g.Conditions[cond], "node"), cond)
	}
	for _, u := range g.Unknown {
		similar := ""
		if u.Similar != "" {
			similar = "; the most similar one is " + u.Similar
		}
		p.linef("  * no node has %s%s", u.Attribute, similar)
	}
	// Without a node there is no shortage that could explain it.
	if g.Nodes == 0 {
		p.linef("  * no node is ready")
	}
	if len(g.Nearest) > 0 {
		rows := [][]string{{"Nearest Node", "Class", "Score", "Missing"}}
		for _, n := range g.Nearest {
			var lacks []string
			for _, s := range n.Shortages {
				lacks = append(lacks, shortage(s))
			}
			rows = append(rows, []string{n.Name, or(n.NodeClass, none), fmt.Sprintf("%.3f", n.Score), or(strings.Join(append(n.Unmet, lacks...), "; "), "nothing: one more fits")})
		}
		p.gap()
		p.table(rows)
	}
	x.changes(p, g)
}

// changes adds the changes that would help.
func (x explain) changes(p *page, g *op.GroupExplanation) {
	if len(g.Quota) > 0 && len(g.Changes) == 0 {
		return // the summary says what is lacking
	}
	p.gap()
	// The search tries a limited number of changes, so finding none proves
	// nothing.
	switch len(g.Changes) {
	case 0:
		p.linef("Found no change that would place %s (the search is limited)", plural(g.Missing, "allocation"))
		return
	case 1:
		p.linef("This would place %s:", plural(g.Missing, "allocation"))
	default:
		p.linef("Any one of these would place %s, smallest change first:", plural(g.Missing, "allocation"))
	}
	for i, ch := range g.Changes {
		p.linef("  %d. %s", i+1, ch.Text)
	}
}

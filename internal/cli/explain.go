package cli

import (
	"context"
	"fmt"
	"strings"

	"berth"
	"berth/client"
	"berth/op"
)

func evalExplainCommand() *command {
	return &command{
		name: "eval explain", args: "<evaluation>", synopsis: "Say why an evaluation waits, or why it ended as it did", min: 1, max: 1,
		help: `Says why an evaluation has not ended, or why it ended as it did; and, of what found no place, what was found of every node
and the smallest change that would place it. What is proposed was tried on a copy of the servers' state as it is now.`,
		setup: func(f *flags) action {
			x := explain{data: f.data(), verbose: f.Bool("verbose", "Show IDs in full.")}
			return x.eval
		},
	}
}

func jobExplainCommand() *command {
	return &command{
		name: "job explain", args: "<job>", synopsis: "Say why a job waits or runs where it does, and what would help", min: 1, max: 1,
		help: `Says why the allocations of a job wait, run where they run, or are not there: of each group, what was found of every node,
who holds a port that it wants, and the smallest change that would place what has no place. What is proposed was tried on a copy
of the servers' state as it is now.`,
		setup: func(f *flags) action {
			x := explain{data: f.data(), verbose: f.Bool("verbose", "Show IDs in full.")}
			return x.job
		},
	}
}

type explain struct {
	data    dataFlags
	verbose *bool
}

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

// job explains a job; one that was purged is known by its whole ID.
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

// group shows one group: what was found of the nodes, what would help, and why
// what lives is where it is.
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

func (x explain) missing(p *page, g *op.GroupExplanation) {
	p.linef("Of %s, %d %s out by conditions, and %d %s no room:", plural(g.Nodes, "ready node"), g.Filtered, wasWere(g.Filtered), g.Exhausted, hasHave(g.Exhausted))
	for _, s := range g.Shortages {
		p.linef("  * %s: %s", plural(s.Nodes, "node"), shortage(s))
	}
	for _, cond := range most(g.Conditions) {
		p.linef("  * %s: %s", plural(g.Conditions[cond], "node"), cond)
	}
	if g.Nodes == 0 {
		p.linef("  * there is no node that is ready")
	}
	if len(g.Nearest) > 0 {
		rows := [][]string{{"Nearest Node", "Class", "Score", "What It Lacks"}}
		for _, n := range g.Nearest {
			var lacks []string
			for _, s := range n.Shortages {
				lacks = append(lacks, shortage(s))
			}
			rows = append(rows, []string{n.Name, or(n.NodeClass, none), fmt.Sprintf("%.3f", n.Score), or(strings.Join(append(n.Unmet, lacks...), "; "), "nothing for one more")})
		}
		p.gap()
		p.table(rows)
	}
	p.gap()
	switch len(g.Changes) {
	case 0:
		p.linef("No change was found, or looked for after so many groups, that would place %s", plural(g.Missing, "allocation"))
		return
	case 1:
		p.linef("What would place %s:", plural(g.Missing, "allocation"))
	default:
		p.linef("What would place %s, the smallest change first; one of them is enough:", plural(g.Missing, "allocation"))
	}
	for i, ch := range g.Changes {
		p.linef("  %d. %s", i+1, ch.Text)
	}
}

func wasWere(n int) string {
	if n == 1 {
		return "was ruled"
	}
	return "were ruled"
}

func hasHave(n int) string {
	if n == 1 {
		return "has"
	}
	return "have"
}

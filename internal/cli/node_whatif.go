package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"berth/client"
	"berth/op"
)

// nodeWhatIfCommand tells what would happen if nodes failed.
func nodeWhatIfCommand() *command {
	return &command{
		name: "node what-if", args: "[node]", synopsis: "Show what could not be placed elsewhere if nodes failed", max: 1,
		example: "node what-if -rack r1",
		help: `Tries what would happen if nodes went down at once: a node by its ID, prefix or name, or all nodes of a rack (their meta "rack"),
			a datacenter or a node pool. A server takes them down in a copy of the state and schedules there every job that runs on them. Nothing
			is changed.

			The exit code is 0 if everything would find another place, 2 if something would not, and 1 on an error.`,
		setup: func(f *flags) action {
			w := nodeWhatIf{
				data:       f.data(),
				rack:       f.String("rack", "The nodes of this `rack`."),
				datacenter: f.String("datacenter", "The nodes of this `datacenter`."),
				pool:       f.String("pool", "The nodes of this node `pool`."),
				self:       f.Bool("self", "The node of the agent that is called."),
			}
			f.webFlag()
			return w.run
		},
	}
}

// nodeWhatIf holds the flags of "node what-if".
type nodeWhatIf struct {
	data                   dataFlags
	rack, datacenter, pool *string
	self                   *bool
}

// run asks a server and prints the answer.
func (w nodeWhatIf) run(ctx context.Context, c *call) error {
	if err := w.data.check(c); err != nil {
		return err
	}
	in := op.WhatIfQuery{Rack: *w.rack, Datacenter: *w.datacenter, Pool: *w.pool}
	if len(c.args) > 0 || *w.self {
		find := nodeStatus{self: w.self}
		n, err := find.find(ctx, c)
		if err != nil {
			return err
		}
		in.Node = n.ID.String()
	}
	if in.Node+in.Rack+in.Datacenter+in.Pool == "" {
		return c.usagef("give a node, -self, -rack, -datacenter or -pool")
	}
	c.web(ctx, "/topology")
	out, _, err := client.Call(ctx, c.client, op.TryWhatIf, in)
	if err != nil {
		return err
	}
	if w.data.wanted() {
		return w.data.write(c, out)
	}
	p := c.page()
	p.linef("%s", whatIfSentence(&out))
	if len(out.Groups) > 0 {
		rows := [][]string{{"Namespace", "Job", "Group", "Without a Place", "Of", "Why"}}
		for _, g := range out.Groups {
			rows = append(rows, []string{g.Namespace, string(g.JobID), g.Group, strconv.Itoa(g.Lost), strconv.Itoa(g.Of), g.Why})
		}
		p.gap()
		p.table(rows)
	}
	if out.More > 0 {
		p.linef("… and %s", plural(out.More, "more group"))
	}
	if err := c.show(p); err != nil || out.Lost+out.NotTried == 0 {
		return err
	}
	return exit(exitUnplaced)
}

// whatIfSentence sums an answer up.
func whatIfSentence(w *op.WhatIf) string {
	names := strings.Join(w.Names, ", ")
	if more := w.Nodes - len(w.Names); more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	s := fmt.Sprintf("If %s (%s) failed, %s would end: ", plural(w.Nodes, "node"), or(names, "all are down already"), plural(w.Allocs, "allocation"))
	parts := []string{fmt.Sprintf("%d would move", w.Moved), fmt.Sprintf("%d would find no other place", w.Lost)}
	if w.Bound > 0 {
		parts = append(parts, fmt.Sprintf("%d belong to jobs that run on every node", w.Bound))
	}
	if w.Hidden > 0 {
		parts = append(parts, fmt.Sprintf("%d of those without a place are of jobs that you may not see", w.Hidden))
	}
	if w.NotTried > 0 {
		parts = append(parts, fmt.Sprintf("%s not tried, because that is too much work or they are stream jobs", plural(w.NotTried, "job")))
	}
	return s + strings.Join(parts, ", ") + "."
}

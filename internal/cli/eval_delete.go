package cli

import (
	"context"
	"fmt"

	"berth"
	"berth/client"
	"berth/op"
)

// evalDeleteCommand deletes evaluations early that would be collected anyway.
func evalDeleteCommand() *command {
	return &command{
		name: "eval delete", args: "<evaluation>", synopsis: "Delete evaluations that have completed", max: 1,
		example: `eval delete -yes -filter 'Status == "complete"'`,
		help: `Deletes an evaluation, given by ID or prefix, or with -filter all that match an expression, together with their allocations.
			Servers do this by themselves after some time; this command does it now.

			Only evaluations that have completed and are no longer needed are deleted. Naming one that is still needed is an error; -filter
			skips such evaluations.

			Asks for confirmation on a terminal. Without a terminal, an ID prefix and -filter require -yes.`,
		setup: func(f *flags) action {
			d := evalDelete{
				filter: f.String("filter", "Delete all that match this `expression` over the fields shown by \"eval list -json\"."),
				yes:    f.Bool("yes", "Do not ask for confirmation."),
			}
			return d.run
		},
	}
}

// evalDelete holds the flags of "eval delete".
type evalDelete struct {
	filter *string
	yes    *bool
}

// run deletes one evaluation or all that match. Matches are chosen by the
// server when it deletes, not when the user confirms.
func (d *evalDelete) run(ctx context.Context, c *call) error {
	var in op.DeleteEvals
	var what string
	exact := false
	switch filtered := *d.filter != ""; {
	case filtered == (len(c.args) == 1):
		return c.usagef("give either an evaluation or -filter")
	case filtered:
		in.Filter, what = *d.filter, "all evaluations that match the expression"
	default:
		e, err := c.findEval(ctx, c.args[0])
		if err != nil {
			return err
		}
		in.EvalIDs, what, exact = []string{e.ID.String()}, fmt.Sprintf("evaluation %q", e.ID), e.ID.String() == c.args[0]
	}
	if err := d.confirm(c, what, exact); err != nil {
		return err
	}
	out, _, err := client.Call(ctx, c.client, op.EvalDelete, in)
	if err != nil {
		return err
	}
	noun := "evaluations"
	if out.Count == 1 {
		noun = "evaluation"
	}
	_, err = fmt.Fprintf(c.Out, "Successfully deleted %d %s\n", out.Count, noun)
	return err
}

// confirm asks before deleting something that may not be meant.
func (d *evalDelete) confirm(c *call, what string, exact bool) error {
	if *d.yes || exact && !c.Terminal {
		return nil
	}
	if !c.Terminal {
		return berth.Errorf(berth.Invalid, "a prefix or -filter requires -yes without a terminal")
	}
	yes, err := c.ask("Are you sure you want to delete " + what + "?")
	if err == nil && !yes {
		err = berth.Errorf(berth.Invalid, "nothing was deleted")
	}
	return err
}

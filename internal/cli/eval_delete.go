package cli

import (
	"context"
	"fmt"

	"berth"
	"berth/client"
	"berth/op"
)

func evalDeleteCommand() *command {
	return &command{
		name: "eval delete", args: "<evaluation>", synopsis: "Delete evaluations that have ended", max: 1,
		help: `Deletes an evaluation, named by its ID or the beginning of it, or with -filter all that meet an expression, together with
their allocations. Servers do so by themselves after a while; this is for those who cannot wait.

Only what has ended and is of no use any more is deleted. One that is named and is still needed is refused with the reason;
of those that meet an expression it is left out.

A person at a terminal is asked first. Without a terminal, part of an ID, and -filter, are refused unless -yes is given.`,
		setup: func(f *flags) action {
			d := evalDelete{
				filter: f.String("filter", "Delete all that meet this `expression` over the fields that \"eval list -json\" shows."),
				yes:    f.Bool("yes", "Do not ask."),
			}
			return d.run
		},
	}
}

type evalDelete struct {
	filter *string
	yes    *bool
}

func (d *evalDelete) run(ctx context.Context, c *call) error {
	var in op.DeleteEvals
	var what string
	exact := false
	switch filtered := *d.filter != ""; {
	case filtered == (len(c.args) == 1):
		return c.usagef("name an evaluation, or give -filter, one of them")
	case filtered:
		in.Filter, what = *d.filter, "all evaluations that meet the expression"
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

// confirm asks before something is deleted that may not be meant.
func (d *evalDelete) confirm(c *call, what string, exact bool) error {
	if *d.yes || exact && !c.Terminal {
		return nil
	}
	if !c.Terminal {
		return berth.Errorf(berth.Invalid, "what is to be deleted is not named by a whole ID; give it in full, or -yes")
	}
	yes, err := c.ask("Are you sure you want to delete " + what + "?")
	if err == nil && !yes {
		err = berth.Errorf(berth.Invalid, "nothing was deleted")
	}
	return err
}

package cli

import (
	"context"
	"fmt"

	"berth/client"
	"berth/op"
)

func allocStopCommand() *command {
	return &command{
		name: "alloc stop", args: "<allocation>", synopsis: "Stop an allocation and place it anew", min: 1, max: 1,
		help: `Stops an allocation and has the scheduler place its instance anew, on whatever node suits, and follows the evaluation until
the new one runs. "job stop" stops a job for good, "job scale" changes how many instances it has. An allocation that its job left to itself
is stopped, and nothing replaces it.`,
		setup: func(f *flags) action {
			s := allocStop{
				detach:  f.Bool("detach", "Print the ID of the evaluation and follow nothing."),
				verbose: f.Bool("verbose", "Show IDs in full."),
				noDelay: f.Bool("no-shutdown-delay", "Do not wait for the shutdown_delay of the group and its tasks."),
			}
			return s.run
		},
	}
}

type allocStop struct{ detach, verbose, noDelay *bool }

func (s allocStop) run(ctx context.Context, c *call) error {
	a, err := c.findAlloc(ctx, c.args[0])
	if err != nil {
		return err
	}
	out, _, err := client.Call(ctx, c.client, op.HaltAlloc, op.StopAlloc{AllocID: a.ID.String(), NoShutdownDelay: *s.noDelay})
	if err != nil {
		return err
	}
	if out.EvalID.IsZero() { // it was left to itself: no scheduler looks
		_, err := fmt.Fprintf(c.Out, "Allocation %q is to stop; it has no job, so nothing replaces it\n", short(a.ID.String(), *s.verbose))
		return err
	}
	return c.raised(ctx, &op.Job{Job: a.Job}, out.EvalID, *s.detach, *s.verbose)
}

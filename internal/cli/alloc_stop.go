package cli

import (
	"context"
	"fmt"

	"berth/client"
	"berth/op"
)

// allocStopCommand stops an allocation, which the scheduler then replaces.
func allocStopCommand() *command {
	return &command{
		name: "alloc stop", args: "<allocation>", synopsis: "Stop an allocation and reschedule it", min: 1, max: 1,
		example: "alloc stop 0af996ed",
		help: `Stops an allocation and lets the scheduler place a replacement on any suitable node, then monitors the evaluation until the
			replacement runs. To stop a job for good, use "job stop"; to change its number of instances, use "job scale". An orphaned
			allocation is stopped without a replacement.`,
		setup: func(f *flags) action {
			s := allocStop{
				detach:  f.Bool("detach", "Print the evaluation ID and return without monitoring."),
				verbose: f.Bool("verbose", "Show IDs in full."),
				noDelay: f.Bool("no-shutdown-delay", "Do not wait for the shutdown_delay of the group and its tasks."),
			}
			return s.run
		},
	}
}

// allocStop holds the flags of "alloc stop".
type allocStop struct{ detach, verbose, noDelay *bool }

// run stops the allocation and monitors the evaluation unless -detach. Its exit
// code is that of the monitor.
func (s allocStop) run(ctx context.Context, c *call) error {
	a, err := c.findAlloc(ctx, c.args[0])
	if err != nil {
		return err
	}
	out, _, err := client.Call(ctx, c.client, op.HaltAlloc, op.StopAlloc{AllocID: a.ID.String(), NoShutdownDelay: *s.noDelay})
	if err != nil {
		return err
	}
	if out.EvalID.IsZero() { // an orphan: there is nothing to evaluate
		_, err := fmt.Fprintf(c.Out, "Allocation %q is being stopped; it has no job, so nothing replaces it\n", short(a.ID.String(), *s.verbose))
		return err
	}
	return c.raised(ctx, &op.Job{Job: a.Job}, out.EvalID, *s.detach, *s.verbose)
}

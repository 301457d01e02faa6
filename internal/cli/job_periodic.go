package cli

import (
	"context"
	"fmt"

	"berth/client"
	"berth/op"
)

// jobPeriodicForceCommand launches a child of a periodic job outside its
// schedule.
func jobPeriodicForceCommand() *command {
	return &command{
		name: "job periodic force", args: "<job>", synopsis: "Launch a periodic job now", min: 1, max: 1,
		example: "job periodic force backup",
		help: `Launches a child of a periodic job immediately, even if the job prohibits overlap and another child is still running, and monitors
			its evaluation until the tasks have started. The regular schedule of the job is unaffected.

			The exit code is 0 on success, 2 if something could not be placed, and 1 on any other error.`,
		setup: func(f *flags) action {
			p := jobPeriodicForce{
				detach:  f.Bool("detach", "Print the evaluation ID and return without monitoring."),
				verbose: f.Bool("verbose", "Show IDs in full."),
			}
			return p.run
		},
	}
}

// jobPeriodicForce holds the flags of "job periodic force".
type jobPeriodicForce struct{ detach, verbose *bool }

// run launches the child and monitors it. It takes only the full ID of the job.
func (p jobPeriodicForce) run(ctx context.Context, c *call) error {
	j, exact, err := c.findJob(ctx, c.args[0])
	if err == nil && !exact {
		err = notWhole(c, &j)
	}
	if err != nil {
		return err
	}
	out, _, err := client.Call(ctx, c.client, op.Force, op.ForcePeriodic{JobID: string(j.ID), Write: op.Write{Namespace: j.Namespace}})
	if err != nil {
		return err
	}
	if *p.detach {
		_, err := fmt.Fprintf(c.Out, "Force periodic successful\nEvaluation ID: %s\n", short(out.EvalID.String(), *p.verbose))
		return err
	}
	return c.monitor(ctx, out.EvalID, monitorOptions{verbose: *p.verbose, settle: true, job: out.LaunchedJobID, namespace: j.Namespace})
}

package cli

import (
	"context"
	"fmt"

	"berth/client"
	"berth/op"
)

// jobEvalCommand creates an evaluation of a job that has not changed.
func jobEvalCommand() *command {
	return &command{
		name: "job eval", args: "<job>", synopsis: "Force an evaluation of a job", min: 1, max: 1,
		example: "job eval -force-reschedule web",
		help: `Creates an evaluation of a job, given by ID or prefix, and monitors it like "job run".

			Failed allocations are replaced according to the reschedule policy of their group: its delays and limits apply. With
			-force-reschedule they are replaced immediately, unless rescheduling is disabled for the group. Failed allocations of system and
			sysbatch jobs are always retried on their nodes.

			The exit code is 0 on success, 2 if something could not be placed, and 1 on any other error.`,
		setup: func(f *flags) action {
			e := jobEval{
				force:   f.Bool("force-reschedule", "Replace failed allocations immediately, ignoring limits and delays."),
				detach:  f.Bool("detach", "Print the evaluation ID and return without monitoring."),
				verbose: f.Bool("verbose", "Show IDs in full."),
			}
			return e.run
		},
	}
}

// jobEval holds the flags of "job eval".
type jobEval struct{ force, detach, verbose *bool }

// run creates the evaluation and monitors it unless -detach.
func (e *jobEval) run(ctx context.Context, c *call) error {
	j, _, err := c.findJob(ctx, c.args[0])
	if err != nil {
		return err
	}
	out, _, err := client.Call(ctx, c.client, op.Evaluate, op.EvaluateJob{
		JobID: string(j.ID), EvalOptions: op.EvalOptions{ForceReschedule: *e.force}, Write: op.Write{Namespace: j.Namespace},
	})
	if err != nil {
		return err
	}
	if *e.detach {
		_, err := fmt.Fprintf(c.Out, "Created eval ID: %q\n", short(out.EvalID.String(), *e.verbose))
		return err
	}
	return c.monitor(ctx, out.EvalID, monitorOptions{verbose: *e.verbose, settle: true, job: j.ID, namespace: j.Namespace})
}

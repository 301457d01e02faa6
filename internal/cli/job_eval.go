package cli

import (
	"context"
	"fmt"

	"berth/client"
	"berth/op"
)

func jobEvalCommand() *command {
	return &command{
		name: "job eval", args: "<job>", synopsis: "Have a job looked at again by its scheduler", min: 1, max: 1,
		help: `Raises an evaluation of a job, which is named by its ID or the beginning of it, and follows it as "job run" does.

What failed is replaced as the reschedule policy of its group has it: not before its time, and not more often than that
allows. With -force-reschedule it is replaced at once, unless the group has rescheduling switched off. Instances of
system and sysbatch jobs that failed are tried again on their nodes in any case.

The exit code is 0 if all went well, 2 if something found no place, and 1 for anything else.`,
		setup: func(f *flags) action {
			e := jobEval{
				force:   f.Bool("force-reschedule", "Replace what failed at once, whatever its attempts and delays."),
				detach:  f.Bool("detach", "Print the ID of the evaluation and follow nothing."),
				verbose: f.Bool("verbose", "Show IDs in full."),
			}
			return e.run
		},
	}
}

type jobEval struct{ force, detach, verbose *bool }

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

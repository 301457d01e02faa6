package cli

import (
	"context"
	"fmt"

	"berth"
	"berth/client"
	"berth/op"
)

// deploymentChange is what the commands that change a deployment share: find
// the deployment, change it, and monitor the evaluation.
type deploymentChange struct {
	detach, verbose *bool
	groups          *[]string
	// ask makes the change.
	ask  func(context.Context, *call, *berth.Deployment) (op.DeploymentUpdated, error)
	done string // the past participle for the output: "paused"
}

// run changes the deployment that the argument names.
func (x deploymentChange) run(ctx context.Context, c *call) error {
	d, err := c.findDeployment(ctx, c.args[0])
	if err != nil {
		return err
	}
	return x.change(ctx, c, d)
}

// change changes a deployment and monitors the evaluation, if the change
// created one. After a failure it does not wait for allocations to run: the
// rollout ends there.
func (x deploymentChange) change(ctx context.Context, c *call, d *berth.Deployment) error {
	out, err := x.ask(ctx, c, d)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.Out, "Deployment %q %s\n", short(d.ID.String(), *x.verbose), x.done)
	if out.RevertedJobVersion != nil {
		fmt.Fprintf(c.Out, "The job is being reverted to version %d\n", *out.RevertedJobVersion)
	}
	if out.EvalID.IsZero() {
		return nil
	}
	if *x.detach {
		_, err := fmt.Fprintf(c.Out, "Evaluation ID: %s\n", out.EvalID)
		return err
	}
	fmt.Fprintln(c.Out)
	return c.monitor(ctx, out.EvalID, monitorOptions{verbose: *x.verbose, settle: x.done != "failed", job: d.JobID, namespace: d.Namespace})
}

// detachHelp is the help of -detach where a command changes a deployment.
const detachHelp = "Print the evaluation ID and return without monitoring."

// deploymentFailCommand fails a deployment by hand, as a deadline would.
func deploymentFailCommand() *command {
	return &command{
		name: "deployment fail", args: "<deployment>", synopsis: "Fail a deployment", min: 1, max: 1,
		example: "deployment fail 3b6f1f2c",
		help: `Fails a deployment, given by ID or prefix: no more allocations are replaced, and its canaries are stopped. If one of its groups
			has auto_revert, the job is reverted to its latest stable version.`,
		setup: func(f *flags) action {
			x := deploymentChange{detach: f.Bool("detach", detachHelp), verbose: f.Bool("verbose", "Show IDs in full."), done: "failed"}
			x.ask = func(ctx context.Context, c *call, d *berth.Deployment) (op.DeploymentUpdated, error) {
				out, _, err := client.Call(ctx, c.client, op.Fail, op.FailDeployment{DeploymentID: d.ID.String()})
				return out, err
			}
			return x.run
		},
	}
}

// pausing returns the change of a deployment that pauses or resumes it.
func pausing(pause bool) func(context.Context, *call, *berth.Deployment) (op.DeploymentUpdated, error) {
	return func(ctx context.Context, c *call, d *berth.Deployment) (op.DeploymentUpdated, error) {
		out, _, err := client.Call(ctx, c.client, op.Pause, op.PauseDeployment{DeploymentID: d.ID.String(), Pause: pause})
		return out, err
	}
}

// deploymentPauseCommand keeps a deployment from placing more. It has no
// -detach.
func deploymentPauseCommand() *command {
	return &command{
		name: "deployment pause", args: "<deployment>", synopsis: "Pause a deployment", min: 1, max: 1,
		example: "deployment pause 3b6f1f2c",
		help: `Pauses a deployment, given by ID or prefix: it places nothing more until it is resumed. The pause does not count towards its
			progress deadline.`,
		setup: func(f *flags) action {
			x := deploymentChange{detach: new(bool), verbose: f.Bool("verbose", "Show IDs in full."), ask: pausing(true), done: "paused"}
			return x.run
		},
	}
}

// deploymentResumeCommand ends a pause. The deadline moves by its length.
func deploymentResumeCommand() *command {
	return &command{
		name: "deployment resume", args: "<deployment>", synopsis: "Resume a paused deployment", min: 1, max: 1,
		example: "deployment resume 3b6f1f2c",
		help:    "Resumes a paused deployment, given by ID or prefix, and monitors it.",
		setup: func(f *flags) action {
			x := deploymentChange{detach: f.Bool("detach", detachHelp), verbose: f.Bool("verbose", "Show IDs in full."), ask: pausing(false), done: "resumed"}
			return x.run
		},
	}
}

// promotion promotes the canaries of the given groups, or of all groups.
func promotion(f *flags) deploymentChange {
	x := deploymentChange{
		detach: f.Bool("detach", detachHelp), verbose: f.Bool("verbose", "Show IDs in full."),
		groups: f.List("group", "Promote only this `group`. Can be repeated."), done: "promoted",
	}
	x.ask = func(ctx context.Context, c *call, d *berth.Deployment) (op.DeploymentUpdated, error) {
		in := op.PromoteDeployment{DeploymentID: d.ID.String(), All: len(*x.groups) == 0, Groups: *x.groups}
		out, _, err := client.Call(ctx, c.client, op.Promote, in)
		return out, err
	}
	return x
}

// deploymentPromoteCommand promotes canaries of a deployment given by ID;
// jobPromoteCommand finds it by job.
func deploymentPromoteCommand() *command {
	return &command{
		name: "deployment promote", args: "<deployment>", synopsis: "Promote the canaries of a deployment", min: 1, max: 1,
		example: "deployment promote -group api 3b6f1f2c",
		help: `Promotes the canaries of a deployment, given by ID or prefix. The canaries become regular allocations, and the rest of their
			groups is updated, max_parallel at a time. All canaries of a group must be healthy.`,
		setup: func(f *flags) action { return promotion(f).run },
	}
}

// deploymentUnblockCommand exists because scripts may call it. The server
// refuses the request.
func deploymentUnblockCommand() *command {
	return &command{
		name: "deployment unblock", args: "<deployment>", synopsis: "Unblock a deployment that waits for other regions", min: 1, max: 1,
		example: "deployment unblock 3b6f1f2c",
		help: `Unblocks the deployment of a multiregion job, so that it does not wait for other regions. Multiregion jobs are not supported, so
			this always fails.`,
		setup: func(f *flags) action {
			x := deploymentChange{detach: f.Bool("detach", detachHelp), verbose: f.Bool("verbose", "Show IDs in full."), done: "unblocked"}
			x.ask = func(ctx context.Context, c *call, d *berth.Deployment) (op.DeploymentUpdated, error) {
				out, _, err := client.Call(ctx, c.client, op.Unblock, op.UnblockDeployment{DeploymentID: d.ID.String()})
				return out, err
			}
			return x.run
		},
	}
}

package cli

import (
	"context"
	"fmt"

	"berth"
	"berth/client"
	"berth/op"
)

// deploymentChange is what the commands that change a deployment have in
// common: a deployment is found, changed, and what follows is followed.
type deploymentChange struct {
	detach, verbose *bool
	groups          *[]string
	ask             func(context.Context, *call, *berth.Deployment) (op.DeploymentUpdated, error)
	done            string // what became of it
}

func (x deploymentChange) run(ctx context.Context, c *call) error {
	d, err := c.findDeployment(ctx, c.args[0])
	if err != nil {
		return err
	}
	return x.change(ctx, c, d)
}

func (x deploymentChange) change(ctx context.Context, c *call, d *berth.Deployment) error {
	out, err := x.ask(ctx, c, d)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.Out, "Deployment %q %s\n", short(d.ID.String(), *x.verbose), x.done)
	if out.RevertedJobVersion != nil {
		fmt.Fprintf(c.Out, "The job goes back to version %d\n", *out.RevertedJobVersion)
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

const detachHelp = "Print the ID of the evaluation and follow nothing."

func deploymentFailCommand() *command {
	return &command{
		name: "deployment fail", args: "<deployment>", synopsis: "Fail a deployment by hand", min: 1, max: 1,
		help: `Fails a deployment, which is named by its ID or the beginning of it: nothing more is replaced, and its canaries go. If a
group of it has auto_revert, the job goes back to the newest version that was stable.`,
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

func pausing(pause bool) func(context.Context, *call, *berth.Deployment) (op.DeploymentUpdated, error) {
	return func(ctx context.Context, c *call, d *berth.Deployment) (op.DeploymentUpdated, error) {
		out, _, err := client.Call(ctx, c.client, op.Pause, op.PauseDeployment{DeploymentID: d.ID.String(), Pause: pause})
		return out, err
	}
}

func deploymentPauseCommand() *command {
	return &command{
		name: "deployment pause", args: "<deployment>", synopsis: "Pause a deployment", min: 1, max: 1,
		help: `Pauses a deployment, which is named by its ID or the beginning of it: nothing new of it is placed until it is resumed. The
time of the pause does not count towards its progress deadline.`,
		setup: func(f *flags) action {
			x := deploymentChange{detach: new(bool), verbose: f.Bool("verbose", "Show IDs in full."), ask: pausing(true), done: "paused"}
			return x.run
		},
	}
}

func deploymentResumeCommand() *command {
	return &command{
		name: "deployment resume", args: "<deployment>", synopsis: "Let a paused deployment go on", min: 1, max: 1,
		help: `Lets a paused deployment, which is named by its ID or the beginning of it, go on, and follows it.`,
		setup: func(f *flags) action {
			x := deploymentChange{detach: f.Bool("detach", detachHelp), verbose: f.Bool("verbose", "Show IDs in full."), ask: pausing(false), done: "resumed"}
			return x.run
		},
	}
}

// promotion promotes the canaries of the groups that are named, or of all.
func promotion(f *flags) deploymentChange {
	x := deploymentChange{
		detach: f.Bool("detach", detachHelp), verbose: f.Bool("verbose", "Show IDs in full."),
		groups: f.List("group", "Promote this `group` alone; may be given many times."), done: "promoted",
	}
	x.ask = func(ctx context.Context, c *call, d *berth.Deployment) (op.DeploymentUpdated, error) {
		in := op.PromoteDeployment{DeploymentID: d.ID.String(), All: len(*x.groups) == 0, Groups: *x.groups}
		out, _, err := client.Call(ctx, c.client, op.Promote, in)
		return out, err
	}
	return x
}

func deploymentPromoteCommand() *command {
	return &command{
		name: "deployment promote", args: "<deployment>", synopsis: "Promote the canaries of a deployment", min: 1, max: 1,
		help: `Promotes the canaries of a deployment, which is named by its ID or the beginning of it: they take the names of what they ran
beside, and the rest of their groups follows, max_parallel at a time. All canaries of a group must be healthy.`,
		setup: func(f *flags) action { return promotion(f).run },
	}
}

func deploymentUnblockCommand() *command {
	return &command{
		name: "deployment unblock", args: "<deployment>", synopsis: "Let a deployment go on that waits for other regions", min: 1, max: 1,
		help: `Lets a deployment of a multiregion job go on without waiting for other regions. Such jobs are not built yet, so this is refused.`,
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

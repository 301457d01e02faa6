package cli

import (
	"context"
	"errors"
	"fmt"

	"berth"
	"berth/client"
	"berth/op"
)

func jobValidateCommand() *command {
	return &command{
		name: "job validate", args: "<path>", synopsis: "Check a job file without registering the job", min: 1, max: 1,
		help: `Reads a job file, "-" being standard input, and says all that is wrong with it, each with its place. A file that is
good here is then sent to a server, which checks it again as it would be checked if it were run.

The exit code is 0 if the job is valid, and 1 if it is not or if no server could be asked.`,
		setup: func(f *flags) action {
			file := f.jobFile()
			f.Unbuilt("vault-namespace")
			return func(ctx context.Context, c *call) error { return validateJob(ctx, c, file) }
		},
	}
}

func validateJob(ctx context.Context, c *call, file jobFileFlags) error {
	f, err := file.read(ctx, c, c.args[0])
	if err != nil {
		return err
	}
	out, _, err := client.Call(ctx, c.client, op.Validate, op.ValidateJob{Job: f.tree, Write: op.Write{Namespace: f.job.Namespace}})
	if _, away := errors.AsType[*client.Unreachable](err); away {
		return fmt.Errorf("the job file is good as far as can be told without a server, but %w", err)
	}
	if err != nil {
		return err
	}
	if out.Error != "" {
		return berth.Errorf(berth.Invalid, "the server refuses the job: %s", out.Error)
	}
	p := c.page()
	if out.Warnings != "" {
		p.linef("Job Warnings:")
		p.linef("%s", out.Warnings)
		p.gap()
	}
	p.linef("Job validation successful")
	return c.show(p)
}

package cli

import (
	"context"
	"errors"
	"fmt"

	"berth"
	"berth/client"
	"berth/op"
)

// jobValidateCommand checks a job file. It needs a server only for what the
// servers know, such as node pools.
func jobValidateCommand() *command {
	return &command{
		name: "job validate", args: "<path>", synopsis: "Check a job file without registering the job", min: 1, max: 1,
		example: "job validate web.nomad.hcl",
		help: `Reads a job file, or standard input with "-", and reports all errors in it with their positions. If there are none, a server
			checks the job as it would on registration.

			The exit code is 0 if the job is valid, and 1 if it is not or if no server can be reached.`,
		setup: func(f *flags) action {
			file := f.jobFile()
			f.Unsupported("vault-namespace")
			return func(ctx context.Context, c *call) error { return validateJob(ctx, c, file) }
		},
	}
}

// validateJob reads the file, which checks it locally, and then asks a server of the
// region that would run the job. An unreachable server is an error, since half of
// the checks are missing.
func validateJob(ctx context.Context, c *call, file jobFileFlags) error {
	f, err := file.read(ctx, c, c.args[0])
	if err != nil {
		return err
	}
	var out op.JobValidated
	if err = f.seek(ctx, c); err == nil {
		out, _, err = client.Call(ctx, c.client, op.Validate, op.ValidateJob{Job: f.tree, Write: op.Write{Namespace: f.job.Namespace}})
	}
	if _, away := errors.AsType[*client.Unreachable](err); away {
		return fmt.Errorf("the job file passes all local checks, but %w", err)
	}
	if err != nil {
		return err
	}
	if out.Error != "" {
		return berth.Errorf(berth.Invalid, "the server rejects the job: %s", out.Error)
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

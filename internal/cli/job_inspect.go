package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth"
	"berth/client"
	"berth/op"
)

// jobInspectCommand prints a job as it is stored, or as it was submitted.
func jobInspectCommand() *command {
	return &command{
		name: "job inspect", args: "<job>", synopsis: "Print the definition of a job", min: 1, max: 1,
		example: "job inspect -hcl web",
		help: `Prints a job as JSON as the servers store it, including defaults. With -hcl, prints the source that was submitted, if it is still
			stored.`,
		setup: func(f *flags) action {
			i := jobInspect{
				data:     f.data(),
				hcl:      f.Bool("hcl", "Print the submitted source."),
				withVars: f.Bool("with-vars", "With -hcl: include the variables that were submitted with it."),
				version:  f.String("version", "Print this `version` instead of the latest."),
			}
			return i.run
		},
	}
}

// jobInspect holds the flags of "job inspect".
type jobInspect struct {
	data          dataFlags
	hcl, withVars *bool
	version       *string
}

// run prints a version of the job as JSON, with -t, or as source. JSON has the
// job below the key Job, so that it can be submitted again.
func (i jobInspect) run(ctx context.Context, c *call) error {
	switch {
	case *i.hcl && i.data.wanted():
		return c.usagef("-hcl cannot be used with -json or -t")
	case *i.withVars && !*i.hcl:
		return c.usagef("-with-vars requires -hcl")
	}
	if err := i.data.check(c); err != nil {
		return err
	}
	version, err := versionNumber(c, "version", *i.version)
	if err != nil {
		return err
	}
	j, _, err := c.findJob(ctx, c.args[0])
	if err != nil {
		return err
	}
	// findJob has read the latest version.
	if version != nil && !*i.hcl {
		if j, _, err = client.Call(ctx, c.client, op.ReadJob, op.JobRef{JobID: string(j.ID), Version: version, Query: of(&j)}); err != nil {
			return err
		}
	}
	if !*i.hcl {
		if *i.data.template != "" {
			return i.data.write(c, j)
		}
		return c.json(struct{ Job op.Job }{j})
	}
	// The source is stored by version.
	if version == nil {
		version = &j.Version
	}
	return i.source(ctx, c, &j, *version)
}

// source prints the source that a version was submitted as.
func (i jobInspect) source(ctx context.Context, c *call, j *op.Job, version uint64) error {
	sub, _, err := client.Call(ctx, c.client, op.ReadSubmission, op.SubmissionQuery{JobID: string(j.ID), Version: &version, Query: of(j)})
	if err != nil {
		return err
	}
	if sub.Format == "json" {
		return berth.Errorf(berth.Invalid, "version %d of job %q was submitted as JSON: omit -hcl", version, j.ID)
	}
	var b strings.Builder
	// Variables are printed as comments, so that the output remains a job file.
	if *i.withVars {
		for _, name := range slices.Sorted(maps.Keys(sub.VariableFlags)) {
			fmt.Fprintf(&b, "# -var %s=%s\n", name, sub.VariableFlags[name])
		}
		for line := range strings.Lines(sub.Variables) {
			b.WriteString("# " + line)
		}
		if b.Len() > 0 {
			b.WriteString("\n\n")
		}
	}
	b.WriteString(sub.Source)
	_, err = fmt.Fprint(c.Out, clean(strings.TrimSuffix(b.String(), "\n"))+"\n")
	return err
}

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

func jobInspectCommand() *command {
	return &command{
		name: "job inspect", args: "<job>", synopsis: "Show a job as the servers have it", min: 1, max: 1,
		help: `Writes a job as JSON, as the servers have it: what its file leaves out is filled in. With -hcl it writes the text that the
job was made from, as far as that is kept.`,
		setup: func(f *flags) action {
			i := jobInspect{
				data:     f.data(),
				hcl:      f.Bool("hcl", "Write the text that the job was made from."),
				withVars: f.Bool("with-vars", "With -hcl: write the variables that were given with it, too."),
				version:  f.String("version", "Show this `version` instead of the newest."),
			}
			return i.run
		},
	}
}

type jobInspect struct {
	data          dataFlags
	hcl, withVars *bool
	version       *string
}

func (i jobInspect) run(ctx context.Context, c *call) error {
	switch {
	case *i.hcl && i.data.wanted():
		return c.usagef("-hcl cannot be given with -json or -t")
	case *i.withVars && !*i.hcl:
		return c.usagef("-with-vars is for -hcl")
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
	if version == nil {
		version = &j.Version
	}
	return i.source(ctx, c, &j, *version)
}

// source writes the text that a version was made from.
func (i jobInspect) source(ctx context.Context, c *call, j *op.Job, version uint64) error {
	sub, _, err := client.Call(ctx, c.client, op.ReadSubmission, op.SubmissionQuery{JobID: string(j.ID), Version: &version, Query: of(j)})
	if err != nil {
		return err
	}
	if sub.Format == "json" {
		return berth.Errorf(berth.Invalid, "version %d of job %q was made from JSON; leave out -hcl", version, j.ID)
	}
	var b strings.Builder
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

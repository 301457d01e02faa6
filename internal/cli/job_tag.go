package cli

import (
	"context"
	"fmt"

	"berth/client"
	"berth/op"
)

// jobTagApplyCommand names a version, so that it is kept and can be reverted to
// by name.
func jobTagApplyCommand() *command {
	return &command{
		name: "job tag apply", args: "<job>", synopsis: "Tag a version of a job, so that it is kept", min: 1, max: 1,
		example: "job tag apply -name golden web",
		help: `Tags a version of a job: the latest one, or the one given by -version. A tagged version is kept regardless of newer versions, and
			"job revert" accepts its tag. Applying a tag again replaces its description.`,
		setup: func(f *flags) action {
			t := jobTag{
				name:        f.String("name", "The `name` of the tag. Required."),
				description: f.String("description", "A `description` of the tag."),
				version:     f.String("version", "The `version` to tag. Defaults to the latest."),
			}
			return t.apply
		},
	}
}

// jobTagUnsetCommand removes a name. The version may be deleted with it.
func jobTagUnsetCommand() *command {
	return &command{
		name: "job tag unset", args: "<job>", synopsis: "Remove a tag from a version of a job", min: 1, max: 1,
		example: "job tag unset -name golden web",
		help:    "Removes a tag. The version that had it is deleted if it is not among the newest, which are always kept.",
		setup: func(f *flags) action {
			t := jobTag{name: f.String("name", "The `name` of the tag. Required.")}
			return t.unset
		},
	}
}

// jobTag holds the flags of "job tag"; unset has only name.
type jobTag struct{ name, description, version *string }

// apply tags a version, by default the latest that is registered now.
func (t jobTag) apply(ctx context.Context, c *call) error {
	version, err := versionNumber(c, "version", *t.version)
	if err != nil {
		return err
	}
	j, err := t.job(ctx, c)
	if err != nil {
		return err
	}
	number := j.Version
	if version != nil {
		number = *version
	}
	_, _, err = client.Call(ctx, c.client, op.TagVersion, op.TagJobVersion{
		JobID: string(j.ID), TagName: *t.name, Version: number, Description: *t.description, Write: op.Write{Namespace: j.Namespace},
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.Out, "Job version %d tagged with name \"%s\"\n", number, clean(*t.name))
	return err
}

// unset removes the tag from the version that has it.
func (t jobTag) unset(ctx context.Context, c *call) error {
	j, err := t.job(ctx, c)
	if err != nil {
		return err
	}
	_, _, err = client.Call(ctx, c.client, op.UntagVersion, op.UntagJobVersion{
		JobID: string(j.ID), TagName: *t.name, Write: op.Write{Namespace: j.Namespace},
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.Out, "JobTag \"%s\" removed from job \"%s\"\n", clean(*t.name), clean(string(j.ID)))
	return err
}

// job returns the job in the argument, which must be its full ID, and checks
// that a tag was given.
func (t jobTag) job(ctx context.Context, c *call) (j op.Job, err error) {
	if *t.name == "" {
		return j, c.usagef("-name is required")
	}
	j, exact, err := c.findJob(ctx, c.args[0])
	if err == nil && !exact {
		err = notWhole(c, &j)
	}
	return j, err
}

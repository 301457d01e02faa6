package cli

import (
	"context"
	"os"

	"berth"
	"berth/client"
	"berth/internal/diff"
	"berth/op"
)

// jobDiffCommand compares two jobs: versions, files, or one of each.
func jobDiffCommand() *command {
	return &command{
		name: "job diff", args: "<job|file> <version|tag|file>", synopsis: "Compare two versions of a job, or job files", min: 1, max: 2,
		example: "job diff web.nomad.hcl web-new.nomad.hcl",
		help: `Shows what differs between two jobs. Each side is a job file if such a file exists. Otherwise the first argument is the ID of a job,
			and the second one the number or tag of one of its versions. With one argument, a file is compared with the registered job of its
			name, and a job with its version before.

			The exit code is 0 if nothing differs, 1 if something does, and 255 on error.`,
		failure: exitNoPlan,
		setup: func(f *flags) action {
			d := jobCompare{file: f.jobFile(), verbose: f.Bool("verbose", "Show added and removed objects in full.")}
			return d.run
		},
	}
}

// jobCompare holds the flags of "job diff".
type jobCompare struct {
	file    jobFileFlags
	verbose *bool
}

// run compares the two sides.
func (d jobCompare) run(ctx context.Context, c *call) error {
	old, now, err := d.sides(ctx, c)
	if err != nil {
		return err
	}
	found := diff.Jobs(old, now)
	if found.Type == diff.None {
		p := c.page()
		p.linef("No differences")
		return c.show(p)
	}
	p := c.page()
	for _, line := range diffLines(found, *d.verbose) {
		p.linef("%s", line)
	}
	if err := c.show(p); err != nil {
		return err
	}
	return exit(exitChanges)
}

// isFile reports whether an argument names a file that exists.
func isFile(c *call, arg string) bool {
	info, err := os.Stat(c.path(arg))
	return arg == "-" || err == nil && !info.IsDir()
}

// sides returns the jobs to compare, the older one first.
func (d jobCompare) sides(ctx context.Context, c *call) (old, now *berth.Job, err error) {
	first := c.args[0]
	if isFile(c, first) {
		f, err := d.file.read(ctx, c, first)
		if err != nil {
			return nil, nil, err
		}
		if len(c.args) == 2 && isFile(c, c.args[1]) {
			g, err := d.file.read(ctx, c, c.args[1])
			if err != nil {
				return nil, nil, err
			}
			return f.job, g.job, nil
		}
		// A file is newer than what is registered.
		q := op.JobRef{JobID: string(f.job.ID), Query: op.Query{Namespace: f.job.Namespace}}
		if len(c.args) == 2 {
			j, _, err := client.Call(ctx, c.client, op.ReadJob, q)
			if err != nil {
				return nil, nil, err
			}
			n, err := c.versionOf(ctx, &j, c.args[1])
			if err != nil {
				return nil, nil, err
			}
			q.Version = &n
		}
		j, _, err := client.Call(ctx, c.client, op.ReadJob, q)
		if err != nil {
			return nil, nil, err
		}
		return j.Job, f.job, nil
	}
	j, _, err := c.findJob(ctx, first)
	if err != nil {
		return nil, nil, err
	}
	if len(c.args) == 2 && isFile(c, c.args[1]) {
		f, err := d.file.read(ctx, c, c.args[1])
		if err != nil {
			return nil, nil, err
		}
		return j.Job, f.job, nil
	}
	version := j.Version - 1
	switch {
	case len(c.args) == 2:
		version, err = c.versionOf(ctx, &j, c.args[1])
	case j.Version == 0:
		err = berth.Errorf(berth.Invalid, "job %q has one version: give a file or a version to compare it with", j.ID)
	}
	if err != nil {
		return nil, nil, err
	}
	before, _, err := client.Call(ctx, c.client, op.ReadJob, op.JobRef{JobID: string(j.ID), Version: &version, Query: of(&j)})
	if err != nil {
		return nil, nil, err
	}
	return before.Job, j.Job, nil
}

package cli

import (
	"context"
	"strconv"
	"strings"

	"berth/client"
	"berth/op"
)

// streamRegionCommand shows a parallel region or changes its width.
func streamRegionCommand() *command {
	return &command{
		name: "stream region", args: "<job> <region> [width]", synopsis: "Show or change the width of a parallel region", min: 2, max: 3,
		example: "stream region wordcount count 4",
		help: `Shows a parallel region: its groups, its requested width and its planned width. With a width, changes it, which creates a new
			version of the job, and monitors the submission. Channels that stay keep their processing elements, but those whose neighbors
			change are relaunched.

			If another change is in progress, this one waits for it. Of several waiting changes, the last one wins.`,
		setup: func(f *flags) action {
			s := streamRegion{
				data:    f.data(),
				detach:  f.Bool("detach", "Return without monitoring."),
				verbose: f.Bool("verbose", "Show IDs in full."),
				index:   f.Uint64("check-index", 0, "Change the width only if the job's modify `index` is this. 0 is any."),
			}
			return s.run
		},
	}
}

// streamRegion holds the flags of "stream region".
type streamRegion struct {
	data            dataFlags
	detach, verbose *bool
	index           *uint64
}

// run changes the width if one was given, and otherwise prints the region.
func (s streamRegion) run(ctx context.Context, c *call) error {
	if err := s.data.check(c); err != nil {
		return err
	}
	j, err := c.findStreamJob(ctx, c.args[0])
	if err != nil {
		return err
	}
	if len(c.args) == 3 {
		width, err := strconv.Atoi(c.args[2])
		if err != nil {
			return c.usagef("the width must be an integer, got %q, usage: %s", c.args[2], c.command.usage(c.Name))
		}
		return c.widen(ctx, &j, op.SetRegion{Region: c.args[1], Width: width, JobModifyIndex: *s.index}, *s.detach, *s.verbose)
	}
	v, _, err := client.Call(ctx, c.client, op.ReadRegion, op.RegionRef{JobID: string(j.ID), Region: c.args[1], Query: of(&j)})
	switch {
	case err != nil:
		return err
	case s.data.wanted():
		return s.data.write(c, v)
	}
	// The planned width differs from the requested one while a change waits.
	planned := none
	if v.Planned > 0 {
		planned = strconv.Itoa(v.Planned)
	}
	p := c.page()
	p.pairs("Job", string(v.JobID), "Region", v.Name, "UID", or(v.UID, none), "Groups", strings.Join(v.Groups, ","),
		"Width", strconv.Itoa(v.Width), "Planned", planned, "Generation", strconv.FormatUint(v.Generation, 10))
	return c.show(p)
}

// widen changes the width of a parallel region, provided that the job is still
// the one that was read, and monitors the submission.
func (c *call) widen(ctx context.Context, j *op.Job, in op.SetRegion, detach, verbose bool) error {
	in.JobID, in.UID, in.Write = string(j.ID), j.UID, op.Write{Namespace: j.Namespace}
	out, _, err := client.Call(ctx, c.client, op.WriteRegion, in)
	if err != nil {
		return err
	}
	if detach {
		p := c.page()
		p.linef("Parallel region %q of job %q changes to width %d with version %d of the job", in.Region, j.ID, out.Width, out.JobVersion)
		return c.show(p)
	}
	return c.monitorSubmission(ctx, j.ID, j.Namespace, verbose)
}

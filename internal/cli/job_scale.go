package cli

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"berth"
	"berth/client"
	"berth/op"
)

// jobScaleCommand changes the count of a group, or the width of a parallel
// region.
func jobScaleCommand() *command {
	return &command{
		name: "job scale", args: "<job> [group] <count>", synopsis: "Change the count of a job's group", min: 2, max: 3,
		example: "job scale web api 5",
		help: `Changes the count of a group, which creates a new version of the job, and monitors the evaluation until its allocations run. The
			group can be omitted if the job has only one. The count must be within the limits of the group's scaling block. For a stream job,
			name a parallel region instead of a group: its width is changed.`,
		setup: func(f *flags) action {
			s := jobScale{
				detach:  f.Bool("detach", "Print the evaluation ID and return without monitoring."),
				verbose: f.Bool("verbose", "Show IDs in full."),
				index:   f.Uint64("check-index", 0, "Scale only if the job's modify `index` is this. 0 is any."),
			}
			return s.run
		},
	}
}

// jobScale holds the flags of "job scale".
type jobScale struct {
	detach, verbose *bool
	index           *uint64
}

// run scales and monitors. The count is the last argument, and the group may
// stand before it. Limits are checked by the server.
func (s jobScale) run(ctx context.Context, c *call) error {
	text := c.args[len(c.args)-1]
	count, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return c.usagef("the count must be an integer, got %q, usage: %s", text, c.command.usage(c.Name))
	}
	if count < 0 {
		return c.usagef("the count must be at least 0, got %d, usage: %s", count, c.command.usage(c.Name))
	}
	j, exact, err := c.findJob(ctx, c.args[0])
	if err == nil && !exact {
		err = notWhole(c, &j)
	}
	if err != nil {
		return err
	}
	// Groups of a stream job have no count of their own: regions have a width.
	if j.Type == berth.TypeStream {
		return s.region(ctx, c, &j, int(count))
	}
	group, err := s.group(c, &j)
	if err != nil {
		return err
	}
	out, _, err := client.Call(ctx, c.client, op.Scale, op.ScaleJob{
		JobID: string(j.ID), Count: &count, Target: map[string]string{berth.TargetGroup: group, berth.TargetJob: string(j.ID)},
		Message: "submitted using the " + c.Name + " CLI", JobModifyIndex: *s.index, Write: op.Write{Namespace: j.Namespace},
	})
	if err != nil {
		return err
	}
	return c.raised(ctx, &j, out.EvalID, *s.detach, *s.verbose)
}

// region changes the width of a parallel region: the given one, the one of the
// given group, or the only one.
func (s jobScale) region(ctx context.Context, c *call, j *op.Job, width int) error {
	var names []string
	var name string
	for _, r := range j.Stream.Regions {
		names = append(names, r.Name)
		if len(c.args) == 3 && (r.Name == c.args[1] || name == "" && slices.Contains(r.Groups, c.args[1])) {
			name = r.Name
		}
	}
	switch {
	// A region or group of that name was found.
	case name != "":
	case len(c.args) == 3:
		return berth.Errorf(berth.Invalid, "job %q has no parallel region %q; it has: %s", j.ID, c.args[1], or(strings.Join(names, ", "), "none"))
	case len(names) != 1:
		return berth.Errorf(berth.Invalid, "job %q has %d parallel regions: choose one of %s", j.ID, len(names), or(strings.Join(names, ", "), "none"))
	default:
		name = names[0]
	}
	return c.widen(ctx, j, op.SetRegion{Region: name, Width: width, JobModifyIndex: *s.index}, *s.detach, *s.verbose)
}

// group is the given group, or the only one.
func (s jobScale) group(c *call, j *op.Job) (string, error) {
	if len(c.args) == 3 {
		return c.args[1], nil
	}
	if len(j.TaskGroups) == 1 {
		return j.TaskGroups[0].Name, nil
	}
	var names []string
	for _, g := range j.TaskGroups {
		names = append(names, g.Name)
	}
	return "", berth.Errorf(berth.Invalid, "job %q has %d groups: choose one of %s", j.ID, len(names), strings.Join(names, ", "))
}

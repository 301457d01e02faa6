package cli

import (
	"context"
	"fmt"
	"strings"

	"berth"
)

func statusCommand() *command {
	return &command{
		name: "status", args: "[id]", synopsis: "Show the object with the given ID", max: 1,
		example: "status 0af996ed",
		help: `Finds the evaluation, allocation, node, job or deployment with the given ID or prefix and shows it like the "status" command of
			its kind. Without an argument, lists all jobs.`,
		setup: func(f *flags) action {
			verbose := f.Bool("verbose", "Show full IDs and absolute times.")
			f.UnsupportedBool("ui")
			return func(ctx context.Context, c *call) error { return anyStatus(ctx, c, *verbose) }
		},
	}
}

// kind is a kind of object that an ID can name.
type kind struct {
	heading string
	command *command
	ids     func(ctx context.Context, c *call, prefix string) ([]string, error)
}

func kinds() []kind {
	return []kind{
		{"Evaluations", evalStatusCommand(), evalIDs},
		{"Allocations", allocStatusCommand(), allocIDs},
		{"Nodes", nodeStatusCommand(), nodeIDs},
		{"Jobs", jobStatusCommand(), jobIDs},
		{"Deployments", deploymentStatusCommand(), deploymentIDs},
	}
}

func anyStatus(ctx context.Context, c *call, verbose bool) error {
	if len(c.args) == 0 {
		return c.as(ctx, jobStatusCommand(), "", verbose)
	}
	text := c.args[0]
	var list strings.Builder
	var only kind
	var match string
	count := 0
	for _, k := range kinds() {
		ids, err := k.ids(ctx, c, text)
		if err != nil {
			return err
		}
		for _, id := range ids {
			if id == text { // a full ID is unambiguous
				return c.as(ctx, k.command, id, verbose)
			}
		}
		if len(ids) > 0 {
			fmt.Fprintf(&list, "\n\n%s:\n%s", k.heading, strings.Join(ids[:min(len(ids), candidates)], ", "))
			only, match = k, ids[0]
		}
		count += len(ids)
	}
	switch count {
	case 0:
		return berth.Errorf(berth.NotFound, "Nothing with ID or prefix %q found: no job in %s, no allocation, node, evaluation or deployment", text, spaceName(c.config.space()))
	case 1:
		return c.as(ctx, only.command, match, verbose)
	}
	return berth.Errorf(berth.Invalid, "Multiple matches found for id %q%s", text, list.String())
}

// as runs another command on an ID, with the same agent.
func (c *call) as(ctx context.Context, cmd *command, id string, verbose bool) error {
	f := newFlags()
	do := cmd.setup(f)
	if verbose {
		if err := f.Set("verbose", "true"); err != nil {
			return err
		}
	}
	other := *c
	other.command, other.flags, other.args = cmd, f, nil
	if id != "" {
		other.args = []string{id}
	}
	return do(ctx, &other)
}

func jobIDs(ctx context.Context, c *call, prefix string) (out []string, err error) {
	list, err := c.jobsWith(ctx, prefix)
	for _, j := range list {
		out = append(out, string(j.ID))
	}
	return out, err
}

// hexIDs reports whether a prefix can begin a hexadecimal ID.
func hexIDs(prefix string) bool {
	_, err := berth.ParseIDPrefix(prefix)
	return err == nil
}

func allocIDs(ctx context.Context, c *call, prefix string) (out []string, err error) {
	if !hexIDs(prefix) {
		return nil, nil
	}
	list, err := c.allocsWith(ctx, prefix)
	for _, a := range list {
		out = append(out, a.ID.String())
	}
	return out, err
}

func nodeIDs(ctx context.Context, c *call, prefix string) (out []string, err error) {
	list, err := c.nodesWith(ctx, prefix)
	for _, n := range list {
		out = append(out, n.ID.String())
	}
	return out, err
}

func evalIDs(ctx context.Context, c *call, prefix string) (out []string, err error) {
	if !hexIDs(prefix) {
		return nil, nil
	}
	list, err := c.evalsWith(ctx, prefix)
	for _, e := range list {
		out = append(out, e.ID.String())
	}
	return out, err
}

func deploymentIDs(ctx context.Context, c *call, prefix string) (out []string, err error) {
	if !hexIDs(prefix) {
		return nil, nil
	}
	list, err := c.deploymentsWith(ctx, prefix)
	for _, d := range list {
		out = append(out, d.ID.String())
	}
	return out, err
}

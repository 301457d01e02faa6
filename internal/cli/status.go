package cli

import (
	"context"
	"fmt"
	"strings"

	"berth"
)

// statusCommand shows any object by its ID.
func statusCommand() *command {
	return &command{
		name: "status", args: "[id]", synopsis: "Show the object with the given ID", max: 1,
		example: "status 0af996ed",
		help: `Finds the evaluation, allocation, node, job or deployment with the given ID or prefix and shows it like the "status" command of
			its kind. Without an argument, lists all jobs.`,
		setup: func(f *flags) action {
			verbose := f.Bool("verbose", "Show full IDs and absolute times.")
			f.webFlag()
			return func(ctx context.Context, c *call) error { return anyStatus(ctx, c, *verbose) }
		},
	}
}

// kind is a kind of object that an ID can name.
type kind struct {
	heading string
	command *command
	ids     func(ctx context.Context, c *call, prefix string) ([]string, error)
	page    func(c *call, id string) string // in the web UI
}

// kinds returns the kinds of objects in the order in which matches are listed.
func kinds() []kind {
	at := func(kind string) func(*call, string) string {
		return func(_ *call, id string) string { return uiPage(kind, id) }
	}
	job := func(c *call, id string) string { return uiJob(c.config.space(), berth.JobID(id)) }
	return []kind{
		{"Evaluations", evalStatusCommand(), evalIDs, at("eval")},
		{"Allocations", allocStatusCommand(), allocIDs, at("alloc")},
		{"Nodes", nodeStatusCommand(), nodeIDs, at("node")},
		{"Jobs", jobStatusCommand(), jobIDs, job},
		{"Deployments", deploymentStatusCommand(), deploymentIDs, at("deployment")},
	}
}

// anyStatus shows the object with an ID or prefix with the command of its kind.
func anyStatus(ctx context.Context, c *call, verbose bool) error {
	if len(c.args) == 0 {
		return c.as(ctx, jobStatusCommand(), "", verbose)
	}
	k, id, err := anyObject(ctx, c, c.args[0])
	if err != nil {
		return err
	}
	return c.as(ctx, k.command, id, verbose)
}

// anyObject looks for an ID or prefix among all kinds. Several matches are an
// error that lists them.
func anyObject(ctx context.Context, c *call, text string) (kind, string, error) {
	// All kinds are searched even after a match: a prefix must be unique among
	// all of them.
	var list strings.Builder
	var only kind
	var match string
	count := 0
	for _, k := range kinds() {
		ids, err := k.ids(ctx, c, text)
		if err != nil {
			return kind{}, "", err
		}
		for _, id := range ids {
			if id == text { // a full ID is unambiguous
				return k, id, nil
			}
		}
		// The list is only needed if the match turns out to be ambiguous.
		if len(ids) > 0 {
			fmt.Fprintf(&list, "\n\n%s:\n%s", k.heading, strings.Join(ids[:min(len(ids), candidates)], ", "))
			only, match = k, ids[0]
		}
		count += len(ids)
	}
	switch count {
	case 0:
		return kind{}, "", berth.Errorf(berth.NotFound, "Nothing with ID or prefix %q found: no job in %s, no allocation, node, evaluation or deployment", text, spaceName(c.config.space()))
	case 1:
		return only, match, nil
	}
	return kind{}, "", berth.Errorf(berth.Invalid, "Multiple matches found for id %q%s", text, list.String())
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
	if c.flags.web != nil && *c.flags.web {
		if err := f.Set("ui", "true"); err != nil {
			return err
		}
	}
	// The copy shares the connection and the configuration of this call.
	other := *c
	other.command, other.flags, other.args = cmd, f, nil
	if id != "" {
		other.args = []string{id}
	}
	return do(ctx, &other)
}

// jobIDs returns the IDs of jobs that begin with prefix.
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

// allocIDs returns the IDs of allocations that begin with prefix. Unlike a
// command for allocations, it accepts text that cannot be an ID: it may name a
// job.
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

// nodeIDs returns the IDs of nodes that begin with prefix. It ignores names.
func nodeIDs(ctx context.Context, c *call, prefix string) (out []string, err error) {
	list, err := c.nodesWith(ctx, prefix)
	for _, n := range list {
		out = append(out, n.ID.String())
	}
	return out, err
}

// evalIDs returns the IDs of evaluations that begin with prefix, like allocIDs.
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

// deploymentIDs returns the IDs of deployments that begin with prefix, like
// allocIDs.
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

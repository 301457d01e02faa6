package cli

import (
	"context"
	"fmt"
	"slices"

	"berth"
	"berth/client"
	"berth/op"
)

// jobTreeCommand shows the ownership of objects by UID, which the other
// commands hide.
func jobTreeCommand() *command {
	return &command{
		name: "job tree", args: "<job>", synopsis: "Show what a job owns and what blocks its deletion", min: 1, max: 1,
		example: "job tree web",
		help: `Shows a job, given by ID or prefix, with its running allocations and the UIDs of all. For a stream job, it shows all its objects,
			and the allocations below their processing elements. A UID identifies one object forever, while IDs and names can be reused.

			For a job that is being deleted, it shows which allocations must end first. Allocations of an earlier job with the same ID stand
			below: those about to be stopped, and orphans, which keep running. They are shown for a deleted job too, if its full ID is given.`,
		setup: func(f *flags) action {
			t := jobTree{data: f.data(), verbose: f.Bool("verbose", "Show IDs in full.")}
			return t.run
		},
	}
}

// jobTree holds the flags of "job tree".
type jobTree struct {
	data    dataFlags
	verbose *bool
}

// run prints the tree. A job that is gone may have left allocations, so it is
// not an error until nothing is found.
func (t jobTree) run(ctx context.Context, c *call) error {
	if err := t.data.check(c); err != nil {
		return err
	}
	id, space := c.args[0], c.config.space()
	j, _, missing := c.findJob(ctx, id)
	switch {
	case missing == nil:
		id, space = string(j.ID), j.Namespace
	case berth.KindOf(missing) != berth.NotFound:
		return missing
	}
	list, _, err := client.Call(ctx, c.client, op.ListResources, op.ResourcesQuery{Job: id, Query: op.Query{Namespace: space}})
	switch {
	case err != nil:
		return err
	case len(list) == 0 && missing != nil:
		return missing
	case t.data.wanted():
		return t.data.write(c, list)
	}
	p := c.page()
	for _, r := range list {
		if r.Kind == berth.KindJob {
			t.job(p, &r, list)
		}
	}
	t.left(p, "Left over, about to be stopped", list, func(r *op.Resource) bool { return !r.Orphaned && !ownedBy(r, list) })
	t.left(p, "Orphaned", list, func(r *op.Resource) bool { return r.Orphaned })
	return c.show(p)
}

// job shows a job and what it owns.
func (t jobTree) job(p *page, j *op.Resource, list []op.Resource) {
	p.gap()
	status := resourceStatus(j)
	if j.Phase != "" {
		status = fmt.Sprintf("generation %d, %s", j.Generation, status)
	}
	p.linef("Job %s  %s  %s", j.Name, j.UID, status)
	t.below(p, j, list, "", j.Deletion != nil)
}

// below shows what an object owns, recursively.
func (t jobTree) below(p *page, owner *op.Resource, list []op.Resource, indent string, deleting bool) {
	// The list is small enough to be searched at each level.
	owned := slices.DeleteFunc(slices.Clone(list), func(r op.Resource) bool { return !owns(owner, &r) })
	for i := range owned {
		r := &owned[i]
		branch, next := "├─", "│  "
		if i == len(owned)-1 {
			branch, next = "└─", "   "
		}
		holds := ""
		if deleting {
			holds = ", blocks deletion"
		}
		p.linef("%s%s %s%s", indent, branch, t.line(r), holds)
		t.below(p, r, list, indent+next, deleting)
	}
}

// line describes one owned object.
func (t jobTree) line(r *op.Resource) string {
	if r.Kind == berth.KindAlloc {
		of := "version" // of its job
		if r.LaunchCount > 0 {
			of = "generation"
		}
		return fmt.Sprintf("Allocation %s  %s  %s  %s %d, %s", short(r.ID, *t.verbose), r.UID, r.Name, of, r.Generation, resourceStatus(r))
	}
	s := fmt.Sprintf("%s %s  %s  generation %d", r.Kind, r.Name, r.UID, r.Generation)
	if status := resourceStatus(r); status != "" {
		s += ", " + status
	}
	return s
}

// left shows what no job of the list owns.
func (t jobTree) left(p *page, heading string, list []op.Resource, which func(*op.Resource) bool) {
	rows := [][]string{{"Allocation", "UID", "Name", "Version", "Status"}}
	others := [][]string{{"Kind", "UID", "Name", "Generation", "Status"}}
	for _, r := range list {
		switch {
		case r.Kind == berth.KindJob || !which(&r):
		case r.Kind == berth.KindAlloc:
			rows = append(rows, []string{short(r.ID, *t.verbose), r.UID, r.Name, fmt.Sprint(r.Generation), r.Status})
		default:
			others = append(others, []string{r.Kind, r.UID, r.Name, fmt.Sprint(r.Generation), or(resourceStatus(&r), none)})
		}
	}
	for _, table := range [][][]string{others, rows} {
		if len(table) > 1 {
			p.heading(heading)
			p.table(table)
		}
	}
}

// owns reports whether owner owns r.
func owns(owner, r *op.Resource) bool {
	return slices.ContainsFunc(r.OwnerRefs, func(o berth.OwnerRef) bool { return o.UID == owner.UID })
}

// ownedBy reports whether a job of the list owns r, directly or not.
func ownedBy(r *op.Resource, list []op.Resource) bool {
	return slices.ContainsFunc(list, func(o op.Resource) bool {
		return owns(&o, r) && (o.Kind == berth.KindJob || !o.Orphaned && ownedBy(&o, list))
	})
}

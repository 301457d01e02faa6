package cli

import (
	"context"
	"fmt"
	"slices"

	"berth"
	"berth/client"
	"berth/op"
)

func jobTreeCommand() *command {
	return &command{
		name: "job tree", args: "<job>", synopsis: "Show what a job owns, and what holds it while it is deleted", min: 1, max: 1,
		help: `Shows a job, named by its ID or the beginning of it, with the allocations that it owns and that have not ended, and the UIDs
of all. Of a stream job it shows all that the job consists of, and the allocations below their processing elements. A UID names one object for ever, where an ID or a name can be given again.

Of a job that is being deleted it shows which allocations must end before it goes. Allocations of an earlier job of the
same ID stand below it: those that are about to be stopped, and those that were left to themselves and run on. They are
shown of a job that is gone, too, if its ID is given in full.`,
		setup: func(f *flags) action {
			t := jobTree{data: f.data(), verbose: f.Bool("verbose", "Show IDs in full.")}
			return t.run
		},
	}
}

type jobTree struct {
	data    dataFlags
	verbose *bool
}

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
	t.left(p, "Left behind, and about to be stopped", list, func(r *op.Resource) bool { return !r.Orphaned && !ownedBy(r, list) })
	t.left(p, "Left to themselves", list, func(r *op.Resource) bool { return r.Orphaned })
	return c.show(p)
}

// job shows a job and below it what it owns.
func (t jobTree) job(p *page, j *op.Resource, list []op.Resource) {
	p.gap()
	status := resourceStatus(j)
	if j.Phase != "" {
		status = fmt.Sprintf("generation %d, %s", j.Generation, status)
	}
	p.linef("Job %s  %s  %s", j.Name, j.UID, status)
	t.below(p, j, list, "", j.Deletion != nil)
}

// below shows what an object owns, and below that what those own.
func (t jobTree) below(p *page, owner *op.Resource, list []op.Resource, indent string, deleting bool) {
	owned := slices.DeleteFunc(slices.Clone(list), func(r op.Resource) bool { return !owns(owner, &r) })
	for i := range owned {
		r := &owned[i]
		branch, next := "├─", "│  "
		if i == len(owned)-1 {
			branch, next = "└─", "   "
		}
		holds := ""
		if deleting {
			holds = ", holds the job"
		}
		p.linef("%s%s %s%s", indent, branch, t.line(r), holds)
		t.below(p, r, list, indent+next, deleting)
	}
}

// line is one object that is owned.
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

// owns says whether an object has an owner of that UID.
func owns(owner, r *op.Resource) bool {
	return slices.ContainsFunc(r.OwnerRefs, func(o berth.OwnerRef) bool { return o.UID == owner.UID })
}

func ownedBy(r *op.Resource, list []op.Resource) bool {
	return slices.ContainsFunc(list, func(o op.Resource) bool {
		return (o.Kind == berth.KindJob || !o.Orphaned && ownedBy(&o, list)) && owns(&o, r)
	})
}

package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

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
		help: `Shows a job, given by ID or prefix, with its newest deployments, its running allocations and the UIDs of all. For a stream job, it shows all its objects,
			and the allocations below their processing elements. A UID identifies one object forever, while IDs and names can be reused.

			Five or more objects that differ only in their numbers are one line, with their count; at most 1,000 lines are shown. -all shows
			everything. The jobs that a periodic or parameterized job launched are shown below it. A deletion in the foreground deletes them, too, and waits for them.

			For a job that is being deleted, it shows which allocations must end first. Allocations of an earlier job with the same ID stand
			below: those about to be stopped, and orphans, which keep running. They are shown for a deleted job too, if its full ID is given.`,
		setup: func(f *flags) action {
			t := &jobTree{data: f.data(), verbose: f.Bool("verbose", "Show IDs in full."), all: f.Bool("all", "Show each object on a line of its own.")}
			return t.run
		},
	}
}

// jobTree holds the flags of "job tree".
type jobTree struct {
	data    dataFlags
	verbose *bool
	all     *bool

	byUID  map[string]*op.Resource
	owned  map[string][]*op.Resource // by the UID of their owner, in the order of the list
	shapes map[string]string         // by UID
	lines  int
	// deployments are those of the job, the newest first.
	deployments []*berth.Deployment
}

// mostTreeDeployments is how many deployments of a job are shown unless all are
// asked for.
const mostTreeDeployments = 5

// index prepares the tree of a list, so that each object is looked at once.
func (t *jobTree) index(list []op.Resource) {
	t.byUID, t.owned, t.shapes = map[string]*op.Resource{}, map[string][]*op.Resource{}, map[string]string{}
	for i := range list {
		r := &list[i]
		t.byUID[r.UID] = r
		for _, o := range r.OwnerRefs {
			t.owned[o.UID] = append(t.owned[o.UID], r)
		}
	}
}

// run prints the tree. A job that is gone may have left allocations, so it is
// not an error until nothing is found.
func (t *jobTree) run(ctx context.Context, c *call) error {
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
	if missing == nil {
		t.deployments, _, err = client.Call(ctx, c.client, op.JobDeployments, op.JobDeploymentsQuery{JobID: id, Query: op.Query{Namespace: space}})
		if err != nil {
			return err
		}
		slices.SortFunc(t.deployments, func(a, b *berth.Deployment) int { return cmp.Compare(b.CreateIndex, a.CreateIndex) })
	}
	p := c.page()
	t.index(list)
	for i := range list {
		if r := &list[i]; r.Kind == berth.KindJob && !t.attached(r) {
			t.job(p, r)
		}
	}
	if more := t.lines - mostTreeLines; more > 0 && !*t.all {
		p.linef("… and %d more lines: see -all", more)
	}
	t.left(p, "Left over, about to be stopped", list, func(r *op.Resource) bool { return !r.Orphaned && !t.attached(r) })
	t.left(p, "Orphaned", list, func(r *op.Resource) bool { return r.Orphaned })
	return c.show(p)
}

// job shows a job and what it owns.
func (t *jobTree) job(p *page, j *op.Resource) {
	p.gap()
	status := resourceStatus(j)
	if j.Phase != "" {
		status = fmt.Sprintf("generation %d, %s", j.Generation, status)
	}
	p.linef("Job %s  %s  %s", j.Name, j.UID, status)
	t.rollouts(p, j)
	t.below(p, j, "", j.Deletion != nil, false)
}

// rollouts shows the deployments of a job, the newest first. They hold nothing.
func (t *jobTree) rollouts(p *page, j *op.Resource) {
	own := slices.DeleteFunc(slices.Clone(t.deployments), func(d *berth.Deployment) bool {
		return string(d.JobID) != j.Name || d.JobCreateIndex != j.CreateIndex
	})
	shown := own
	if len(own) > mostTreeDeployments && !*t.all {
		shown = own[:mostTreeDeployments]
	}
	for i, d := range shown {
		branch := "├─"
		if i == len(own)-1 && len(t.owned[j.UID]) == 0 {
			branch = "└─"
		}
		p.linef("%s Deployment %s  version %d, %s", branch, short(d.ID.String(), *t.verbose), d.JobVersion, d.Status)
	}
	if more := len(own) - len(shown); more > 0 {
		p.linef("├─ and %s", plural(more, "older deployment"))
	}
}

// below shows what an object owns, recursively. Objects that differ in nothing
// but their number are one line, unless all are asked for. folded is whether the
// owner stands for several.
func (t *jobTree) below(p *page, owner *op.Resource, indent string, deleting, folded bool) {
	groups := t.alike(t.owned[owner.UID])
	for i, group := range groups {
		branch, next := "├─", "│  "
		if i == len(groups)-1 {
			branch, next = "└─", "   "
		}
		holds := ""
		if deleting && blocksDeletion(group[0], owner) {
			holds = ", blocks deletion"
		}
		if t.lines++; t.lines > mostTreeLines && !*t.all {
			continue
		}
		line := t.line(group[0])
		switch {
		case len(group) > 1:
			line = fmt.Sprintf("%d × %s", len(group), foldedLine(group[0]))
		case folded:
			line = foldedLine(group[0])
		}
		p.linef("%s%s %s%s", indent, branch, line, holds)
		// What the first of them owns stands for what each owns.
		t.below(p, group[0], indent+next, deleting, folded || len(group) > 1)
	}
}

// alike returns objects in groups: those that are shown as one line together,
// each other one alone. The order is that of the first of each group.
func (t *jobTree) alike(list []*op.Resource) (groups [][]*op.Resource) {
	if *t.all || len(list) < foldFrom {
		for _, r := range list {
			groups = append(groups, []*op.Resource{r})
		}
		return groups
	}
	count := map[string]int{}
	for _, r := range list {
		count[t.shape(r)]++
	}
	at := map[string]int{}
	for _, r := range list {
		shape := t.shape(r)
		if i, ok := at[shape]; ok && count[shape] >= foldFrom {
			groups[i] = append(groups[i], r)
			continue
		}
		at[shape] = len(groups)
		groups = append(groups, []*op.Resource{r})
	}
	return groups
}

// shape is what objects have in common that are shown as one line: everything
// that the tree shows of them and of what they own, except numbers and UIDs.
func (t *jobTree) shape(r *op.Resource) string {
	if s, ok := t.shapes[r.UID]; ok {
		return s
	}
	t.shapes[r.UID] = "" // should something ever own itself
	s := foldedLine(r)
	for _, o := range t.owned[r.UID] {
		s += "\n" + t.shape(o)
	}
	t.shapes[r.UID] = s
	return s
}

// foldedLine describes objects that are shown as one line. Their names are those
// of one group, with a star for their number.
func foldedLine(r *op.Resource) string {
	name := r.Name
	if i := strings.IndexByte(name, '['); i >= 0 {
		if j := strings.IndexByte(name[i:], ']'); j > 0 {
			name = name[:i] + "[*" + name[i+j:]
		}
	}
	of := "generation"
	if r.Kind == berth.KindJob || r.Kind == berth.KindAlloc && r.LaunchCount == 0 {
		of = "version"
	}
	s := fmt.Sprintf("%s %s  %s %d", r.Kind, name, of, r.Generation)
	if status := resourceStatus(r); status != "" {
		s += ", " + status
	}
	return s
}

const (
	// foldFrom is how many objects that are alike become one line.
	foldFrom = 5
	// mostTreeLines bounds the lines of a tree that is not asked for in full.
	mostTreeLines = 1000
)

// blocksDeletion reports whether the foreground deletion of an owner waits for an object.
func blocksDeletion(r, owner *op.Resource) bool {
	return slices.ContainsFunc(r.OwnerRefs, func(o berth.OwnerRef) bool { return o.UID == owner.UID && o.Block })
}

// line describes one owned object.
func (t *jobTree) line(r *op.Resource) string {
	if r.Kind == berth.KindAlloc {
		of := "version" // of its job
		if r.LaunchCount > 0 {
			of = "generation"
		}
		return fmt.Sprintf("Allocation %s  %s  %s  %s %d, %s", short(r.ID, *t.verbose), r.UID, r.Name, of, r.Generation, resourceStatus(r))
	}
	if r.Kind == berth.KindJob {
		return fmt.Sprintf("Job %s  %s  %s", r.Name, r.UID, resourceStatus(r))
	}
	s := fmt.Sprintf("%s %s  %s  generation %d", r.Kind, r.Name, r.UID, r.Generation)
	if status := resourceStatus(r); status != "" {
		s += ", " + status
	}
	return s
}

// left shows what no job of the list owns.
func (t *jobTree) left(p *page, heading string, list []op.Resource, which func(*op.Resource) bool) {
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

// attached reports whether a job of the list owns r, directly or not.
func (t *jobTree) attached(r *op.Resource) bool {
	return slices.ContainsFunc(r.OwnerRefs, func(o berth.OwnerRef) bool {
		owner := t.byUID[o.UID]
		return owner != nil && (owner.Kind == berth.KindJob || !owner.Orphaned && t.attached(owner))
	})
}

package cli

import (
	"context"
	"fmt"

	"berth"
	"berth/client"
	"berth/op"
)

// resourceListCommand lists objects across jobs and kinds.
func resourceListCommand() *command {
	return &command{
		name: "resource list", synopsis: "List objects and their owners",
		example: "resource list -kind ProcessingElement -job wordcount",
		help: `Lists jobs, objects of stream jobs, and allocations, with their UIDs and owners. The list can be limited to a kind, a job, the
			objects of an owner, or orphans. The owner is given by UID and may be deleted already: then the list shows what is left of its
			objects.`,
		setup: func(f *flags) action {
			r := resourceList{
				data:      f.data(),
				kind:      f.String("kind", "List only objects of this `kind`: Job, Allocation, Config, Endpoint, HostPool, Export, Import, ParallelRegion or ProcessingElement."),
				job:       f.String("job", "List only objects that belong to jobs with this `ID`."),
				owner:     f.String("owner", "List only objects owned by the object with this `UID`."),
				recursive: f.Bool("recursive", "With -owner: include indirectly owned objects."),
				orphaned:  f.Bool("orphaned", "List only orphans."),
				perPage:   f.Int("per-page", 0, "The `number` of rows per page. 0 is all."),
				token:     f.String("page-token", "The `token` of the page, as printed below the previous page."),
			}
			return r.run
		},
	}
}

// resourceList holds the flags of "resource list".
type resourceList struct {
	data                dataFlags
	kind, job, owner    *string
	recursive, orphaned *bool
	perPage             *int
	token               *string
}

// run prints one page of objects. An object with several owners shows the
// first.
func (r resourceList) run(ctx context.Context, c *call) error {
	if err := r.data.check(c); err != nil {
		return err
	}
	list, meta, err := client.Call(ctx, c.client, op.ListResources, op.ResourcesQuery{
		Kind: *r.kind, Job: *r.job, Owner: *r.owner, Recursive: *r.recursive, Orphaned: *r.orphaned,
		Query: op.Query{PerPage: int32(*r.perPage), NextToken: *r.token},
	})
	switch {
	case err != nil:
		return err
	case r.data.wanted():
		return r.data.write(c, list)
	}
	p := c.page()
	if len(list) == 0 {
		p.linef("No resources")
		return c.show(p)
	}
	rows := [][]string{{"Kind", "Name", "UID", "Owner", "Generation", "Status"}}
	for _, v := range list {
		owner := none
		if len(v.OwnerRefs) > 0 {
			owner = v.OwnerRefs[0].UID
		}
		rows = append(rows, []string{v.Kind, v.Name, v.UID, owner, fmt.Sprint(v.Generation), or(resourceStatus(&v), none)})
	}
	p.table(rows)
	c.paged(p, meta.NextToken)
	return c.show(p)
}

// resourceStatus describes the state of an object.
func resourceStatus(v *op.Resource) string {
	s := v.Status
	switch {
	case v.Deletion != nil:
		s = fmt.Sprintf("being deleted (%s, by %s) since index %d", v.Deletion.Policy, v.Deletion.Intent, v.Deletion.RequestIndex)
	case v.Phase != "":
		s = v.Phase
	case v.Kind == berth.KindPE || v.LaunchCount > 0:
		s = fmt.Sprintf("launch %d, %s", v.LaunchCount, v.Status)
	}
	switch {
	case v.Orphaned && s != "":
		s += ", orphaned"
	case v.Orphaned:
		s = "orphaned"
	}
	return s
}

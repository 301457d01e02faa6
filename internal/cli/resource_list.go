package cli

import (
	"context"
	"fmt"

	"berth"
	"berth/client"
	"berth/op"
)

func resourceListCommand() *command {
	return &command{
		name: "resource list", synopsis: "List objects with their owners",
		help: `Lists jobs, what stream jobs own, and allocations as objects with UIDs and owners: all of a namespace, those of a kind or
of a job, what an owner owns, or what was left to itself. An owner is named by its UID and can be gone: then what is listed is
what it left and has not been removed yet.`,
		setup: func(f *flags) action {
			r := resourceList{
				data:      f.data(),
				kind:      f.String("kind", "List objects of this `kind` alone: Job, Allocation, Config, Endpoint, HostPool, Export, Import, ParallelRegion or ProcessingElement."),
				job:       f.String("job", "List what belongs to jobs of this `ID`."),
				owner:     f.String("owner", "List what the object of this `UID` owns."),
				recursive: f.Bool("recursive", "With -owner: also what those own."),
				orphaned:  f.Bool("orphaned", "List what was left to itself."),
				perPage:   f.Int("per-page", 0, "Show this `many` at a time; 0 is all."),
				token:     f.String("page-token", "Show the page that begins with this `token`."),
			}
			return r.run
		},
	}
}

type resourceList struct {
	data                dataFlags
	kind, job, owner    *string
	recursive, orphaned *bool
	perPage             *int
	token               *string
}

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

// resourceStatus is how an object fares, in a word or some.
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

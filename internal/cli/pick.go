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

// allocOfJob picks an allocation of a job, given by ID or unique prefix, and of a
// group of it unless that is "": preferably one that runs, then the newest. It
// says which, if there are several.
func (c *call) allocOfJob(ctx context.Context, job, group string) (a op.Alloc, err error) {
	j, _, err := c.findJob(ctx, job)
	if err != nil {
		return a, err
	}
	if group != "" && j.Group(group) == nil {
		return a, noGroup(j.Job, group)
	}
	list, _, err := client.Call(ctx, c.client, op.JobAllocs, op.JobAllocsQuery{JobID: string(j.ID), Query: of(&j)})
	if err != nil {
		return a, err
	}
	// The server cannot select by group.
	list = slices.DeleteFunc(list, func(s op.AllocStub) bool { return group != "" && s.TaskGroup != group })
	if len(list) == 0 {
		return a, berth.Errorf(berth.NotFound, "job %q has no allocations; \"%s job status %s\" shows why", j.ID, c.Name, j.ID)
	}
	// Running allocations come first, then the newest.
	slices.SortStableFunc(list, func(a, b op.AllocStub) int {
		ra, rb := a.ClientStatus == berth.ClientRunning, b.ClientStatus == berth.ClientRunning
		if ra != rb {
			if ra {
				return -1
			}
			return 1
		}
		return cmp.Compare(b.CreateIndex, a.CreateIndex)
	})
	if len(list) > 1 {
		fmt.Fprintf(c.Err, "Showing allocation %s (%s) on node %s, one of %d of job %q\n", list[0].ID.Short(), clean(list[0].Name), clean(list[0].NodeName), len(list), j.ID)
	}
	return c.findAlloc(ctx, list[0].ID.String())
}

// noGroup is the error for a group that a job does not have.
func noGroup(j *berth.Job, group string) error {
	var names []string
	for _, g := range j.TaskGroups {
		names = append(names, g.Name)
	}
	return berth.Errorf(berth.NotFound, "job %q has no group %q; it has: %s", j.ID, group, strings.Join(names, ", "))
}

package cli

import (
	"context"

	"berth/client"
	"berth/op"
)

// jobAllocsCommand lists the allocations of one job.
func jobAllocsCommand() *command {
	return &command{
		name: "job allocs", args: "<job>", synopsis: "List the allocations of a job", min: 1, max: 1,
		example: "job allocs web",
		help:    "Lists the allocations of a job, given by ID or prefix, newest first.",
		setup: func(f *flags) action {
			data := f.data()
			all := f.Bool("all", "Include allocations of earlier jobs with the same ID.")
			verbose := f.Bool("verbose", "Show IDs in full, and the name of the node.")
			read := func(ctx context.Context, c *call) ([]op.AllocStub, error) {
				j, _, err := c.findJob(ctx, c.args[0])
				if err != nil {
					return nil, err
				}
				list, _, err := client.Call(ctx, c.client, op.JobAllocs, op.JobAllocsQuery{JobID: string(j.ID), All: *all, Query: of(&j)})
				return list, err
			}
			return answer(data, read, func(c *call, p *page, list []op.AllocStub) {
				if len(list) == 0 {
					p.linef("No allocations placed")
					return
				}
				p.table(c.jobAllocRows(list, *verbose))
			})
		},
	}
}

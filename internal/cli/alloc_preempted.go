package cli

import (
	"context"
	"strconv"

	"berth"
	"berth/client"
	"berth/op"
)

// preemptions shows which allocation preempted this one and which ones it
// preempted. Allocations that are gone are shown only by ID.
func (s allocStatus) preemptions(ctx context.Context, c *call, p *page, a *op.Alloc) {
	if !a.PreemptedByAllocation.IsZero() {
		p.heading("Preempted By")
		p.table(s.parties(ctx, c, a.PreemptedByAllocation))
	}
	if len(a.PreemptedAllocations) > 0 {
		p.heading("Preempted Allocations")
		p.table(s.parties(ctx, c, a.PreemptedAllocations...))
	}
}

// parties is a table of the given allocations. A read that fails leaves the
// columns of its row empty: the rest is still worth showing.
func (s allocStatus) parties(ctx context.Context, c *call, list ...berth.AllocID) [][]string {
	rows := [][]string{{"ID", "Name", "Job ID", "Priority", "Desired", "Status"}}
	for _, id := range list {
		row := []string{short(id.String(), *s.verbose), none, none, none, none, none}
		if a, _, err := client.Call(ctx, c.client, op.ReadAlloc, op.AllocRef{AllocID: id.String()}); err == nil {
			row[1], row[2], row[4], row[5] = a.Name, string(a.JobID), a.DesiredStatus.String(), a.ClientStatus.String()
			if a.Job != nil {
				row[3] = strconv.Itoa(a.Job.Priority)
			}
		}
		rows = append(rows, row)
	}
	return rows
}

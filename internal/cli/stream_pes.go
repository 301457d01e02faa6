package cli

import (
	"context"
	"fmt"
	"strconv"

	"berth/client"
	"berth/op"
)

// streamPEsCommand lists processing elements with their current allocation.
func streamPEsCommand() *command {
	return &command{
		name: "stream pes", args: "[job]", synopsis: "List processing elements", max: 1,
		example: "stream pes wordcount",
		help: `Lists the processing elements of all stream jobs, or of one. A processing element is one instance of a group; it keeps its ID and
			UID across allocations. Launch counts its allocations so far. Connectivity is how many of its connections the processing element
			reports as established: none, partial or full. With delete_failed = false in its group, failed allocations that were replaced are
			listed below it with the status zombie.`,
		setup: func(f *flags) action {
			verbose := f.Bool("verbose", "Show full IDs and the UIDs.")
			return streamList[op.PEsQuery, op.PE]{
				data: f.data(), op: op.ListPEs, none: "No processing elements",
				of:    func(job string, q op.Query) op.PEsQuery { return op.PEsQuery{Job: job, Query: q} },
				table: func(list []op.PE) [][]string { return peRows(list, *verbose) },
			}.run
		},
	}
}

// pesOf returns the processing elements of a job or, with "", of a namespace.
func (c *call) pesOf(ctx context.Context, job, namespace string) ([]op.PE, error) {
	list, _, err := client.Call(ctx, c.client, op.ListPEs, op.PEsQuery{Job: job, Query: op.Query{Namespace: namespace}})
	return list, err
}

// peRows is a table of processing elements. Zombies follow the processing
// element that they belonged to.
func peRows(list []op.PE, verbose bool) [][]string {
	rows := [][]string{{"ID", "Name", "Generation", "Launch", "Connectivity", "Allocation", "Node", "Status"}}
	if verbose {
		rows[0] = append(rows[0], "UID", "Job UID")
	}
	for i := range list {
		v := &list[i]
		row := []string{strconv.Itoa(v.ID), v.Name, fmt.Sprint(v.Generation), fmt.Sprint(v.LaunchCount), v.Connectivity, none, none, none}
		if a := v.Allocation; a != nil {
			row[5], row[6], row[7] = short(a.ID.String(), verbose), or(a.NodeName, short(a.NodeID.String(), verbose)), a.ClientStatus.String()
		}
		if verbose {
			owner := "orphan"
			if len(v.OwnerRefs) > 0 {
				owner = v.OwnerRefs[0].UID
			}
			row = append(row, v.UID, owner)
		}
		rows = append(rows, row)
		for j := range v.Zombies {
			a := &v.Zombies[j]
			row := []string{"", v.Name, none, fmt.Sprint(a.LaunchCount), none, short(a.ID.String(), verbose), or(a.NodeName, short(a.NodeID.String(), verbose)), op.StatusZombie}
			if verbose {
				row = append(row, none, none)
			}
			rows = append(rows, row)
		}
	}
	return rows
}

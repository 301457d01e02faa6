package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"berth"
	"berth/client"
	"berth/internal/validate"
	"berth/jobspec"
	"berth/op"
)

// nodePoolListCommand lists the node pools.
func nodePoolListCommand() *command {
	return &command{
		name: "node pool list", synopsis: "List node pools",
		example: "node pool list",
		help:    "Lists all node pools, including the built-in ones: default, and all, which contains every node.",
		setup: func(f *flags) action {
			l := f.list()
			return func(ctx context.Context, c *call) error {
				in := op.Query{}
				return showList(ctx, c, l, op.ListPools, &in, &in, "No node pools found", func(p *page, list []op.NodePool) {
					rows := [][]string{{"Name", "Description"}}
					for _, n := range list {
						rows = append(rows, []string{n.Name, or(n.Description, none)})
					}
					p.table(rows)
				})
			}
		},
	}
}

// nodePoolInfoCommand shows one pool, by name or prefix.
func nodePoolInfoCommand() *command {
	return &command{
		name: "node pool info", args: "<node-pool>", synopsis: "Show a node pool", min: 1, max: 1,
		example: "node pool info gpu",
		help:    "Shows a node pool: its description, its metadata, and how its scheduling differs from that of the cluster.",
		setup: func(f *flags) action {
			data := f.data()
			read := func(ctx context.Context, c *call) (op.NodePool, error) { return c.findPool(ctx, c.args[0]) }
			return answer(data, read, func(_ *call, p *page, n op.NodePool) {
				p.pairs("Name", n.Name, "Description", or(n.Description, none), "Node Identity TTL", n.NodeIdentityTTL)
				p.heading("Metadata")
				if len(n.Meta) == 0 {
					p.linef("No metadata")
				} else {
					var kv []string
					for _, k := range slices.Sorted(maps.Keys(n.Meta)) {
						kv = append(kv, k, n.Meta[k])
					}
					p.pairs(kv...)
				}
				p.heading("Scheduler Configuration")
				if kv := poolConfig(n.SchedulerConfiguration); len(kv) > 0 {
					p.pairs(kv...)
				} else {
					p.linef("No scheduler configuration")
				}
			})
		},
	}
}

// poolConfig are the rows about a pool's scheduler settings, without those that
// are the cluster's.
func poolConfig(s *berth.PoolSchedulerConfig) (kv []string) {
	if s != nil && s.SchedulerAlgorithm != "" {
		kv = append(kv, "Scheduler Algorithm", s.SchedulerAlgorithm)
	}
	if s != nil && s.MemoryOversubscriptionEnabled != nil {
		kv = append(kv, "Memory Oversubscription", strconv.FormatBool(*s.MemoryOversubscriptionEnabled))
	}
	return kv
}

// findPool returns the node pool whose name is or begins with text.
func (c *call) findPool(ctx context.Context, text string) (n op.NodePool, err error) {
	found, _, err := client.Call(ctx, c.client, op.ListPools, op.Query{Prefix: text, PerPage: candidates + 1})
	if err != nil {
		return n, err
	}
	rows := [][]string{{"Name", "Description"}}
	for _, n := range found {
		if n.Name == text {
			return n, nil
		}
		rows = append(rows, []string{n.Name, or(n.Description, none)})
	}
	switch len(found) {
	case 0:
		return n, berth.Errorf(berth.NotFound, "No node pool with name or prefix %q found; see %q", text, c.Name+" node pool list")
	case 1:
		return found[0], nil
	}
	return n, ambiguous("node pools", text, rows)
}

// nodePoolNodesCommand lists the nodes that are in a pool.
func nodePoolNodesCommand() *command {
	return &command{
		name: "node pool nodes", args: "<node-pool>", synopsis: "List the nodes of a node pool", min: 1, max: 1,
		example: "node pool nodes gpu",
		help:    "Lists the nodes of a node pool. The pool all contains every node.",
		setup: func(f *flags) action {
			l := f.list()
			verbose := f.Bool("verbose", "Show IDs in full.")
			return func(ctx context.Context, c *call) error {
				n, err := c.findPool(ctx, c.args[0])
				if err != nil {
					return err
				}
				in := op.PoolNodesQuery{PoolName: n.Name}
				return showList(ctx, c, l, op.PoolNodes, &in, &in.Query, "No nodes found", func(p *page, list []op.NodeStub) {
					rows := [][]string{{"ID", "DC", "Name", "Class", "Drain", "Eligibility", "Status"}}
					for _, n := range list {
						rows = append(rows, slices.Delete(nodeRow(n, short(n.ID.String(), *verbose)), 1, 2)) // without the pool's column
					}
					p.table(rows)
				})
			}
		},
	}
}

// nodePoolJobsCommand lists the jobs that name a pool.
func nodePoolJobsCommand() *command {
	return &command{
		name: "node pool jobs", args: "<node-pool>", synopsis: "List the jobs of a node pool", min: 1, max: 1,
		example: "node pool jobs gpu",
		help:    `Lists the jobs whose node_pool is the given one. For the pool all, these are the jobs that name it, not the jobs of every pool.`,
		setup: func(f *flags) action {
			l := f.list()
			return func(ctx context.Context, c *call) error {
				n, err := c.findPool(ctx, c.args[0])
				if err != nil {
					return err
				}
				in := op.PoolJobsQuery{PoolName: n.Name}
				return showList(ctx, c, l, op.PoolJobs, &in, &in.Query, "No jobs", func(p *page, list []op.JobStub) { p.table(c.jobRows(list)) })
			}
		},
	}
}

// nodePoolApplyCommand writes a pool from a file. The file is checked locally
// first, so that mistakes have positions.
func nodePoolApplyCommand() *command {
	return &command{
		name: "node pool apply", args: "<path>", synopsis: "Create or update a node pool", min: 1, max: 1,
		example: "node pool apply pool.nomad.hcl",
		help: `Reads a node pool specification, or standard input with "-", and creates the pool or replaces it: settings that the file omits are
			reset. "node pool init" writes an example.`,
		setup: func(f *flags) action {
			isJSON := f.Bool("json", "Require JSON. Without this flag, HCL and JSON are both accepted.")
			return func(ctx context.Context, c *call) error {
				pool, err := readSpec(c, c.args[0], "node pool", *isJSON, jobspec.ParsePool)
				if err != nil {
					return err
				}
				if err := validate.NodePool(pool); err != nil {
					return err
				}
				if _, _, err := client.Call(ctx, c.client, op.WritePool, op.WriteNodePool{NodePool: *pool}); err != nil {
					return err
				}
				_, err = fmt.Fprintf(c.Out, "Successfully applied node pool %q!\n", pool.Name)
				return err
			}
		},
	}
}

// nodePoolDeleteCommand deletes a pool. It takes no prefix, as there is no
// confirmation.
func nodePoolDeleteCommand() *command {
	return &command{
		name: "node pool delete", args: "<node-pool>", synopsis: "Delete an unused node pool", min: 1, max: 1, list: "node pool list",
		example: "node pool delete gpu",
		help: `Deletes a node pool, given by its full name. A pool that has nodes or unfinished jobs cannot be deleted, nor can the built-in
			pools.`,
		setup: func(*flags) action {
			return func(ctx context.Context, c *call) error {
				name := c.args[0]
				if _, _, err := client.Call(ctx, c.client, op.RemovePool, op.DeleteNodePool{PoolName: name}); err != nil {
					return err
				}
				_, err := fmt.Fprintf(c.Out, "Successfully deleted node pool %q!\n", name)
				return err
			}
		},
	}
}

// examplePools are the example files by format. JSON has no comments, so it
// shows less.
var examplePools = map[string]string{
	"hcl": `node_pool "example" {
  description = "Example node pool"

  # For people and tools; it does not affect placement.
  meta {
    environment = "prod"
    owner       = "sre"
  }

  # How long the identities of the pool's nodes are valid.
  # node_identity_ttl = "24h"

  # Scheduler settings that differ from those of the cluster (see
  # "operator scheduler set-config"). Omitted settings are the cluster's.
  # scheduler_config {
  #   scheduler_algorithm             = "spread" # or binpack, balanced
  #   memory_oversubscription_enabled = true
  # }
}
`,
	"json": `{
  "Name": "example",
  "Description": "Example node pool",
  "Meta": {
    "environment": "prod",
    "owner": "sre"
  }
}
`,
}

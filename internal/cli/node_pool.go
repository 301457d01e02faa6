package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"

	"berth"
	"berth/client"
	"berth/jobspec"
	"berth/op"
)

func nodePoolListCommand() *command {
	return &command{
		name: "node pool list", synopsis: "List the node pools",
		help: "Lists all node pools, among them those that are built in: default, and all, which has the nodes of every pool.",
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

func nodePoolInfoCommand() *command {
	return &command{
		name: "node pool info", args: "<node-pool>", synopsis: "Show a node pool", min: 1, max: 1,
		help: "Shows a node pool: what it is for, its meta data, and how it is scheduled where that differs from the cluster.",
		setup: func(f *flags) action {
			data := f.data()
			return func(ctx context.Context, c *call) error {
				if err := data.check(c); err != nil {
					return err
				}
				n, err := c.findPool(ctx, c.args[0])
				if err != nil {
					return err
				}
				if data.wanted() {
					return data.write(c, n)
				}
				p := c.page()
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
				return c.show(p)
			}
		},
	}
}

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

func nodePoolNodesCommand() *command {
	return &command{
		name: "node pool nodes", args: "<node-pool>", synopsis: "List the nodes of a node pool", min: 1, max: 1,
		help: "Lists the nodes of a node pool. The pool all has the nodes of every pool.",
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
						rows = append(rows, slices.Delete(nodeRow(n, short(n.ID.String(), *verbose)), 1, 2)) // without its pool
					}
					p.table(rows)
				})
			}
		},
	}
}

func nodePoolJobsCommand() *command {
	return &command{
		name: "node pool jobs", args: "<node-pool>", synopsis: "List the jobs of a node pool", min: 1, max: 1,
		help: "Lists the jobs that name a node pool. Those of the pool all are the jobs that name it, not those of every pool.",
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

func nodePoolApplyCommand() *command {
	return &command{
		name: "node pool apply", args: "<path>", synopsis: "Make a node pool, or change one", min: 1, max: 1,
		help: `Reads the specification of a node pool, "-" being standard input, and makes the pool or changes it to be so: what the file
leaves out is as if it never was said. "node pool init" writes an example.`,
		setup: func(f *flags) action {
			isJSON := f.Bool("json", "The specification is JSON. It is recognised without, too; this refuses anything else.")
			return func(ctx context.Context, c *call) error {
				file, _, err := c.readFile(c.args[0], "node pool specification")
				if err != nil {
					return err
				}
				if *isJSON && !looksLikeJSON(file.Text) {
					return berth.Errorf(berth.Invalid, "%s: with -json an object in JSON is wanted", file.Name)
				}
				pool, err := jobspec.ParsePool(file)
				if err != nil {
					return err
				}
				if err := pool.Validate(); err != nil {
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

func nodePoolDeleteCommand() *command {
	return &command{
		name: "node pool delete", args: "<node-pool>", synopsis: "Delete a node pool that nothing uses", min: 1, max: 1,
		help: `Deletes a node pool. One that has nodes, or jobs that are not over, is left as it is, and so are those that are built in. The
name is wanted in full.`,
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

func nodePoolInitCommand() *command {
	return &command{
		name: "node pool init", args: "[filename]", synopsis: "Write an example of a node pool specification", max: 1, local: true,
		help: `Writes an example to begin with, to pool.nomad.hcl or pool.nomad.json unless a filename is given. A file that is there is left
as it is.`,
		setup: func(f *flags) action {
			out := f.FlagSet.String("out", "hcl", "The `format`: hcl or json.")
			quiet := f.Bool("quiet", "Say nothing.")
			return func(_ context.Context, c *call) error {
				text, ok := examplePools[*out]
				if !ok {
					return c.usagef("the flag -out: %q is no format; allowed are hcl and json", *out)
				}
				name := "pool.nomad." + *out
				if len(c.args) == 1 {
					name = c.args[0]
				}
				if err := writeNew(c.path(name), text); err != nil {
					return berth.Errorf(berth.Invalid, "write %s: %w", name, err)
				}
				if *quiet {
					return nil
				}
				_, err := fmt.Fprintf(c.Out, "Example node pool specification written to %s\n", name)
				return err
			}
		},
	}
}

// writeNew writes a file that must not be there yet.
func writeNew(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err == nil {
		_, err = f.WriteString(text)
		err = errors.Join(err, f.Close())
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err // the name is said already
	}
	return err
}

var examplePools = map[string]string{
	"hcl": `node_pool "example" {
  description = "Example node pool"

  # For people and their tools; placement does not look at it.
  meta {
    environment = "prod"
    owner       = "sre"
  }

  # How long the identities of its nodes last.
  # node_identity_ttl = "24h"

  # How the pool is scheduled, where that differs from the cluster (see
  # "operator scheduler set-config"). What is left out is the cluster's.
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

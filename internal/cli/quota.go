package cli

import (
	"context"
	"fmt"
	"strconv"

	"berth"
	"berth/client"
	"berth/internal/validate"
	"berth/jobspec"
	"berth/op"
)

// quotaListCommand lists the quotas.
func quotaListCommand() *command {
	return &command{
		name: "quota list", synopsis: "List quotas",
		example: "quota list",
		help:    "Lists the quotas. A namespace names the quota that limits it; several may name one, and then share it.",
		setup: func(f *flags) action {
			l := f.list()
			return func(ctx context.Context, c *call) error {
				in := op.Query{}
				return showList(ctx, c, l, op.ListQuotas, &in, &in, "No quotas found", func(p *page, list []*berth.Quota) {
					p.table(quotaRows(list))
				})
			}
		},
	}
}

// quotaRows are the rows of a table of quotas.
func quotaRows(list []*berth.Quota) [][]string {
	rows := [][]string{{"Name", "Description"}}
	for _, q := range list {
		rows = append(rows, []string{q.Name, or(q.Description, none)})
	}
	return rows
}

// findQuota returns the quota whose name is or begins with text.
func (c *call) findQuota(ctx context.Context, text string) (*berth.Quota, error) {
	found, _, err := client.Call(ctx, c.client, op.ListQuotas, op.Query{Prefix: text, PerPage: candidates + 1})
	if err != nil {
		return nil, err
	}
	for _, q := range found {
		if q.Name == text {
			return q, nil
		}
	}
	switch len(found) {
	case 0:
		return nil, berth.Errorf(berth.NotFound, "No quota with name or prefix %q found; see %q", text, c.Name+" quota list")
	case 1:
		return found[0], nil
	}
	return nil, ambiguous("quotas", text, quotaRows(found))
}

// quotaState is a quota with what is used of it.
type quotaState struct {
	*berth.Quota
	Usage *berth.QuotaUsage
}

// findUsage returns the quota whose name is or begins with text, with its usage.
func (c *call) findUsage(ctx context.Context, text string) (quotaState, error) {
	q, err := c.findQuota(ctx, text)
	if err != nil {
		return quotaState{}, err
	}
	return c.readUsage(ctx, q.Name)
}

// readUsage returns the quota of that name with its usage.
func (c *call) readUsage(ctx context.Context, name string) (q quotaState, err error) {
	if q.Quota, _, err = client.Call(ctx, c.client, op.ReadQuota, op.QuotaRef{QuotaName: name}); err == nil {
		q.Usage, _, err = client.Call(ctx, c.client, op.ReadQuotaUsage, op.QuotaRef{QuotaName: name})
	}
	return q, err
}

// quotaStatusCommand shows limits and usage of one quota.
func quotaStatusCommand() *command {
	return &command{
		name: "quota status", args: "<quota>", synopsis: "Show the limits of a quota and what is used", min: 1, max: 1,
		example: "quota status team-a",
		help: `Shows the limits of a quota in each region and, in the region of the servers that answer, what the namespaces with this quota use. An
			allocation counts until its tasks have ended; a job of a user counts until it is stopped.`,
		setup: func(f *flags) action {
			data := f.data()
			read := func(ctx context.Context, c *call) (quotaState, error) { return c.findUsage(ctx, c.args[0]) }
			return answer(data, read, func(_ *call, p *page, q quotaState) {
				p.pairs("Name", q.Name, "Description", or(q.Description, none), "Limits", strconv.Itoa(len(q.Limits)))
				if len(q.Limits) > 0 {
					p.heading("Quota Limits")
					p.table(quotaLimitRows(q))
				}
			})
		},
	}
}

// quotaLimitRows are the rows of a table of limits, with what is used where that
// is known.
func quotaLimitRows(q quotaState) [][]string {
	rows := [][]string{{"Region", "Node Pool", "Resource", "Used", "Limit"}}
	for _, l := range q.Limits {
		limits, used := quotaAmounts(l), map[quotaLine]int{}
		u := q.Usage.Used[l.Key()]
		if u != nil {
			for _, a := range quotaAmounts(u) {
				used[a.quotaLine] = a.amount
			}
		}
		for _, a := range limits {
			n := none
			if u != nil {
				n = strconv.Itoa(used[a.quotaLine])
			}
			rows = append(rows, []string{l.Region, or(a.pool, "*"), a.what, n, limitText(a)})
		}
	}
	return rows
}

// limitText shows a limit: 0 means that there is none.
func limitText(a quotaAmount) string {
	switch {
	case a.amount < 0:
		return "not allowed"
	case a.amount == 0:
		return "inf"
	}
	return strconv.Itoa(a.amount)
}

// quotaLine is what a limit or a usage is of.
type quotaLine struct{ pool, what string }

// quotaAmount is one limit, or what is used of it.
type quotaAmount struct {
	quotaLine
	amount int
}

// quotaAmounts lists the amounts of a region and its node pools.
func quotaAmounts(l *berth.QuotaLimit) (out []quotaAmount) {
	r := l.RegionLimit
	if r == nil {
		r = &berth.QuotaResources{}
	}
	for _, x := range append([]*berth.QuotaResources{r}, r.NodePools...) {
		add := func(what string, n *int) {
			if n == nil {
				n = new(int)
			}
			out = append(out, quotaAmount{quotaLine{x.NodePool, what}, *n})
		}
		add("CPU (MHz)", x.CPU)
		add("Cores", x.Cores)
		add("Memory (MiB)", x.MemoryMB)
		add("Memory Max (MiB)", x.MemoryMaxMB)
		add("Allocations", x.Allocations)
		add("Jobs", x.Jobs)
		for _, d := range x.Devices {
			n := int(d.Count)
			if n == 0 {
				n = -1
			}
			add("Device "+d.Name, &n)
		}
	}
	variables := 0
	if l.VariablesLimit != nil {
		variables = *l.VariablesLimit
	}
	if r.Storage != nil && r.Storage.VariablesMB != 0 {
		variables = r.Storage.VariablesMB
	}
	return append(out, quotaAmount{quotaLine{"", "Variables (MiB)"}, variables})
}

// quotaInspectCommand shows a quota as JSON.
func quotaInspectCommand() *command {
	return &command{
		name: "quota inspect", args: "<quota>", synopsis: "Show a quota as JSON", min: 1, max: 1,
		example: "quota inspect team-a",
		help:    "Shows everything that is stored of a quota and what is used of it, as JSON or formatted with a template.",
		setup: func(f *flags) action {
			data := f.data()
			return func(ctx context.Context, c *call) error {
				if err := data.check(c); err != nil {
					return err
				}
				q, err := c.findUsage(ctx, c.args[0])
				if err != nil {
					return err
				}
				if *data.template != "" {
					return data.write(c, q)
				}
				return c.json(q)
			}
		},
	}
}

// quotaApplyCommand writes a quota from a file.
func quotaApplyCommand() *command {
	return &command{
		name: "quota apply", args: "<input>", synopsis: "Create or update a quota", min: 1, max: 1,
		example: "quota apply team-a.hcl",
		help: `Creates or changes a quota from a specification in HCL or JSON: a file or, with "-", standard input. Settings that it omits are
			reset. Allocations above a new limit keep running; nothing more is placed until there is room. "quota init" writes an example.`,
		setup: func(f *flags) action {
			isJSON := f.Bool("json", "Require a specification in JSON. Without this flag, HCL and JSON are both accepted.")
			return func(ctx context.Context, c *call) error {
				q, err := readSpec(c, c.args[0], "quota", *isJSON, jobspec.ParseQuota)
				if err != nil {
					return err
				}
				if err := validate.Quota(q); err != nil {
					return err
				}
				if _, _, err := client.Call(ctx, c.client, op.CreateQuota, op.WriteQuota{Quota: *q}); err != nil {
					return err
				}
				_, err = fmt.Fprintf(c.Out, "Successfully applied quota specification %q!\n", q.Name)
				return err
			}
		},
	}
}

// quotaDeleteCommand deletes a quota. It takes no prefix, as there is no
// confirmation.
func quotaDeleteCommand() *command {
	return &command{
		name: "quota delete", args: "<quota>", synopsis: "Delete an unused quota", min: 1, max: 1, list: "quota list",
		example: "quota delete team-a",
		help:    "Deletes a quota, given by its full name. One that a namespace names cannot be deleted.",
		setup: func(*flags) action {
			return func(ctx context.Context, c *call) error {
				name := c.args[0]
				if _, _, err := client.Call(ctx, c.client, op.RemoveQuota, op.DeleteQuota{QuotaName: name}); err != nil {
					return err
				}
				_, err := fmt.Fprintf(c.Out, "Successfully deleted quota %q!\n", name)
				return err
			}
		},
	}
}

const exampleQuotaHCL = `name        = "default-quota"
description = "Limit the shared default namespace"

# One limit for each region. 0 means no limit, a negative number that nothing is
# allowed. Of devices, 0 are none.
limit {
  region = "global"
  region_limit {
    cpu         = 2500 # MHz
    cores       = 16
    memory      = 1000 # MiB
    memory_max  = 1000 # MiB
    allocations = 100
    jobs        = 20

    device "nvidia/gpu" {
      count = 1
    }

    storage {
      variables = 10 # MiB
    }

    # Further limits, for the jobs of one node pool.
    node_pool "default" {
      cpu = 2000
    }
  }
}
`

const exampleQuotaJSON = `{
  "Name": "default-quota",
  "Description": "Limit the shared default namespace",
  "Limits": [
    {
      "Region": "global",
      "RegionLimit": {
        "CPU": 2500,
        "Cores": 16,
        "MemoryMB": 1000,
        "MemoryMaxMB": 1000,
        "Allocations": 100,
        "Jobs": 20,
        "Devices": [{"Name": "nvidia/gpu", "Count": 1}],
        "Storage": {"VariablesMB": 10},
        "NodePools": [{"NodePool": "default", "CPU": 2000}]
      }
    }
  ]
}
`

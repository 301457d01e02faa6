package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/client"
	"berth/op"
)

// allocChecksCommand shows health checks. The results come from the node of the
// allocation, which must be reachable.
func allocChecksCommand() *command {
	return &command{
		name: "alloc checks", args: "<allocation>", synopsis: "Show the health checks of an allocation's services", min: 1, max: 1,
		example: "alloc checks 0af996ed",
		help: `Shows the latest result of each health check of an allocation's services, as reported by its node. The allocation is given by ID
			or prefix.`,
		setup: func(f *flags) action {
			data := f.data()
			f.Bool("verbose", "No effect: the full output is always shown.")
			return func(ctx context.Context, c *call) error {
				if err := data.check(c); err != nil {
					return err
				}
				a, err := c.findAlloc(ctx, c.args[0])
				if err != nil {
					return err
				}
				found, _, err := client.Call(ctx, c.client, op.AllocChecks, op.AllocRef{AllocID: a.ID.String(), Query: op.Query{Namespace: a.Namespace}})
				if err != nil {
					return err
				}
				if data.wanted() {
					return data.write(c, found)
				}
				return c.show(checkPage(c, found))
			}
		},
	}
}

// checkPage shows the checks by service and name. found is by check ID, whose
// order means nothing to a reader.
func checkPage(c *call, found map[string]op.CheckStatus) *page {
	p := c.page()
	if len(found) == 0 {
		p.linef("No checks found")
		return p
	}
	p.heading(fmt.Sprintf("Status of %d Nomad Service Checks", len(found)))
	list := slices.SortedFunc(maps.Values(found), func(a, b op.CheckStatus) int {
		return strings.Compare(a.Service+"\x00"+a.Check+"\x00"+a.ID, b.Service+"\x00"+b.Check+"\x00"+b.ID)
	})
	for _, s := range list {
		p.gap()
		pairs := []string{
			"ID", s.ID, "Name", s.Check, "Group", s.Group, "Task", or(s.Task, "(group)"), "Service", s.Service,
			"Status", s.Status,
		}
		if s.StatusCode > 0 {
			pairs = append(pairs, "StatusCode", strconv.Itoa(s.StatusCode))
		}
		p.pairs(append(pairs, "Mode", s.Mode, "Timestamp", stamp(time.Unix(s.Timestamp, 0)), "Output", or(s.Output, none))...)
	}
	return p
}

package cli

import (
	"context"
	"fmt"

	"berth"
	"berth/client"
	"berth/op"
)

// nodeEligibilityCommand changes the eligibility of a node, without moving what
// runs there.
func nodeEligibilityCommand() *command {
	return &command{
		name: "node eligibility", args: "[node]", synopsis: "Set whether a node takes new work", max: 1,
		example: "node eligibility -disable 4d2ba53b",
		help:    `Makes a node eligible or ineligible for new allocations. Running allocations stay. The node is given by ID, prefix or name.`,
		setup: func(f *flags) action {
			enable := f.Bool("enable", "Make the node eligible for new work.")
			disable := f.Bool("disable", "Make the node ineligible for new work.")
			self := f.Bool("self", "Use the node of the agent that is called.")
			return func(ctx context.Context, c *call) error {
				switch {
				case *enable == *disable:
					return c.usagef("one of -enable and -disable is required")
				case *self == (len(c.args) > 0):
					return c.usagef("give either a node or -self")
				}
				find := nodeStatus{self: self}
				n, err := find.find(ctx, c)
				if err != nil {
					return err
				}
				to := berth.NodeIneligible
				if *enable {
					to = berth.NodeEligible
				}
				if _, _, err := client.Call(ctx, c.client, op.Eligibility, op.SetEligibility{NodeID: n.ID.String(), Eligibility: to}); err != nil {
					return err
				}
				_, err = fmt.Fprintf(c.Out, "Node %q scheduling eligibility set: %s for scheduling\n", n.ID, to)
				return err
			}
		},
	}
}

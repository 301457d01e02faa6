package cli

import (
	"context"
	"fmt"

	"berth"
	"berth/client"
	"berth/op"
)

func nodeEligibilityCommand() *command {
	return &command{
		name: "node eligibility", args: "[node]", synopsis: "Let a node take new work, or no more", max: 1,
		help: `Says whether a node takes new work. What runs on it stays. The node is named by its ID, the beginning of one, or its name.`,
		setup: func(f *flags) action {
			enable := f.Bool("enable", "Let the node take new work.")
			disable := f.Bool("disable", "Give the node no new work.")
			self := f.Bool("self", "The node is that of the agent that is asked.")
			return func(ctx context.Context, c *call) error {
				switch {
				case *enable == *disable:
					return c.usagef("one of -enable and -disable is wanted")
				case *self == (len(c.args) > 0):
					return c.usagef("a node or -self is wanted, one of them")
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

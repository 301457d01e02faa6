package cli

import (
	"context"
	"maps"
	"slices"

	"berth/client"
	"berth/op"
)

func agentInfoCommand() *command {
	return &command{
		name: "agent-info", synopsis: "Show figures of an agent",
		help: "Shows what the agent that is asked tells of itself: figures of its sides and of its process.",
		setup: func(f *flags) action {
			data := f.data()
			return func(ctx context.Context, c *call) error {
				if err := data.check(c); err != nil {
					return err
				}
				out, _, err := client.Call(ctx, c.client, op.ReadSelf, op.Nothing{})
				if err != nil {
					return err
				}
				if data.wanted() {
					return data.write(c, out)
				}
				p := c.page()
				for _, part := range slices.Sorted(maps.Keys(out.Stats)) {
					p.linef("%s", part)
					for _, k := range slices.Sorted(maps.Keys(out.Stats[part])) {
						p.linef("  %s = %s", k, out.Stats[part][k])
					}
				}
				return c.show(p)
			}
		},
	}
}

func nodeConfigCommand() *command {
	return &command{
		name: "node config", args: "[<addr>...]", synopsis: "Look at or change where a node finds servers", max: -1,
		help: `Looks at, or changes until it is started anew, where the agent that is asked finds servers. Agents learn of servers by
			themselves; this is for those that no server of theirs can reach any more.`,
		setup: func(f *flags) action {
			list := f.Bool("servers", "List the addresses of servers.")
			update := f.Bool("update-servers", "Replace the addresses of servers with those of the command line: host, or host:port.")
			return func(ctx context.Context, c *call) error {
				switch {
				case *list == *update:
					return c.usagef("one of -servers and -update-servers is wanted")
				case *list && len(c.args) > 0:
					return c.usagef("-servers takes no arguments")
				case *update && len(c.args) == 0:
					return c.usagef("-update-servers wants addresses")
				case *update:
					_, _, err := client.Call(ctx, c.client, op.ChangeServers, op.SetServers{Addresses: c.args})
					return err
				}
				out, _, err := client.Call(ctx, c.client, op.AgentServers, op.Query{})
				if err != nil {
					return err
				}
				p := c.page()
				for _, s := range out {
					p.linef("%s", s)
				}
				return c.show(p)
			}
		},
	}
}

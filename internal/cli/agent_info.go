package cli

import (
	"context"
	"maps"
	"slices"

	"berth/client"
	"berth/op"
)

// agentInfoCommand shows the stats of the agent that is called, in sorted order
// so that outputs can be compared.
func agentInfoCommand() *command {
	return &command{
		name: "agent-info", synopsis: "Show an agent's runtime information",
		example: "agent-info -json",
		help:    "Shows the statistics that an agent reports about itself: its server and node parts, Raft and the Go runtime.",
		setup: func(f *flags) action {
			data := f.data()
			return answer(data, reading(op.ReadSelf, op.Query{}), func(_ *call, p *page, out op.AgentSelf) {
				for _, part := range slices.Sorted(maps.Keys(out.Stats)) {
					p.linef("%s", part)
					for _, k := range slices.Sorted(maps.Keys(out.Stats[part])) {
						p.linef("  %s = %s", k, out.Stats[part][k])
					}
				}
			})
		},
	}
}

// nodeConfigCommand shows or replaces the servers of the agent's node, in
// memory only. It works without a reachable server.
func nodeConfigCommand() *command {
	return &command{
		name: "node config", args: "[<addr>...]", synopsis: "Show or change the servers a node uses", max: -1,
		example: "node config -servers",
		help: `Shows or changes the servers that the agent's node connects to. A change lasts until the agent restarts. Nodes normally learn
			about servers by themselves; use this command if none of a node's known servers is reachable any more.`,
		setup: func(f *flags) action {
			list := f.Bool("servers", "List the server addresses.")
			update := f.Bool("update-servers", "Replace the server addresses with those given as arguments: host or host:port.")
			return func(ctx context.Context, c *call) error {
				switch {
				case *list == *update:
					return c.usagef("one of -servers and -update-servers is required")
				case *list && len(c.args) > 0:
					return c.usagef("-servers takes no arguments")
				case *update && len(c.args) == 0:
					return c.usagef("-update-servers requires addresses")
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

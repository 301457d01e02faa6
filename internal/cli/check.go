package cli

import (
	"context"

	"berth"
	"berth/client"
	"berth/op"
)

// checkCommand is for scripts that watch an agent.
func checkCommand() *command {
	return &command{
		name: "check", synopsis: "Check the health of an agent", hidden: true,
		example: "check -min-servers 3",
		help: `Checks an agent. A server must know at least -min-peers other servers, and a node at least -min-servers servers.

			The exit code is 0 if the agent is healthy, and 1 if it is not or cannot be reached.`,
		setup: func(f *flags) action {
			peers := f.Int("min-peers", 0, "The `number` of other Raft peers that a server must have.")
			servers := f.Int("min-servers", 1, "The `number` of servers that a node must know.")
			return func(ctx context.Context, c *call) error {
				self, _, err := client.Call(ctx, c.client, op.ReadSelf, op.Query{})
				if err != nil {
					return err
				}
				_, isServer := self.Stats["nomad"]
				node, isNode := self.Stats["client"]
				if isServer {
					list, _, err := client.Call(ctx, c.client, op.ReadPeers, op.Query{AllowStale: true})
					if err != nil {
						return err
					}
					if others := len(list) - 1; others < *peers {
						return berth.Errorf(berth.Unavailable, "the server has %s, want at least %d", plural(max(0, others), "other Raft peer"), *peers)
					}
				}
				if isNode && !isServer {
					list, _, err := client.Call(ctx, c.client, op.AgentServers, op.Query{})
					if err != nil {
						return err
					}
					if len(list) < *servers {
						return berth.Errorf(berth.Unavailable, "node %s knows %s, want at least %d", short(node["node_id"], false), plural(len(list), "server"), *servers)
					}
				}
				p := c.page()
				p.linef("The agent is healthy")
				return c.show(p)
			}
		},
	}
}

package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"berth/client"
	"berth/op"
)

// nodeIdentityGetCommand shows what the identity of a node says.
func nodeIdentityGetCommand() *command {
	return &command{
		name: "node identity get", args: "<node>", synopsis: "Show the claims of a node's identity", min: 1, max: 1,
		example: "node identity get 4d2ba53b",
		help: `Shows what the identity of a node says, as its agent holds it: for which node it was signed, and until when it is valid. The
			identity itself is never shown.`,
		setup: func(f *flags) action {
			d := f.data()
			return func(ctx context.Context, c *call) error {
				if err := d.check(c); err != nil {
					return err
				}
				id, err := nodeIn(ctx, c, c.args[0])
				if err != nil {
					return err
				}
				out, _, err := client.Call(ctx, c.client, op.ReadNodeIdentity, op.NodeTarget{NodeID: id})
				if err != nil {
					return err
				}
				if d.wanted() {
					return d.write(c, out)
				}
				if len(out.Claims) == 0 {
					_, err := fmt.Fprintln(c.Out, "The node has no identity yet.")
					return err
				}
				rows := [][]string{{"Claim Key", "Claim Value"}}
				for _, name := range slices.SortedFunc(maps.Keys(out.Claims), byClaim) {
					rows = append(rows, []string{name, claimText(name, out.Claims[name])})
				}
				p := c.page()
				p.table(rows)
				return c.show(p)
			}
		},
	}
}

// byClaim puts the registered claims before those of nodes.
func byClaim(a, b string) int {
	own := func(s string) bool { return strings.HasPrefix(s, "nomad_") }
	switch {
	case own(a) != own(b) && own(b):
		return -1
	case own(a) != own(b):
		return 1
	}
	return strings.Compare(a, b)
}

// claimText is a claim as people read it: times as such, lists with commas.
func claimText(name string, v any) string {
	switch x := v.(type) {
	case float64:
		if name == "exp" || name == "iat" || name == "nbf" {
			return time.Unix(int64(x), 0).UTC().Format(time.RFC3339)
		}
	case []any:
		var all []string
		for _, e := range x {
			all = append(all, fmt.Sprint(e))
		}
		return strings.Join(all, ", ")
	}
	return fmt.Sprint(v)
}

// nodeIdentityRenewCommand has a node get a new identity.
func nodeIdentityRenewCommand() *command {
	return &command{
		name: "node identity renew", args: "<node>", synopsis: "Have a node get a new identity", min: 1, max: 1,
		example: "node identity renew 4d2ba53b",
		help:    `Has a node get a new identity with its next heartbeat. The one that it has stays valid until its own end.`,
		setup: func(f *flags) action {
			return func(ctx context.Context, c *call) error {
				id, err := nodeIn(ctx, c, c.args[0])
				if err != nil {
					return err
				}
				_, _, err = client.Call(ctx, c.client, op.RenewNodeIdentity, op.RenewNode{NodeID: id})
				return err
			}
		},
	}
}

// nodeIntroCreateCommand makes an introduction token.
func nodeIntroCreateCommand() *command {
	return &command{
		name: "node intro create", synopsis: "Make a token that lets one new node join",
		example: "node intro create -node-name worker-7 -node-pool gpu -ttl 15m",
		help: `Makes an introduction token. The first node that registers with it uses it up. With server.client_introduction.enforcement =
			"strict", servers take new nodes only with such a token. Give it to the new agent by -client-intro-token, or in the file
			intro_token.jwt in the state directory of the agent.`,
		setup: func(f *flags) action {
			d := f.data()
			name := f.String("node-name", "Only a node of this `name` can use the token. The default is any.")
			pool := f.String("node-pool", "Only a node of this `pool` can use the token. The default is the pool default.")
			ttl := f.FlagSet.Duration("ttl", 0, "How long the token is valid, a `duration`. The default is that of the servers, five minutes.")
			return func(ctx context.Context, c *call) error {
				if err := d.check(c); err != nil {
					return err
				}
				out, _, err := client.Call(ctx, c.client, op.IntroduceNode, op.Introduce{TTL: *ttl, NodeName: *name, NodePool: *pool})
				if err != nil {
					return err
				}
				if d.wanted() {
					return d.write(c, out)
				}
				_, err = fmt.Fprintf(c.Out, "Successfully generated client introduction token:\n\n%s\n", out.JWT)
				return err
			}
		},
	}
}

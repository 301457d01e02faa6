package cli

import (
	"context"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"berth"
	"berth/client"
	"berth/op"
)

// serverMembersCommand lists the servers. It asks each region for its leader; a
// region that does not answer is reported below the table and is no error.
func serverMembersCommand() *command {
	return &command{
		name: "server members", synopsis: "List the servers",
		example: "server members",
		help:    "Lists the servers of all regions, as known by gossip to the server that answers, and the leader of each region.",
		setup: func(f *flags) action {
			data := f.data()
			verbose := f.Bool("verbose", "Include the protocol versions and tags of each server.")
			detailed := f.Bool("detailed", "Old spelling of -verbose.")
			f.webFlag()
			return func(ctx context.Context, c *call) error {
				if err := data.check(c); err != nil {
					return err
				}
				out, _, err := client.Call(ctx, c.client, op.ListMembers, op.Query{})
				if err != nil {
					return err
				}
				c.web(ctx, "/servers")
				// Gossip has no order.
				slices.SortFunc(out.Members, func(a, b op.AgentMember) int {
					for _, tag := range []string{"region", "dc"} {
						if n := strings.Compare(a.Tags[tag], b.Tags[tag]); n != 0 {
							return n
						}
					}
					return strings.Compare(a.Name, b.Name)
				})
				if data.wanted() {
					return data.write(c, out.Members)
				}
				// The data of -json has no leaders, so they are asked for only
				// now.
				leaders, silent := c.leaders(ctx, out.Members)
				p := c.page()
				p.table(memberRows(out.Members, leaders, *verbose || *detailed))
				if len(silent) > 0 {
					p.gap()
					for _, region := range slices.Sorted(maps.Keys(silent)) {
						p.linef("The leader of region %s is unknown: %v", region, silent[region])
					}
				}
				return c.show(p)
			}
		},
	}
}

// leaders returns the address of each region's leader, and the errors of
// regions where it is unknown.
func (c *call) leaders(ctx context.Context, members []op.AgentMember) (leaders map[string]string, silent map[string]error) {
	leaders, silent = map[string]string{}, map[string]error{}
	for _, m := range members {
		region := m.Tags["region"]
		if _, asked := leaders[region]; asked || silent[region] != nil {
			continue
		}
		addr, _, err := client.Call(ctx, c.client, op.ReadLeader, op.Query{Region: region})
		switch {
		case err != nil:
			silent[region] = err
		case addr == "":
			silent[region] = berth.Errorf(berth.NoLeader, "No cluster leader")
		default:
			leaders[region] = addr
		}
	}
	return leaders, silent
}

// memberRows is a table of servers. leaders has the RPC address of each
// region's leader.
func memberRows(members []op.AgentMember, leaders map[string]string, verbose bool) [][]string {
	rows := [][]string{{"Name", "Address", "Port", "Status", "Leader", "Raft Version", "Build", "Datacenter", "Region"}}
	if verbose {
		rows = [][]string{{"Name", "Address", "Port", "Status", "Leader", "Protocol", "Raft Version", "Build", "Datacenter", "Region", "Tags"}}
	}
	for _, m := range members {
		t := m.Tags
		leader := leaders[t["region"]]
		// A server may advertise one RPC address and gossip from another.
		leads := leader != "" && (leader == net.JoinHostPort(t["rpc_addr"], t["port"]) || leader == net.JoinHostPort(m.Addr, t["port"]))
		// A server without gossip, such as one with -dev, has no port for it.
		port := "-"
		if m.Port > 0 {
			port = strconv.Itoa(int(m.Port))
		}
		row := []string{m.Name, m.Addr, port, m.Status, strconv.FormatBool(leads)}
		if verbose {
			row = append(row, strconv.Itoa(int(m.ProtocolCur)))
		}
		// The tag "build" is the version of the API, which tools compare.
		row = append(row, t["raft_vsn"], or(t["berth"], t["build"]), t["dc"], t["region"])
		if verbose {
			var tags []string
			for _, k := range slices.Sorted(maps.Keys(t)) {
				tags = append(tags, k+"="+t[k])
			}
			row = append(row, strings.Join(tags, ","))
		}
		rows = append(rows, row)
	}
	return rows
}

// serverJoinCommand joins by hand what start_join or retry_join would join.
func serverJoinCommand() *command {
	return &command{
		name: "server join", args: "<addr> [<addr>...]", synopsis: "Join a server to other servers", min: 1, max: -1,
		example: "server join 10.0.0.7",
		help: `Makes the server that is called join the gossip pool of servers at other addresses: host, or host:port if their gossip port is not
			4648. It is enough if one of them answers.`,
		setup: func(*flags) action {
			return func(ctx context.Context, c *call) error {
				out, _, err := client.Call(ctx, c.client, op.Join, op.JoinServers{Addresses: c.args})
				if err != nil {
					return err
				}
				if out.NumJoined == 0 {
					return berth.Errorf(berth.Unavailable, "no server was joined: %s", or(out.Error, "none answers"))
				}
				p := c.page()
				p.linef("Joined %s successfully", plural(out.NumJoined, "server"))
				return c.show(p)
			}
		},
	}
}

// serverForceLeaveCommand marks a server as left in gossip.
func serverForceLeaveCommand() *command {
	return &command{
		name: "server force-leave", args: "<node>", synopsis: "Mark a failed server as left", min: 1, max: 1,
		example: "server force-leave server-3.global",
		help: `Marks a failed server as left, so that the other servers stop waiting for it. It is given by its name in "server members". If it
			is alive after all, it joins again.`,
		setup: func(f *flags) action {
			prune := f.Bool("prune", "Remove the server from the list immediately, instead of listing it as left.")
			return func(ctx context.Context, c *call) error {
				_, _, err := client.Call(ctx, c.client, op.LeaveByForce, op.ForceLeave{Node: c.args[0], Prune: *prune})
				return err
			}
		},
	}
}

package cli

import (
	"context"
	"strconv"

	"berth/client"
	"berth/op"
)

// operatorRaftListCommand lists the servers that the log knows, unlike "server
// members", which asks gossip.
func operatorRaftListCommand() *command {
	return &command{
		name: "operator raft list-peers", synopsis: "List the Raft peers",
		example: "operator raft list-peers",
		help: `Lists the servers in the Raft configuration, which of them is the leader, and which are voters. A server that is unknown to gossip
			is shown as "(unknown)".`,
		setup: func(f *flags) action {
			stale := f.Bool("stale", "Accept the answer of any server, even without a leader.")
			data := f.data()
			read := func(ctx context.Context, c *call) (op.RaftConfiguration, error) {
				out, _, err := client.Call(ctx, c.client, op.ReadRaft, op.Query{AllowStale: *stale})
				return out, err
			}
			return answer(data, read, func(_ *call, p *page, out op.RaftConfiguration) {
				rows := [][]string{{"Node", "ID", "Address", "State", "Voter", "RaftProtocol"}}
				for _, s := range out.Servers {
					state := "follower"
					if s.Leader {
						state = "leader"
					}
					rows = append(rows, []string{s.Node, s.ID, s.Address, state, strconv.FormatBool(s.Voter), s.RaftProtocol})
				}
				p.table(rows)
			})
		},
	}
}

// raftPeerFlags identify a server by ID or address.
type raftPeerFlags struct{ id, address *string }

// raftPeer declares the flags of commands about one peer.
func (f *flags) raftPeer() raftPeerFlags {
	return raftPeerFlags{
		f.String("peer-id", "The `ID` of the server, as shown by \"operator raft list-peers\"."),
		f.String("peer-address", "The `address` of the server as host:port, instead of its ID."),
	}
}

// peer returns the server for the request and for messages.
func (r raftPeerFlags) peer(c *call) (in op.RaftPeer, name string, err error) {
	switch {
	case *r.id == "" && *r.address == "":
		return in, "", c.usagef("-peer-id or -peer-address is required")
	case *r.id != "" && *r.address != "":
		return in, "", c.usagef("-peer-id and -peer-address cannot be used together")
	case *r.id != "":
		return op.RaftPeer{ID: *r.id}, "id " + strconv.Quote(*r.id), nil
	}
	return op.RaftPeer{Address: *r.address}, "address " + strconv.Quote(*r.address), nil
}

// operatorRaftRemoveCommand removes a peer that gossip no longer knows, or that
// autopilot does not remove.
func operatorRaftRemoveCommand() *command {
	return &command{
		name: "operator raft remove-peer", synopsis: "Remove a server from the Raft peers", list: "operator raft list-peers",
		example: "operator raft remove-peer -peer-address 10.0.0.7:4647",
		help: `Removes a server from the Raft configuration. Use it for a server that is gone for good but is still listed. For one that still
			shows in "server members", prefer "server force-leave"; a server that is running is added again.`,
		setup: func(f *flags) action {
			which := f.raftPeer()
			return func(ctx context.Context, c *call) error {
				in, name, err := which.peer(c)
				if err != nil {
					return err
				}
				if _, _, err := client.Call(ctx, c.client, op.RemoveRaftPeer, in); err != nil {
					return err
				}
				p := c.page()
				p.linef("Removed peer with %s", name)
				return c.show(p)
			}
		},
	}
}

// operatorRaftTransferCommand makes another voter the leader, such as before
// the leader's machine is restarted.
func operatorRaftTransferCommand() *command {
	return &command{
		name: "operator raft transfer-leadership", synopsis: "Transfer leadership to another server", list: "operator raft list-peers",
		example: "operator raft transfer-leadership -peer-address 10.0.0.8:4647",
		help: `Transfers leadership to another server, which must be a voter. Writes in progress complete first. If the transfer fails, the
			leader stays.`,
		setup: func(f *flags) action {
			which := f.raftPeer()
			return func(ctx context.Context, c *call) error {
				in, name, err := which.peer(c)
				if err != nil {
					return err
				}
				out, _, err := client.Call(ctx, c.client, op.TransferLeadership, in)
				if err != nil {
					return err
				}
				p := c.page()
				if out.Noop {
					p.linef("The peer with %s is already the leader", name)
				} else {
					p.linef("Transferred leadership to peer with %s", name)
				}
				return c.show(p)
			}
		},
	}
}

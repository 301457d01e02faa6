package cli

import (
	"context"
	"strconv"

	"berth/client"
	"berth/op"
)

func operatorRaftListCommand() *command {
	return &command{
		name: "operator raft list-peers", synopsis: "List the servers that agree on the state",
		help: `Lists the servers that agree on the state, as the log says, which of them leads, and which count for majorities. A server that the
			gossip does not know is "(unknown)".`,
		setup: func(f *flags) action {
			stale := f.Bool("stale", "Take the answer of any server, though no server leads.")
			data := f.data()
			return func(ctx context.Context, c *call) error {
				if err := data.check(c); err != nil {
					return err
				}
				out, _, err := client.Call(ctx, c.client, op.ReadRaft, op.Query{AllowStale: *stale})
				if err != nil {
					return err
				}
				if data.wanted() {
					return data.write(c, out)
				}
				rows := [][]string{{"Node", "ID", "Address", "State", "Voter", "RaftProtocol"}}
				for _, s := range out.Servers {
					state := "follower"
					if s.Leader {
						state = "leader"
					}
					rows = append(rows, []string{s.Node, s.ID, s.Address, state, strconv.FormatBool(s.Voter), s.RaftProtocol})
				}
				p := c.page()
				p.table(rows)
				return c.show(p)
			}
		},
	}
}

// raftPeerFlags name a server in one of two ways.
type raftPeerFlags struct{ id, address *string }

func (f *flags) raftPeer() raftPeerFlags {
	return raftPeerFlags{
		f.String("peer-id", "The `ID` of the server, as \"operator raft list-peers\" shows it."),
		f.String("peer-address", "The `address` of the server, host:port, instead."),
	}
}

// peer returns the server as a request names it, and as a person is told.
func (r raftPeerFlags) peer(c *call) (in op.RaftPeer, name string, err error) {
	switch {
	case *r.id == "" && *r.address == "":
		return in, "", c.usagef("-peer-id or -peer-address must say which server")
	case *r.id != "" && *r.address != "":
		return in, "", c.usagef("-peer-id and -peer-address cannot both be given")
	case *r.id != "":
		return op.RaftPeer{ID: *r.id}, "id " + strconv.Quote(*r.id), nil
	}
	return op.RaftPeer{Address: *r.address}, "address " + strconv.Quote(*r.address), nil
}

func operatorRaftRemoveCommand() *command {
	return &command{
		name: "operator raft remove-peer", synopsis: "Take a server out of those that agree on the state",
		help: `Takes a server out of those that agree on the state, for one that is gone for good and was left behind. A server that still shows in
			"server members" is better taken out with "server force-leave"; one that runs is taken in again.`,
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

func operatorRaftTransferCommand() *command {
	return &command{
		name: "operator raft transfer-leadership", synopsis: "Let another server lead",
		help: "Hands leadership over to another server, which must be a voter. What is on its way is finished first; if it fails, the leader leads on.",
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
					p.linef("The peer with %s leads already", name)
				} else {
					p.linef("Transferred leadership to peer with %s", name)
				}
				return c.show(p)
			}
		},
	}
}

package api

import (
	"context"
	"io"
	"slices"

	"berth"
	"berth/op"
)

// Operator is what the API asks of this server's part in the cluster on behalf of
// operators. What only the leader can do fails elsewhere with an error that wraps
// state.ErrLost.
type Operator interface {
	// RaftServers returns the servers that agree on the state, in order of ID.
	RaftServers() ([]op.RaftServer, error)
	// RemoveRaftServer takes one out, on the leader.
	RemoveRaftServer(ctx context.Context, id string) error
	// TransferLeadership hands leadership over to a voter, on the leader.
	TransferLeadership(ctx context.Context, id string) error
	// ServersHealth returns how the leader sees the servers.
	ServersHealth() (op.AutopilotHealth, error)
	// SaveSnapshot saves this server's state as a snapshot.
	SaveSnapshot() (*Snapshot, error)
	// RestoreSnapshot replaces the state of the cluster, on the leader, and
	// returns at which index the snapshot was saved, and that of the state now.
	RestoreSnapshot(ctx context.Context, from io.Reader) (saved, now uint64, err error)
}

// Snapshot is a saved state. The caller closes it.
type Snapshot struct {
	io.ReadCloser
	Size   int64  // in bytes
	Digest string // in the format of op.HeaderDigest
	Index  uint64 // of the state
}

// raft registers the operations on the servers that agree on the state.
func (s *Server) raft() {
	read(s, op.ReadRaft, func(r *Read, _ *op.Query) (out op.RaftConfiguration, err error) {
		// The configuration is not part of the state, so there is nothing to
		// wait for.
		r.Ready()
		if out.Servers, err = s.raftServers(); err != nil {
			return out, err
		}
		r.At(r.Index)
		return out, nil
	})
	s.failpoints()
	effect(s, op.RemoveRaftPeer, func(ctx context.Context, _ *Write, in *op.RaftPeer) (out op.RaftPeerRemoved, err error) {
		_, peer, err := s.raftPeer(in)
		if err != nil {
			return out, err
		}
		return op.RaftPeerRemoved{ID: peer.ID, Address: peer.Address}, s.Operator.RemoveRaftServer(ctx, peer.ID)
	})
	effect(s, op.TransferLeadership, func(ctx context.Context, _ *Write, in *op.RaftPeer) (out op.LeadershipTransfer, err error) {
		all, peer, err := s.raftPeer(in)
		if err != nil {
			return out, err
		}
		// The answer names both servers even if there is nothing to do.
		out.To = peer
		if i := slices.IndexFunc(all, func(p op.RaftServer) bool { return p.Leader }); i >= 0 {
			out.From = all[i]
		}
		if peer.Leader {
			out.Noop = true
			return out, nil
		}
		if err := s.Operator.TransferLeadership(ctx, peer.ID); err != nil {
			return out, err
		}
		// The list was read before the transfer.
		out.From.Leader, out.To.Leader = false, true
		return out, nil
	})
}

// raftServers returns the servers that agree on the state; any other agent
// returns errNoOperator.
func (s *Server) raftServers() ([]op.RaftServer, error) {
	if s.Operator == nil {
		return nil, errNoOperator
	}
	return s.Operator.RaftServers()
}

// errNoOperator answers for the log in an agent that has no part in it.
var errNoOperator = berth.Errorf(berth.Unavailable, "this agent has no part in the cluster's log")

// raftPeer finds the server that a request names.
func (s *Server) raftPeer(in *op.RaftPeer) (all []op.RaftServer, peer op.RaftServer, err error) {
	switch {
	case in.ID == "" && in.Address == "":
		return nil, peer, berth.Errorf(berth.Invalid, "id, address: both are missing: set one of them to name the server")
	case in.ID != "" && in.Address != "":
		return nil, peer, berth.Errorf(berth.Invalid, "id, address: both are set: set one of them to name the server")
	}
	if all, err = s.raftServers(); err != nil {
		return nil, peer, err
	}
	i := slices.IndexFunc(all, func(p op.RaftServer) bool { return p.ID == in.ID || in.ID == "" && p.Address == in.Address })
	switch {
	case i >= 0:
		return all, all[i], nil
	case in.ID != "":
		return nil, peer, berth.Errorf(berth.NotFound, "id %q was not found in the Raft configuration", berth.Clip(in.ID, 64))
	}
	return nil, peer, berth.Errorf(berth.NotFound, "address %q was not found in the Raft configuration", berth.Clip(in.Address, 64))
}

package op

import "berth/internal/acl"

// RaftServer is a server that agrees on the state, as the log says.
type RaftServer struct {
	ID           string
	Node         string // its name in the gossip; UnknownNode if that does not tell of it
	Address      string // host:port of its RPC port
	Leader       bool
	Voter        bool   // it votes
	RaftProtocol string // the version
}

// UnknownNode is shown for a server whose name is not known.
const UnknownNode = "(unknown)"

// RaftConfiguration answers ReadRaft.
type RaftConfiguration struct {
	Servers []RaftServer // in order of ID
	Index   uint64       // always 0, as in Nomad; the index of the configuration in the log is not shown
}

// RaftPeer names a server by its ID or its address, not by both.
type RaftPeer struct {
	ID      string `query:"id"`
	Address string `query:"address"`
	Write
}

// RaftPeerRemoved answers RemoveRaftPeer.
type RaftPeerRemoved struct{ ID, Address string }

// LeadershipTransfer answers TransferLeadership.
type LeadershipTransfer struct {
	From, To RaftServer
	Noop     bool // the server was already the leader
}

// The operations on the Raft configuration.
var (
	ReadRaft           = define[Query, RaftConfiguration]("raft.read", "GET /v1/operator/raft/configuration", "", acl.Management, acl.NoSpace, leader)
	RemoveRaftPeer     = define[RaftPeer, RaftPeerRemoved]("raft.remove_peer", "DELETE /v1/operator/raft/peer", "", acl.Management, acl.NoSpace, deposes)
	TransferLeadership = define[RaftPeer, LeadershipTransfer]("raft.transfer", "PUT /v1/operator/raft/transfer-leadership", "", acl.Management, acl.NoSpace, deposes)
)

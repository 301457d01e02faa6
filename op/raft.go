package op

import "berth/internal/acl"

// RaftServer is a server that agrees on the state, as the log says.
type RaftServer struct {
	ID           string
	Node         string // its name in the gossip; UnknownNode if that does not tell of it
	Address      string // host:port of its RPC port
	Leader       bool
	Voter        bool   // it counts for majorities
	RaftProtocol string // the version
}

// UnknownNode is the name of a server whose name is not known.
const UnknownNode = "(unknown)"

// RaftConfiguration answers ReadRaft.
type RaftConfiguration struct {
	Servers []RaftServer // in order of ID
	Index   uint64       // always 0, as Nomad has it: the log's own index of the configuration is not told
}

// RaftPeer names a server by one of the two.
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
	Noop     bool // it led already
}

// The operations on the servers that agree on the state.
var (
	ReadRaft           = define[Query, RaftConfiguration]("raft.read", "GET /v1/operator/raft/configuration", "", acl.Management, acl.NoSpace, leader)
	RemoveRaftPeer     = define[RaftPeer, RaftPeerRemoved]("raft.remove_peer", "DELETE /v1/operator/raft/peer", "", acl.Management, acl.NoSpace, deposes)
	TransferLeadership = define[RaftPeer, LeadershipTransfer]("raft.transfer", "PUT /v1/operator/raft/transfer-leadership", "", acl.Management, acl.NoSpace, deposes)
)

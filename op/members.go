package op

import "berth/internal/acl"

// Members answers ListMembers: all servers of all regions, and which of them
// was asked.
type Members struct {
	ServerName   string
	ServerRegion string
	ServerDC     string
	Members      []AgentMember
}

// JoinServers asks a server to join the gossip of others.
type JoinServers struct {
	Addresses []string `query:"address"` // host, or host:port
	Write
}

// ServersJoined answers JoinServers. It is an answer, not an error, that none
// was joined.
type ServersJoined struct {
	NumJoined int    `json:"num_joined"`
	Error     string `json:"error"`
}

// ForceLeave asks for a server that failed to be taken for one that left.
type ForceLeave struct {
	Node  string `query:"node"`  // the name of the member
	Prune bool   `query:"prune"` // forget it at once as well
	Write
}

// GossipKey names a key of the gossip.
type GossipKey struct {
	Key string // in base64
	Write
}

// Keyring is what the servers said of their keys.
type Keyring struct {
	Messages    map[string]string // of servers that could not do what was asked, by name
	Keys        map[string]int    // how many servers hold a key
	PrimaryKeys map[string]int    // how many send with it
	NumNodes    int               // how many were asked
}

// SetServers tells a node's agent where servers are.
type SetServers struct {
	Addresses []string `query:"address"` // host, or host:port
	Write
}

// The operations on who is in the cluster. All are about the agent that is
// asked, though the gossip carries what it does to the others.
var (
	ListMembers   = define[Query, Members]("agent.members", "GET /v1/agent/members", "", acl.NodeRead, acl.NoSpace, local)
	Join          = define[JoinServers, ServersJoined]("agent.join", "PUT /v1/agent/join", "", acl.OperatorWrite, acl.NoSpace, local)
	LeaveByForce  = define[ForceLeave, Nothing]("agent.force_leave", "PUT /v1/agent/force-leave", "", acl.AgentWrite, acl.NoSpace, local)
	ListKeys      = define[Query, Keyring]("gossip_key.list", "GET /v1/agent/keyring/list", "", acl.AgentWrite, acl.NoSpace, local)
	InstallKey    = define[GossipKey, Keyring]("gossip_key.install", "PUT /v1/agent/keyring/install", "", acl.AgentWrite, acl.NoSpace, local)
	UseKey        = define[GossipKey, Keyring]("gossip_key.use", "PUT /v1/agent/keyring/use", "", acl.AgentWrite, acl.NoSpace, local)
	RemoveKey     = define[GossipKey, Keyring]("gossip_key.remove", "PUT /v1/agent/keyring/remove", "", acl.AgentWrite, acl.NoSpace, local)
	AgentServers  = define[Query, []string]("agent.servers", "GET /v1/agent/servers", "", acl.AgentRead, acl.NoSpace, local)
	ChangeServers = define[SetServers, Nothing]("agent.set_servers", "PUT /v1/agent/servers", "", acl.AgentWrite, acl.NoSpace, local)
)

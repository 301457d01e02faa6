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

// JoinServers asks a server to join the gossip of other servers.
type JoinServers struct {
	Addresses []string `query:"address"` // host, or host:port
	Write
}

// ServersJoined answers JoinServers, even if no server could be joined.
type ServersJoined struct {
	NumJoined int    `json:"num_joined"`
	Error     string `json:"error"`
}

// ForceLeave asks for a failed server to be treated as one that left.
type ForceLeave struct {
	Node  string `query:"node"`  // the name of the member
	Prune bool   `query:"prune"` // also remove it from the list at once
	Write
}

// GossipKey names an encryption key of the gossip.
type GossipKey struct {
	Key string // in base64
	Write
}

// Keyring is what the servers answered about their keys.
type Keyring struct {
	Messages    map[string]string // errors, by the name of the server
	Keys        map[string]int    // how many servers have each key
	PrimaryKeys map[string]int    // how many servers encrypt with each key
	NumNodes    int               // number of servers asked
}

// SetServers replaces the servers that a client knows.
type SetServers struct {
	Addresses []string `query:"address"` // host, or host:port
	Write
}

// The operations on membership. All act on the agent that is asked; gossip
// carries the effects to the others.
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

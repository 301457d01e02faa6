package op

import (
	"time"

	"berth"
	"berth/internal/acl"
)

// Node is a node as the API shows it.
type Node struct {
	*berth.Node
	Drain         bool   // legacy: DrainStrategy is set
	ComputedClass string // Class under the name that clients know
}

// ShowNode returns a node as the API shows it.
func ShowNode(n *berth.Node) Node { return Node{Node: n, Drain: n.Draining(), ComputedClass: n.Class} }

// NodeStub is a node in a list.
type NodeStub struct {
	Address               string
	ID                    berth.NodeID
	Attributes            map[string]string `json:",omitempty"`
	Datacenter            string
	Name                  string
	NodeClass             string
	NodePool              string
	Version               string
	Drain                 bool
	SchedulingEligibility string
	Status                string
	StatusDescription     string
	Drivers               map[string]*berth.DriverInfo
	NodeResources         *berth.NodeResources         `json:",omitempty"`
	ReservedResources     *berth.NodeReservedResources `json:",omitempty"`
	LastDrain             *berth.DrainMetadata
	CreateIndex           uint64
	ModifyIndex           uint64
}

// NodeRef names a node.
type NodeRef struct {
	NodeID string
	Query
}

// NodesQuery asks for nodes.
type NodesQuery struct {
	Resources bool `query:"resources"`
	OS        bool `query:"os"`
	Query
}

// UpdateDrain asks for a drain of a node to begin or end.
type UpdateDrain struct {
	NodeID       string
	DrainSpec    *berth.DrainSpec // nil: end the drain
	MarkEligible bool             // without DrainSpec: make the node eligible again
	Meta         map[string]string
	Write
}

// The operations on nodes.
var (
	ListNodes  = define[NodesQuery, []NodeStub]("node.list", "GET /v1/nodes", "", acl.NodeRead, acl.NoSpace)
	ReadNode   = define[NodeRef, Node]("node.read", "GET /v1/node/{NodeID}", "", acl.NodeRead, acl.NoSpace)
	DrainNode  = define[UpdateDrain, EligibilitySet]("node.drain", "PUT /v1/node/{NodeID}/drain", "", acl.NodeWrite, acl.NoSpace)
	NodeAllocs = define[NodeRef, []Alloc]("node.allocations", "GET /v1/node/{NodeID}/allocations", "", acl.NodeRead, acl.NodeSpace)
)

// The rest of this file is what agents call, in the protocol of Nomad's client
// agents.

// RegisterNode creates or updates a node with its fingerprint.
type RegisterNode struct {
	Node      *berth.Node
	NodeEvent *berth.NodeEvent
	Write
}

// BeatNode is a heartbeat with the node's status.
type BeatNode struct {
	NodeID    berth.NodeID
	Status    string
	UpdatedAt int64 // s since 1970
	NodeEvent *berth.NodeEvent
	SecretID  string // sent in addition to Write.AuthToken, which older agents leave empty
	// RenewIdentity asks for a new identity, though the one in AuthToken, if there
	// is one, may be good for long.
	RenewIdentity bool
	Write
}

// NodeAnswer answers RegisterNode and BeatNode.
type NodeAnswer struct {
	HeartbeatTTL          time.Duration  // the next heartbeat is due within this time
	EvalIDs               []berth.EvalID // that the change of the node raised
	EvalCreateIndex       uint64
	NodeModifyIndex       uint64
	LeaderRPCAddr         string
	NumNodes              int32        // in the cluster; with more of them, agents change servers less often
	Servers               []ServerAddr // that agents can call
	SchedulingEligibility string
	// SignedIdentity is the node's identity from now on, a JWT; nil: what it has
	// stays.
	SignedIdentity *string
	Meta
}

// ServerAddr is the address of a server.
type ServerAddr struct {
	RPCAdvertiseAddr string
	Datacenter       string
}

// NodeAllocIndexes asks which allocations a node has. It is a blocking query.
type NodeAllocIndexes struct {
	NodeID   berth.NodeID
	SecretID string
	Query
}

// NodeAllocIndexesAnswer maps allocations to their AllocModifyIndex. An agent
// fetches those whose index grew and removes those that are missing.
type NodeAllocIndexesAnswer struct {
	Allocs        map[string]uint64
	MigrateTokens map[string]string
	Meta
}

// GetAllocs asks for complete allocations. It waits until the server's state
// has reached MinQueryIndex.
type GetAllocs struct {
	AllocIDs []string
	SecretID string
	Query
}

// GetAllocsAnswer holds those of the allocations that exist and belong to the
// node.
type GetAllocsAnswer struct {
	Allocs []*Alloc
	Meta
}

// ReportAllocs reports the client status of allocations of one node.
type ReportAllocs struct {
	Alloc []*AllocReport
	Write
}

// AllocReport is what a client reports about one allocation.
type AllocReport struct {
	ID                berth.AllocID
	NodeID            berth.NodeID
	Namespace         string
	JobID             berth.JobID
	ClientStatus      berth.ClientStatus
	ClientDescription string
	TaskStates        map[string]*berth.TaskState
	DeploymentStatus  *berth.AllocDeploymentStatus
	NetworkStatus     *berth.AllocNetworkStatus
}

// WriteAnswer answers a write that has no result except its index.
type WriteAnswer struct{ Meta }

// EmitEvents adds node events.
type EmitEvents struct {
	NodeEvents map[string][]*berth.NodeEvent
	Write
}

// DrainSelf asks for a drain of the node because its agent is about to end, or, when
// it is back, for the end of that. The drain of an operator stays as it is.
type DrainSelf struct {
	NodeID berth.NodeID
	Spec   *berth.DrainSpec // nil: the agent is back
	Write
}

// ShutdownDrain is the key of the metadata by which a drain is known that an agent
// asked for before it ended.
const ShutdownDrain = "berth.shutdown"

// The operations that only agents use.
var (
	NodeRegister  = define[RegisterNode, NodeAnswer]("node.register", "", "Node.Register", acl.Node, acl.NoSpace, write)
	NodeBeat      = define[BeatNode, NodeAnswer]("node.beat", "", "Node.UpdateStatus", acl.Node, acl.NoSpace, write)
	NodeDrainSelf = define[DrainSelf, EligibilitySet]("node.drain-self", "", "Node.DrainSelf", acl.Node, acl.NoSpace, write)
	NodePull      = define[NodeAllocIndexes, NodeAllocIndexesAnswer]("node.pull", "", "Node.GetClientAllocs", acl.Node, acl.NoSpace)
	AllocFetch    = define[GetAllocs, GetAllocsAnswer]("alloc.fetch", "", "Alloc.GetAllocs", acl.Node, acl.NoSpace)
	AllocReporter = define[ReportAllocs, WriteAnswer]("alloc.report", "", "Node.UpdateAlloc", acl.Node, acl.NoSpace, write)
	NodeEvents    = define[EmitEvents, WriteAnswer]("node.events", "", "Node.EmitEvents", acl.Node, acl.NoSpace, write)
)

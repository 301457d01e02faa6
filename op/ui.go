package op

import (
	"time"

	"berth"
	"berth/internal/acl"
)

// This file has no counterpart in Nomad's API: what the web UI needs in one
// answer.

// UIStart is what the web UI needs to begin: who answers, and what the caller's
// token allows.
type UIStart struct {
	Index        uint64 // of the state; an event stream that begins after it misses nothing
	Region       string
	Version      string     // of the agent that answers
	ACL          bool       // access control is on
	SignedIn     bool       // the token is valid; without access control always
	TokenName    string     // "" without a token
	TokenType    string     // client or management
	TokenExpires *time.Time // nil: never
	Namespaces   []string   // in which the caller may do anything, in order of name, at most MaxUINamespaces
	// Rights are the capabilities of the caller by namespace, under "" those that
	// belong to none. It is empty without access control.
	Rights map[string][]acl.Capability
}

// MaxUINamespaces is how many namespaces UIStart names.
const MaxUINamespaces = 500

// UIOverview sums up a cluster: of the namespaces that are asked for and that the
// caller may see.
type UIOverview struct {
	Index     uint64
	Jobs      UIJobs
	Allocs    GroupSummary // of jobs that are not stopped
	Evals     UIEvals
	Rates     UIRates
	Nodes     *UINodes // nil: the caller may not see nodes
	Pools     []UIPool // in order of name; empty if the caller may not see nodes
	Attention []UIAttention
	More      int // problems beyond those in Attention
}

// UIJobs counts jobs. Children of periodic and parameterized jobs count like
// others. Waiting are those of which instances wait for capacity, whether others
// of their instances run or not; Pending does not count them.
type UIJobs struct{ Total, Running, Pending, Dead, Stopped, Waiting int }

// UIEvals counts open evaluations.
type UIEvals struct{ Pending, Blocked int }

// UIRates counts what happened in the last minute, as far as the answering server
// saw it: allocations that were placed, started and failed, and evaluations that
// ended.
type UIRates struct{ Placed, Started, Failed, Evaluated int }

// UINodes counts nodes.
type UINodes struct{ Total, Ready, Down, Disconnected, Initializing, Draining, Ineligible int }

// UIPool is the capacity of the ready nodes of a pool, and what of it is used.
type UIPool struct {
	Name     string
	Nodes    int // all
	Ready    int
	Capacity berth.Ask
	Used     berth.Ask
}

// The kinds of UIAttention, most urgent first.
const (
	UIDeploymentFailed  = "deployment-failed"
	UIBlocked           = "blocked"
	UINodeDown          = "node-down"
	UINodeDisconnected  = "node-disconnected"
	UIPromotion         = "promotion"
	UIFailedAllocations = "failed-allocations"
	UIPoolFull          = "pool-full"
)

// UIAttention is something that needs a person.
type UIAttention struct {
	Kind         string // a UI constant
	Namespace    string
	JobID        berth.JobID
	NodeID       berth.NodeID
	Name         string // of the node or the pool
	DeploymentID berth.DeploymentID
	EvalID       berth.EvalID
	Text         string // one sentence, with numbers
	Since        int64  // ns since 1970; 0 is not known
}

// MaxUIAttention is how many problems UIOverview lists.
const MaxUIAttention = 50

// UITopologyQuery asks for all nodes. Job is a job of the query's namespace whose
// allocations are counted on each.
type UITopologyQuery struct {
	Job string `query:"job"`
	Query
}

// UITopology is all nodes in columns of equal length, in order of pool,
// datacenter, rack and name. Numbers in Pool, Datacenter and Rack are places in
// Pools, Datacenters and Racks.
type UITopology struct {
	Index                     uint64
	Pools, Datacenters, Racks []string // a rack is the node's meta "rack", "" if it has none
	ID                        []berth.NodeID
	Name                      []string
	Pool, Datacenter, Rack    []int
	State                     []string // a status, or draining or ineligible if it is ready
	CPU, CPUUsed              []int64  // MHz
	Memory, MemoryUsed        []int64  // MiB
	Disk, DiskUsed            []int64  // MiB
	Allocs                    []int    // that have not ended
	OfJob                     []int    `json:",omitempty"` // of them, those of the job that was asked for
}

// The operations of the web UI.
var (
	ReadUIStart    = define[Query, UIStart]("ui.start", "GET /v1/ui/start", "", acl.Open, acl.NoSpace)
	ReadUIOverview = define[Query, UIOverview]("ui.overview", "GET /v1/ui/overview", "", acl.ListJobs, acl.QuerySpace)
	ReadUITopology = define[UITopologyQuery, UITopology]("ui.topology", "GET /v1/ui/topology", "", acl.NodeRead, acl.NoSpace)
)

package berth

import (
	"time"
)

// NodePool is a named group of nodes. A node is in the one pool it registers
// with; a job is placed on the nodes of the one pool it names, or of all.
type NodePool struct {
	Name                   string
	Description            string
	Meta                   map[string]string
	NodeIdentityTTL        time.Duration // how long the identities of its nodes are valid; 0 is DefaultNodeIdentityTTL
	SchedulerConfiguration *PoolSchedulerConfig
	CreateIndex            uint64
	ModifyIndex            uint64
}

// PoolSchedulerConfig overrides scheduling settings of the cluster for the nodes
// of one pool.
type PoolSchedulerConfig struct {
	SchedulerAlgorithm            string // "": the cluster's
	MemoryOversubscriptionEnabled *bool  `json:",omitempty"` // nil: the cluster's
}

// DefaultNodeIdentityTTL is how long the identity of a node lasts unless its
// pool says otherwise.
const DefaultNodeIdentityTTL = 24 * time.Hour

// BuiltInPools are always there. Nobody changes or deletes them.
var BuiltInPools = []NodePool{
	{Name: AllNodePool, Description: "Node pool with all nodes in the cluster.", NodeIdentityTTL: DefaultNodeIdentityTTL},
	{Name: DefaultNodePool, Description: "Default node pool.", NodeIdentityTTL: DefaultNodeIdentityTTL},
}

// BuiltIn reports whether a name is one of BuiltInPools.
func BuiltIn(pool string) bool { return pool == DefaultNodePool || pool == AllNodePool }

// InPool reports whether a node of one pool belongs to another: "all" has the
// nodes of every pool.
func InPool(node, pool string) bool { return pool == AllNodePool || node == pool }

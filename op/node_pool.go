package op

import (
	"strings"

	"berth"
	"berth/internal/acl"
	"berth/internal/decode"
)

// NodePool is a node pool as the API shows it.
type NodePool struct {
	*berth.NodePool
	NodeIdentityTTL string // "24h0m0s"
}

// PoolRef names a node pool.
type PoolRef struct {
	PoolName string
	Query
}

// PoolNodesQuery asks for the nodes of a node pool.
type PoolNodesQuery struct {
	PoolName  string
	Resources bool `query:"resources"`
	OS        bool `query:"os"`
	Query
}

// PoolJobsQuery asks for the jobs in a node pool, of one namespace or of all
// with *.
type PoolJobsQuery struct {
	PoolName string
	Meta     bool `query:"meta"`
	Query
}

// WriteNodePool asks for a node pool to be created or replaced. Fields that are
// left out are reset.
type WriteNodePool struct {
	PoolName string // over HTTP: from the path, "" on /v1/node/pools
	berth.NodePool
	Write
}

// Shape drops an empty NodeIdentityTTL, which Nomad's clients send when it is
// not set.
func (*WriteNodePool) Shape(body decode.Tree) decode.Tree {
	for name, v := range body {
		if strings.EqualFold(name, "NodeIdentityTTL") && v == "" {
			delete(body, name)
		}
	}
	return body
}

// DeleteNodePool asks for a node pool to be deleted.
type DeleteNodePool struct {
	PoolName string
	Write
}

// The operations on node pools.
var (
	ListPools   = define[Query, []NodePool]("node_pool.list", "GET /v1/node/pools", "", acl.NodePoolRead, acl.NoSpace)
	ReadPool    = define[PoolRef, NodePool]("node_pool.read", "GET /v1/node/pool/{PoolName}", "", acl.NodePoolRead, acl.NoSpace)
	PoolNodes   = define[PoolNodesQuery, []NodeStub]("node_pool.nodes", "GET /v1/node/pool/{PoolName}/nodes", "", acl.NodeRead, acl.NoSpace)
	PoolJobs    = define[PoolJobsQuery, []JobStub]("node_pool.jobs", "GET /v1/node/pool/{PoolName}/jobs", "", acl.ReadJob, acl.QuerySpace)
	WritePool   = define[WriteNodePool, WriteAnswer]("node_pool.write", "PUT /v1/node/pools", "", acl.NodePoolWrite, acl.NoSpace)
	UpdatePool  = define[WriteNodePool, WriteAnswer]("node_pool.update", "PUT /v1/node/pool/{PoolName}", "", acl.NodePoolWrite, acl.NoSpace)
	RemovePool  = define[DeleteNodePool, WriteAnswer]("node_pool.delete", "DELETE /v1/node/pool/{PoolName}", "", acl.NodePoolDelete, acl.NoSpace)
	Eligibility = define[SetEligibility, EligibilitySet]("node.eligibility", "PUT /v1/node/{NodeID}/eligibility", "", acl.NodeWrite, acl.NoSpace)
)

// SetEligibility sets whether a node takes new allocations.
type SetEligibility struct {
	NodeID      string
	Eligibility string // berth.NodeEligible or berth.NodeIneligible
	Write
}

// EligibilitySet answers SetEligibility.
type EligibilitySet struct {
	NodeModifyIndex uint64
	EvalIDs         []berth.EvalID
	EvalCreateIndex uint64
	Meta
}

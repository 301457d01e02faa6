package berth

import (
	"regexp"
	"time"
	"unicode/utf8"
)

// NodePool is a named group of nodes. A node is in the one pool it registers
// with; a job is placed on the nodes of the one pool it names, or of all.
type NodePool struct {
	Name                   string
	Description            string
	Meta                   map[string]string
	NodeIdentityTTL        time.Duration // 0 is DefaultNodeIdentityTTL; kept for clients, as nodes have no identities yet
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

// Bounds of a node pool.
const (
	MaxPoolDescription = 256 // bytes
	maxPoolName        = 128 // bytes
)

// poolName is the form of a node pool's name; 128 is maxPoolName.
var poolName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)

// CheckNodesPool returns the problems of the pool that a node registers with;
// path is the name of its field.
func CheckNodesPool(path, name string) error {
	var ps Problems
	checkPoolName(&ps, path, name)
	if name == AllNodePool {
		ps.Addf(path, "%q has the nodes of every pool; a node registers with one of its own", name)
	}
	return ps.Err()
}

// checkPoolName notes a problem if the name cannot be that of a node pool.
func checkPoolName(ps *Problems, path, name string) {
	if !poolName.MatchString(name) {
		ps.Addf(path, "%.150q is not a valid name of a node pool: want letters, digits, - and _, 1 to %d", name, maxPoolName)
	}
}

// Validate fills in defaults and returns every problem of the pool.
func (p *NodePool) Validate() error {
	if p.NodeIdentityTTL == 0 {
		p.NodeIdentityTTL = DefaultNodeIdentityTTL
	}
	var ps Problems
	checkPoolName(&ps, "Name", p.Name)
	if BuiltIn(p.Name) {
		ps.Addf("Name", "%q is built in and cannot be changed", p.Name)
	}
	if len(p.Description) > MaxPoolDescription || !utf8.ValidString(p.Description) {
		ps.Addf("Description", "is not text of at most %d bytes", MaxPoolDescription)
	}
	ps.CheckMeta("Meta", p.Meta)
	if p.NodeIdentityTTL < 0 {
		ps.Addf("NodeIdentityTTL", "%v is below 0", p.NodeIdentityTTL)
	}
	if s := p.SchedulerConfiguration; s != nil && s.SchedulerAlgorithm != "" {
		checkAlgorithm(&ps, "SchedulerConfiguration.SchedulerAlgorithm", s.SchedulerAlgorithm)
	}
	return ps.Err()
}

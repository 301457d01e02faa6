package op

import (
	"berth"
	"berth/internal/acl"
)

// This file has no counterpart in Nomad's API: what would happen if nodes failed.

// WhatIfQuery names nodes by what they have in common. What is empty excludes
// none; at least one field must be set.
type WhatIfQuery struct {
	Node       string `query:"node"` // ID or name
	Rack       string `query:"rack"` // the node's meta "rack"
	Datacenter string `query:"datacenter"`
	Pool       string `query:"pool"`
	Query
}

// WhatIf is what would become of the allocations of nodes if these went down at
// once. It was tried on a copy of the state, where the scheduler decided.
type WhatIf struct {
	Index  uint64
	Nodes  int      // that would go down: of those that were named, the ones that are not down
	Names  []string // of the first MaxWhatIfNames of them
	Allocs int      // that are live on them
	Moved  int      // found another place
	Lost   int      // found none; the sum over Groups
	Bound  int      // of jobs that run on every node: they are gone with their nodes, and miss nowhere
	// Groups are the groups that would have fewer instances than now, also because
	// others preempt them. Those of jobs that the caller may not see are left out,
	// and their instances are counted in Hidden.
	Groups []WhatIfGroup
	More   int // groups beyond MaxWhatIfGroups
	Hidden int
	// NotTried are jobs that were not decided: beyond the bound of the work, or of
	// stream jobs, whose processing elements are launched one by one.
	NotTried int
}

// WhatIfGroup is a group that would lack instances.
type WhatIfGroup struct {
	Namespace string
	JobID     berth.JobID
	Group     string
	Lost      int    // instances that would find no place, and have one now
	Of        int    // its count
	Why       string // what the scheduler lacked
}

// Bounds of WhatIf.
const (
	MaxWhatIfNames  = 20
	MaxWhatIfGroups = 200
	MaxWhatIfJobs   = 1000 // that are decided
)

// TryWhatIf tries what would happen if nodes failed. It changes nothing.
var TryWhatIf = define[WhatIfQuery, WhatIf]("node.what_if", "GET /v1/nodes/what-if", "", acl.NodeRead, acl.NoSpace)

package op

import (
	"berth"
	"berth/internal/acl"
)

// Deletion is the state of an object's deletion.
type Deletion struct {
	berth.Deletion
	Blocking int // how many objects below it must be deleted first
}

// Resource is any object, with its owners.
type Resource struct {
	Kind        string // Job, Allocation, or one of berth.StreamKinds
	Namespace   string
	Name        string
	ID          string `json:",omitempty"` // of an allocation
	UID         string // never used for another object
	OwnerRefs   []berth.OwnerRef
	Generation  uint64 // in a stream job: the generation; else the version of the job
	Status      string // of a job; for an allocation its client status, for a processing element its connectivity
	Phase       string `json:",omitempty"` // of a stream job
	LaunchCount uint64 `json:",omitempty"` // of a processing element; for its allocation, the launch it belongs to
	// Nodes are the nodes of a host pool that has its own, in the order in
	// which pool_host counts them.
	Nodes []berth.NodeID `json:",omitempty"`
	// Addresses are the addresses of an endpoint by port label; empty while
	// its processing element does not run.
	Addresses   map[string]string `json:",omitempty"`
	Orphaned    bool              `json:",omitempty"` // its owner was deleted without it
	CreateIndex uint64
	ModifyIndex uint64
	Deletion    *Deletion `json:",omitempty"`
}

// ResourcesQuery asks for the objects that meet all its conditions. Allocations
// that have ended are included only if Kind is Allocation: they are kept for
// inspection and use nothing.
type ResourcesQuery struct {
	Kind      string `query:"kind"`      // "" is all
	Job       string `query:"job"`       // a job's ID: that job, and what jobs with that ID own or orphaned
	Owner     string `query:"owner"`     // UID of their owner, which need not exist any more
	Recursive bool   `query:"recursive"` // with Owner: also what the results own
	Orphaned  bool   `query:"orphaned"`  // only orphaned objects
	Query
}

// DeleteResource asks for an object to be deleted: a job, an object of a stream
// job, an allocation of one, or an orphaned object.
type DeleteResource struct {
	UID         string
	Propagation string `query:"propagation"` // "" is background
	Write
}

// The operations on objects of any kind. Deleting a job also requires the right
// to submit jobs.
var (
	ListResources  = define[ResourcesQuery, []Resource]("resource.list", "GET /v1/resources", "", acl.ReadJob, acl.QuerySpace)
	RemoveResource = define[DeleteResource, AllocStopped]("resource.delete", "DELETE /v1/resource/{UID}", "", acl.AllocLifecycle, acl.QuerySpace)
)

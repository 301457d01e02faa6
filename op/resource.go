package op

import (
	"berth"
	"berth/internal/acl"
)

// Deletion says how an object is being deleted.
type Deletion struct {
	berth.Deletion
	Blocking int // how many of what it owns, or what that owns, must go before it
}

// Resource is an object as one that is owned, or owns others.
type Resource struct {
	Kind        string // Job, Allocation, or one of berth.StreamKinds
	Namespace   string
	Name        string
	ID          string `json:",omitempty"` // of an allocation
	UID         string // for ever this object's, whatever its name
	OwnerRefs   []berth.OwnerRef
	Generation  uint64 // of a stream job, of what it owns and what that does; else the version of the job
	Status      string // of a job, the client status of an allocation, or the connectivity of a processing element
	Phase       string `json:",omitempty"` // of a stream job
	LaunchCount uint64 `json:",omitempty"` // of a processing element, or the launch that its allocation is of
	// Nodes are, of a host pool that has nodes of its own, which: in the order in
	// which pool_host counts them.
	Nodes []berth.NodeID `json:",omitempty"`
	// Addresses are, of an endpoint, where the ports of its processing element
	// are reached, by their labels; none while that does not run.
	Addresses   map[string]string `json:",omitempty"`
	Orphaned    bool              `json:",omitempty"` // its owner is gone and left it to itself
	CreateIndex uint64
	ModifyIndex uint64
	Deletion    *Deletion `json:",omitempty"`
}

// ResourcesQuery asks for objects: all that fit what is said. Of allocations
// those that have ended are left out unless it asks for their kind alone: they
// are kept to be looked at, and hold nothing.
type ResourcesQuery struct {
	Kind      string `query:"kind"`      // "" is all
	Job       string `query:"job"`       // a job's ID: the job, and what jobs of that ID own or left
	Owner     string `query:"owner"`     // the UID of what owns them, be it there or not
	Recursive bool   `query:"recursive"` // with Owner: also what those own
	Orphaned  bool   `query:"orphaned"`  // that were left to themselves
	Query
}

// DeleteResource asks for an object to be deleted: a job, what a stream job
// owns, an allocation of such, or one that was left to itself.
type DeleteResource struct {
	UID         string
	Propagation string `query:"propagation"` // "" is background
	Write
}

// The operations on objects of any kind. To delete a job takes the right to
// submit one as well.
var (
	ListResources  = define[ResourcesQuery, []Resource]("resource.list", "GET /v1/resources", "", acl.ReadJob, acl.QuerySpace)
	RemoveResource = define[DeleteResource, AllocStopped]("resource.delete", "DELETE /v1/resource/{UID}", "", acl.AllocLifecycle, acl.QuerySpace)
)

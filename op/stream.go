package op

import (
	"berth"
	"berth/internal/acl"
)

// Recovery describes the earlier incarnations that were given up.
type Recovery struct {
	Count        int
	Predecessors []string // UIDs, the newest last
	LastCause    string   // "": none was given up
}

// StreamStanding is the progress of a stream job's submission. Expected counts
// the objects planned at its generation, Observed those of them that exist as
// planned.
type StreamStanding struct {
	JobID      berth.JobID
	Namespace  string
	UID        string // of this incarnation
	StreamID   uint64 // 0: not planned yet
	Phase      string // Submission, Submitted, Failed or Stopped
	State      string // what it waits for: plan, wait-configs … submitted
	Generation uint64
	Version    uint64 // job version that is planned, or will be if none is
	Newest     uint64 // newest job version; it is planned once Version is submitted
	Expected   map[string]int
	Observed   map[string]int
	Missing    []string // kind and name of objects that do not exist as planned
	Stale      []string // kind and name of objects of an older generation
	Deadline   int64    // ns since 1970, when this attempt times out; 0 is never
	Retries    int      // how many timeouts it recovered from
	Ready      bool     // it is submitted, and every processing element runs with all its connections
	LastError  string
	Deletion   *Deletion `json:",omitempty"`
	Recovery   *Recovery
}

// PERef names the launch of a processing element to which an allocation
// belongs.
type PERef struct {
	Name        string
	UID         string
	LaunchCount uint64
	Zombie      bool `json:",omitempty"` // it failed and was launched again, and its group keeps failed allocations visible
}

// StatusZombie is the status of a failed allocation that is kept visible.
const StatusZombie = "zombie"

// PE is a processing element: one instance of a group of a stream job, which
// keeps its identity from one allocation to the next.
type PE struct {
	Namespace   string
	JobID       berth.JobID
	Name        string // job.group[index]
	UID         string
	OwnerRefs   []berth.OwnerRef // empty: it was left to itself
	ID          int              // never reused within an incarnation of its job
	Group       string
	Index       uint32
	Region      string
	Channel     int
	MaxChannels int                // 0: it is in no parallel region
	Placement   *berth.PEPlacement `json:",omitempty"` // as planned; nil for an orphan
	Policy      *berth.PEPolicy    `json:",omitempty"`
	Generation  uint64
	ContentID   string // content ID that it was launched with
	Planned     string // content ID that it should be launched with
	LaunchCount uint64
	LaunchIndex uint64 // index of its last launch
	Before      string `json:",omitempty"` // UID of the processing element that a user deleted and that it replaces
	// Connectivity is what it reported about its connections: none, partial
	// or full.
	Connectivity string
	Inputs       []PEPort // static connections only
	Outputs      []PEPort
	Allocation   *PEAlloc `json:",omitempty"` // of its present launch; the newest if there are several
	// Zombies are failed allocations of earlier launches, newest first.
	// They are kept visible because the group has delete_failed = false,
	// and affect nothing.
	Zombies     []PEAlloc `json:",omitempty"`
	Orphaned    bool      `json:",omitempty"`
	CreateIndex uint64
	ModifyIndex uint64
}

// PEPort is an input or output of a processing element, with its static peers.
type PEPort struct {
	Name  string
	Port  string `json:",omitempty"` // for an input: label of a port of the group's network
	Peers []string
}

// PEAlloc is the allocation of a processing element in short.
type PEAlloc struct {
	ID            berth.AllocID
	NodeID        berth.NodeID
	NodeName      string
	DesiredStatus berth.DesiredStatus
	ClientStatus  berth.ClientStatus
	LaunchCount   uint64
}

// StreamExport is an output of a processing element that other jobs in the
// namespace can import.
type StreamExport struct {
	Namespace   string
	JobID       berth.JobID
	Name        string // pe/export
	UID         string
	OwnerRefs   []berth.OwnerRef // empty: it was orphaned, and nothing imports it
	PE          string
	Output      string
	Application string
	Scope       string
	StreamID    string         // "": exported by properties
	Properties  map[string]any `json:",omitempty"`
	AllowFilter bool
	Congestion  string
	Generation  uint64
	Changed     bool `json:",omitempty"` // a user changed it, so it differs from the job
	Orphaned    bool `json:",omitempty"`
	CreateIndex uint64
	ModifyIndex uint64
}

// StreamImport is an input of a processing element that receives from exports.
type StreamImport struct {
	Namespace    string
	JobID        berth.JobID
	Name         string // pe/import
	UID          string
	OwnerRefs    []berth.OwnerRef
	PE           string
	Input        string
	Application  string
	Scope        string
	StreamID     string
	Subscription string
	Filter       string
	Generation   uint64
	Changed      bool `json:",omitempty"`
	Orphaned     bool `json:",omitempty"`
	CreateIndex  uint64
	ModifyIndex  uint64
}

// StreamRoute is a connection from an export to an import. It is computed from
// both, not stored.
type StreamRoute struct {
	Namespace string
	From      RouteEnd // exports
	To        RouteEnd // imports
	By        string   // name or property
	Filter    string   // evaluated by the exporting processing element
}

// RouteEnd is one end of a route.
type RouteEnd struct {
	JobID  berth.JobID
	JobUID string
	PE     string
	PEUID  string
	Port   string // name of the output or input
	Name   string // of the export or import
	UID    string // of the export or import
}

// StreamRegion is a parallel region of a stream job.
type StreamRegion struct {
	Namespace  string
	JobID      berth.JobID
	Name       string
	UID        string // "": it does not exist yet
	Groups     []string
	Width      int // as requested
	Planned    int // width planned at the job's generation; 0: nothing is planned
	Generation uint64
}

// ResourceTree is an object with everything it owns.
type ResourceTree struct {
	Resource
	Deleting bool           // it or its owner is being deleted
	Owns     []ResourceTree `json:",omitempty"`
}

// StreamJobRef names a stream job.
type StreamJobRef struct {
	JobID string
	Query
}

// PEsQuery asks for the processing elements of a namespace or of a job.
type PEsQuery struct {
	Job string `query:"job"`
	Query
}

// PEQuery names a processing element.
type PEQuery struct {
	PE string // name or UID; a name means the one of the present job
	Query
}

// RoutesQuery asks for the routes of a job or a processing element, or for all
// routes of the namespace.
type RoutesQuery struct {
	Job string `query:"job"`
	PE  string `query:"pe"` // name or UID
	Query
}

// RegionRef names a parallel region of a job.
type RegionRef struct {
	JobID  string
	Region string
	Query
}

// SetRegion asks for a new width of a parallel region, which creates a new job
// version.
type SetRegion struct {
	JobID          string
	Region         string
	Width          int
	UID            string // only for this incarnation of the job; "" is any
	JobModifyIndex uint64 // only if the job is at this index; 0 is any
	Write
}

// RegionSet answers SetRegion.
type RegionSet struct {
	Width          int
	JobVersion     uint64
	JobModifyIndex uint64
	Meta
}

// SetExport asks for new properties of an export that has properties.
type SetExport struct {
	Export     string // name, pe/export, or UID
	Properties map[string]any
	Write
}

// SetFilter asks for a new filter of an import.
type SetFilter struct {
	Import string  // name, pe/import, or UID
	Filter *string // "" is no filter
	Write
}

// SetSubscription asks for a new subscription of an import.
type SetSubscription struct {
	Import       string  // name, pe/import, or UID
	Subscription *string // "" for an import by name only
	Write
}

// Changed answers a change of one object.
type Changed struct {
	Index uint64
	Meta
}

// The operations on stream jobs and the objects that they own.
var (
	ReadStreamJob    = define[StreamJobRef, StreamStanding]("stream.job", "GET /v1/stream/job/{JobID}", "", acl.ReadJob, acl.QuerySpace)
	ReadTree         = define[StreamJobRef, ResourceTree]("stream.tree", "GET /v1/stream/job/{JobID}/tree", "", acl.ReadJob, acl.QuerySpace)
	ListPEs          = define[PEsQuery, []PE]("stream.pes", "GET /v1/stream/pes", "", acl.ReadJob, acl.QuerySpace)
	ReadPE           = define[PEQuery, PE]("stream.pe", "GET /v1/stream/pe/{PE}", "", acl.ReadJob, acl.QuerySpace)
	ReadConnectivity = define[PEQuery, ConnectivityFile]("stream.file", "GET /v1/stream/pe/{PE}/connectivity-file", "", acl.ReadJob, acl.QuerySpace)
	ListExports      = define[PEsQuery, []StreamExport]("stream.exports", "GET /v1/stream/exports", "", acl.ReadJob, acl.QuerySpace)
	ListImports      = define[PEsQuery, []StreamImport]("stream.imports", "GET /v1/stream/imports", "", acl.ReadJob, acl.QuerySpace)
	ListRoutes       = define[RoutesQuery, []StreamRoute]("stream.routes", "GET /v1/stream/routes", "", acl.ReadJob, acl.QuerySpace)
	ReadRegion       = define[RegionRef, StreamRegion]("stream.region", "GET /v1/stream/job/{JobID}/region/{Region}", "", acl.ReadJob, acl.QuerySpace)
	WriteRegion      = define[SetRegion, RegionSet]("stream.region.set", "PUT /v1/stream/job/{JobID}/region/{Region}", "", acl.ScaleJob, acl.QuerySpace)
	WriteProperties  = define[SetExport, Changed]("stream.properties", "PUT /v1/stream/export/{Export}/properties", "", acl.SubmitJob, acl.QuerySpace)
	WriteFilter      = define[SetFilter, Changed]("stream.filter", "PUT /v1/stream/import/{Import}/filter", "", acl.SubmitJob, acl.QuerySpace)
	WriteSubscribed  = define[SetSubscription, Changed]("stream.subscribe", "PUT /v1/stream/import/{Import}/subscription", "", acl.SubmitJob, acl.QuerySpace)
)

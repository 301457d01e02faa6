package op

import (
	"berth"
	"berth/internal/acl"
)

// Recovery tells of the incarnations before this one that were given up.
type Recovery struct {
	Count        int
	Predecessors []string // UIDs, the newest last
	LastCause    string   // "": none was
}

// StreamStanding says how far the submission of a stream job is. Of the
// objects it counts, Expected are those that are planned at its generation and
// Observed those of them that are there as planned.
type StreamStanding struct {
	JobID      berth.JobID
	Namespace  string
	UID        string // of this incarnation
	StreamID   uint64 // 0: not planned yet
	Phase      string // Submission, Submitted, Failed or Stopped
	State      string // what is waited for: plan, wait-configs … submitted
	Generation uint64
	Version    uint64 // of the job that is planned, or is to be if nothing is
	Newest     uint64 // version of the job; a newer one than Version is planned when that is submitted
	Expected   map[string]int
	Observed   map[string]int
	Missing    []string // kind and name of what is planned and not there as planned
	Stale      []string // kind and name of what is there and of an older generation
	Deadline   int64    // ns since 1970, when this attempt is given up; 0 is never
	Retries    int      // how many timeouts were recovered from
	Ready      bool     // submitted, and every processing element runs and has all its connections
	LastError  string
	Deletion   *Deletion `json:",omitempty"`
	Recovery   *Recovery
}

// PERef names the launch of a processing element that an allocation is of.
type PERef struct {
	Name        string
	UID         string
	LaunchCount uint64
	Zombie      bool `json:",omitempty"` // it failed, another launch followed, and its group wants it kept in sight
}

// StatusZombie is the status of an allocation that failed and is kept in sight.
const StatusZombie = "zombie"

// PE is a processing element: one instance of a group of a stream job, which
// keeps its identity from one allocation to the next.
type PE struct {
	Namespace   string
	JobID       berth.JobID
	Name        string // job.group[index]
	UID         string
	OwnerRefs   []berth.OwnerRef // empty: it was left to itself
	ID          int              // never used again in the incarnation of its job
	Group       string
	Index       uint32
	Region      string
	Channel     int
	MaxChannels int                // 0: in no region
	Placement   *berth.PEPlacement `json:",omitempty"` // as its job is planned; an orphan has none
	Policy      *berth.PEPolicy    `json:",omitempty"`
	Generation  uint64
	ContentID   string // of what it was launched with
	Planned     string // content ID that it is to be launched with
	LaunchCount uint64
	LaunchIndex uint64 // at which it was launched last
	Before      string `json:",omitempty"` // UID of the one of its name that a user deleted and that it stands for
	// Connectivity is which of its connections it said to have: none, partial or
	// full.
	Connectivity string
	Inputs       []PEPort // static side
	Outputs      []PEPort
	Allocation   *PEAlloc `json:",omitempty"` // of its present launch; the newest of it if there are several
	// Zombies are allocations of earlier launches that failed and are kept in
	// sight because the group says delete_failed = false, the newest first. They
	// count for nothing.
	Zombies     []PEAlloc `json:",omitempty"`
	Orphaned    bool      `json:",omitempty"`
	CreateIndex uint64
	ModifyIndex uint64
}

// PEPort is an input or an output of a processing element, with the static
// peers on its other side.
type PEPort struct {
	Name  string
	Port  string `json:",omitempty"` // of an input: label of a port of the group's network
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

// StreamExport is an output of a processing element that other jobs of the
// namespace can import.
type StreamExport struct {
	Namespace   string
	JobID       berth.JobID
	Name        string // pe/export
	UID         string
	OwnerRefs   []berth.OwnerRef // empty: it was left to itself, and nothing imports it
	PE          string
	Output      string
	Application string
	Scope       string
	StreamID    string         // "": exported by properties
	Properties  map[string]any `json:",omitempty"`
	AllowFilter bool
	Congestion  string
	Generation  uint64
	Changed     bool `json:",omitempty"` // while it is there, by a user: the job says something else
	Orphaned    bool `json:",omitempty"`
	CreateIndex uint64
	ModifyIndex uint64
}

// StreamImport is an input of a processing element that is fed by exports.
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

// StreamRoute is one connection from an export to an import, which follows
// from both: it is not stored.
type StreamRoute struct {
	Namespace string
	From      RouteEnd // exports
	To        RouteEnd // imports
	By        string   // name or property
	Filter    string   // evaluated by the exporting process
}

// RouteEnd is one end of a route.
type RouteEnd struct {
	JobID  berth.JobID
	JobUID string
	PE     string
	PEUID  string
	Port   string // output or input
	Name   string // of the export or import
	UID    string // of that
}

// StreamRegion is a parallel region of a stream job.
type StreamRegion struct {
	Namespace  string
	JobID      berth.JobID
	Name       string
	UID        string // "": it is not made yet
	Groups     []string
	Width      int // as requested
	Planned    int // that is planned at the job's generation; 0: nothing is
	Generation uint64
}

// ResourceTree is an object with all that it owns.
type ResourceTree struct {
	Resource
	Deleting bool           // it, or what owns it, is being deleted
	Owns     []ResourceTree `json:",omitempty"`
}

// StreamJobRef names a stream job.
type StreamJobRef struct {
	JobID string
	Query
}

// PEsQuery asks for the processing elements of a namespace, or of a job.
type PEsQuery struct {
	Job string `query:"job"`
	Query
}

// PEQuery names a processing element.
type PEQuery struct {
	PE string // name or UID; of several of a name, that of the job that is there
	Query
}

// RoutesQuery asks for routes that begin or end at a job or a processing
// element; for all of the namespace if it names none.
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

// SetRegion asks for another width of a parallel region, which makes a new
// version of the job.
type SetRegion struct {
	JobID          string
	Region         string
	Width          int
	UID            string // if it is not "", only of this incarnation of the job
	JobModifyIndex uint64 // if it is not 0, only if the job is at this index
	Write
}

// RegionSet answers SetRegion.
type RegionSet struct {
	Width          int
	JobVersion     uint64
	JobModifyIndex uint64
	Meta
}

// SetExport asks for other properties of an export by properties.
type SetExport struct {
	Export     string // name, pe/export, or UID
	Properties map[string]any
	Write
}

// SetFilter asks for another filter of an import.
type SetFilter struct {
	Import string  // name, pe/import, or UID
	Filter *string // "" is none
	Write
}

// SetSubscription asks for another subscription of an import.
type SetSubscription struct {
	Import       string  // name, pe/import, or UID
	Subscription *string // empty for an import by name alone
	Write
}

// Changed answers what changes one object.
type Changed struct {
	Index uint64
	Meta
}

// The operations on stream jobs and what they own.
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

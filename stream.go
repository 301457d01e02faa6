package berth

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// TypeStream is the type of jobs whose instances are processing elements: each
// has an identity of its own, is connected with others by streams, and is
// launched by an evaluation of its own.
const TypeStream = "stream"

// JobTypes are the types of jobs. Each has a scheduler of its own.
var JobTypes = []string{TypeService, TypeBatch, TypeSystem, TypeSysbatch, TypeStream}

// StreamSpec holds what stream jobs have beyond other jobs.
type StreamSpec struct {
	Application StreamApplication `hcl:"application"`
	Submission  SubmissionPolicy  `hcl:"submission"`
	HostPools   []HostPoolSpec    `hcl:"host_pool"`
	Regions     []RegionSpec      `hcl:"parallel_region"`
	Streams     []StreamEdge      `hcl:"stream"`
	Exports     []ExportSpec      `hcl:"export"`
	Imports     []ImportSpec      `hcl:"import"`
}

// Region returns the parallel region that a group is in, nil if it is in none.
func (s *StreamSpec) Region(group string) *RegionSpec {
	for i := range s.Regions {
		if slices.Contains(s.Regions[i].Groups, group) {
			return &s.Regions[i]
		}
	}
	return nil
}

// DefaultScope is the scope of applications that name none.
const DefaultScope = "Default"

// StreamApplication is how imports of other jobs find this one.
type StreamApplication struct {
	Name  string // "": the job's ID
	Scope string // "": DefaultScope
}

// What happens to a submission whose time is up, and to a submission or update
// that was interrupted by a change of leader.
const (
	OnTimeoutRecover  = "recover"
	OnTimeoutFail     = "fail"
	InterruptResume   = "resume"
	InterruptRecreate = "recreate"
)

// SubmissionPolicy bounds a submission.
type SubmissionPolicy struct {
	Timeout           time.Duration // of one attempt; default 5m
	OnTimeout         string        // recover (default) or fail
	MaxRetries        int           // how many timeouts are recovered from; default 3
	Recovery          string        // of a first submission that was interrupted: recreate (default) or resume
	InterruptedUpdate string        // resume (default) or recreate
}

// How a pool's nodes are used.
const (
	PoolShared    = "shared"
	PoolExclusive = "exclusive" // no processing element of another job
)

// HostPoolSpec names nodes that processing elements are placed on.
type HostPoolSpec struct {
	Name  string   `hcl:",label"`
	Tags  []string // all of them: of the node's meta "tags", comma-separated
	Hosts []string // instead of tags: names or addresses of nodes
	Size  int      // how many nodes; 0 is all that match
	Mode  string   // shared (default) or exclusive
}

// RegionSpec replicates groups side by side.
type RegionSpec struct {
	Name   string `hcl:",label"`
	Groups []string
	Width  int // of channels; default 1
}

// How the tuples of a stream are spread over its targets: advice to tasks.
const (
	DistributionBroadcast  = "broadcast"
	DistributionRoundRobin = "round-robin"
	DistributionHash       = "hash"
)

// StreamEdge connects an output with inputs of the same job.
type StreamEdge struct {
	Name         string   `hcl:",label"`
	From         string   // group.output
	To           []string // group.input
	Distribution string   // broadcast (default), round-robin or hash
}

// What an exporter does when an importer does not keep up.
const (
	CongestionWait = "wait"
	CongestionDrop = "drop"
)

// ExportSpec publishes an output to other jobs of the namespace, by name or by
// properties.
type ExportSpec struct {
	Name        string `hcl:",label"`
	From        string // group.output
	StreamID    string
	Properties  map[string]any // bool, int64, float64, string, or a list of one of them
	AllowFilter bool           // default true
	Congestion  string         // wait (default) or drop
}

// ImportSpec subscribes an input to exports.
type ImportSpec struct {
	Name         string `hcl:",label"`
	Into         string // group.input
	Application  string // with StreamID: of this application only
	Scope        string // default DefaultScope
	StreamID     string
	Subscription string // an expression over the properties of exports
	Filter       string // evaluated by the exporting process
}

// StreamGroup holds what groups of stream jobs have beyond other groups.
type StreamGroup struct {
	Placement  PEPlacement    `hcl:"placement"`
	Policy     PEPolicy       `hcl:"pe"`
	Inputs     []StreamInput  `hcl:"input"`
	Outputs    []StreamOutput `hcl:"output"`
	LiveRewire bool           // a change of its static peers does not launch it again
}

// PEPlacement holds constraints on the nodes of processing elements. They are
// checked when an element is placed, not later.
type PEPlacement struct {
	Pool     string   // of the job's host pools
	PoolHost *int     // the node of that number in the pool
	Host     string   // a node's name or address
	Colocate []string // equal token: same node
	Exlocate []string // equal token: different nodes
	Isolated bool     // no other processing element of the job on the node
}

// PEPolicy decides when a processing element is launched again.
type PEPolicy struct {
	RestartFailed    bool // default true
	RestartCompleted bool // default false
	RestartDeleted   bool // default true
	DeleteFailed     bool // default true; else a failed allocation stays listed as zombie after the next launch
}

// StreamInput is where tuples come in.
type StreamInput struct {
	Name string `hcl:",label"`
	Port string // label of a port of the group's network
}

// StreamOutput is where tuples go out.
type StreamOutput struct {
	Name string `hcl:",label"`
}

// How a task learns of a changed connectivity file.
const (
	ConnectivityNoop    = "noop"
	ConnectivitySignal  = "signal"
	ConnectivityRestart = "restart"
)

// TaskConnectivity decides how a task learns of a changed connectivity file.
type TaskConnectivity struct {
	ChangeMode   string // noop (default), signal or restart
	ChangeSignal string
}

// The phases of a stream job.
const (
	PhaseSubmission = "Submission" // not all that was planned exists
	PhaseSubmitted  = "Submitted"
	PhaseFailed     = "Failed"  // its submission was given up
	PhaseStopped    = "Stopped" // by a user; started again it is another incarnation
)

// The kinds of objects that a stream job owns.
const (
	KindConfig   = "Config"
	KindEndpoint = "Endpoint"
	KindHostPool = "HostPool"
	KindExport   = "Export"
	KindImport   = "Import"
	KindRegion   = "ParallelRegion"
	KindPE       = "ProcessingElement"
)

// StreamKinds are the kinds of objects that a stream job owns, in the order in
// which they are created.
var StreamKinds = []string{KindConfig, KindEndpoint, KindHostPool, KindExport, KindImport, KindRegion, KindPE}

// KindLetter returns the letter that UIDs of a kind begin with.
func KindLetter(kind string) byte {
	switch kind {
	case KindJob:
		return 'j'
	case KindAlloc:
		return 'a'
	case KindConfig:
		return 'c'
	case KindEndpoint:
		return 'e'
	case KindHostPool:
		return 'h'
	case KindExport:
		return 'x'
	case KindImport:
		return 'i'
	case KindRegion:
		return 'r'
	case KindPE:
		return 'p'
	}
	return 'o'
}

// StreamPlan lists all objects of a stream job at one generation, with their
// contents. Package streams computes it from the job and the previous plan.
type StreamPlan struct {
	Generation uint64
	Version    uint64         // of the job
	NextPE     int            // the next unused ID of a processing element in this incarnation
	Objects    []StreamObject // by kind as StreamKinds, then by name
}

// Of returns the objects of one kind, in order of name.
func (p *StreamPlan) Of(kind string) []StreamObject {
	if p == nil {
		return nil
	}
	rank := slices.Index(StreamKinds, kind)
	at := func(rank int) int {
		i, _ := slices.BinarySearchFunc(p.Objects, rank, func(o StreamObject, rank int) int {
			return cmp.Compare(slices.Index(StreamKinds, o.Kind), rank)
		})
		return i
	}
	return p.Objects[at(rank):at(rank+1)]
}

// Object returns the object of that kind and name, nil if there is none.
func (p *StreamPlan) Object(kind, name string) *StreamObject {
	of := p.Of(kind)
	i, ok := slices.BinarySearchFunc(of, name, func(o StreamObject, name string) int { return strings.Compare(o.Name, name) })
	if !ok {
		return nil
	}
	return &of[i]
}

// SplitPort splits group.output, or group.input, which names a port of a group.
// Names of ports have no dot.
func SplitPort(s string) (group, port string) {
	i := strings.LastIndexByte(s, '.')
	if i < 0 {
		return s, ""
	}
	return s[:i], s[i+1:]
}

// StreamObject is one object of a plan. Exactly one of the pointers is set, by
// its kind; an endpoint has none.
type StreamObject struct {
	Kind   string
	Name   string // unique among those of its kind in the plan
	Hash   string // of its contents, "sha256:…"
	PE     *PESpec
	Config *PEConfig
	Pool   *HostPoolSpec
	Export *ExportObject
	Import *ImportObject
	Region *RegionSpec
}

// PESpec is the static side of a processing element. Its name is that of its
// allocations: job.group[index].
type PESpec struct {
	ID          int // never used again in the incarnation of its job
	Group       string
	Index       uint32
	ContentID   string // of its configuration, "sha256:…"; a new one needs a launch
	Region      string
	Channel     int
	MaxChannels int // 0: in no region
}

// PEConfig is the static description of a processing element, with its name.
type PEConfig struct {
	ContentID string
	Inputs    []PEInput
	Outputs   []PEOutput
}

// PEInput is an input with the static peers that feed it.
type PEInput struct {
	Name string
	Port string
	From []PEPeer
}

// PEOutput is an output with the static peers that it feeds.
type PEOutput struct {
	Name         string
	Distribution string
	To           []PEPeer
}

// PEPeer is a port of another processing element of the same job.
type PEPeer struct {
	PE   string // its name
	ID   int
	Port string // input or output
}

// ExportObject is one exported port of one processing element; its name is
// pe/export.
type ExportObject struct {
	PE     string
	Output string
	Spec   ExportSpec
	App    StreamApplication // complete
}

// ImportObject is one importing port of one processing element; its name is
// pe/import.
type ImportObject struct {
	PE    string
	Input string
	Spec  ImportSpec
}

// Object is one thing that a stream job owns: a processing element, a host pool,
// an export. Its name is unique among those of its kind and owner.
type Object struct {
	Kind       string
	Name       string
	UID        UID
	Job        JobKey
	Owner      UID    // the incarnation of the job; zero: it was orphaned
	Generation uint64 // of its owner when it was last checked
	Hash       string // of the object in the plan
	Object     StreamObject

	PE    *PEState // of a processing element
	Nodes []NodeID // of a host pool with hosts, a size, or of its own: those it has, in order

	CreateIndex uint64
	ModifyIndex uint64
}

// The states of connectivity.
const (
	ConnectivityNone    = "none"
	ConnectivityPartial = "partial"
	ConnectivityFull    = "full"
)

// PEState is the changing state of a processing element.
type PEState struct {
	Launch       uint64 // how many allocations were requested
	LaunchIndex  uint64 // of its last launch
	ContentID    string // of its last launch
	Connectivity string
	// Before is the deleted processing element of the same name that this one
	// replaces: nothing is placed before its allocations have ended.
	Before UID
}

// PERef names the launch of a processing element that an allocation belongs to.
type PERef struct {
	UID    UID
	Launch uint64
}

// Recovery describes earlier incarnations that were given up.
type Recovery struct {
	Count        int
	Predecessors []UID
	LastCause    string
}

// StreamJob is the submission of one incarnation of a stream job. Its position
// is not stored but computed from the objects that exist.
type StreamJob struct {
	Key        JobKey
	UID        UID
	StreamID   uint64 // 0: not planned yet
	Phase      string
	Generation uint64
	Version    uint64      // of the job that this generation is of
	Plan       *StreamPlan // nil: not planned yet
	PlanIndex  uint64      // at which the plan was made
	Deadline   int64       // ns since 1970 of this attempt
	Retries    int         // how many timeouts were recovered from
	LastError  string
	Recovery   Recovery
	// Deleted are processing elements that a user deleted and that will be
	// created again: their launch counts continue.
	Deleted []DeletedPE

	CreateIndex uint64
	ModifyIndex uint64
}

// DeletedPE is what is kept of a processing element that is created again.
type DeletedPE struct {
	Name   string
	UID    UID
	Launch uint64
}

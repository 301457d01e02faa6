package op

import (
	"time"

	"berth"
	"berth/internal/acl"
)

// What has no counterpart in Nomad's API: the lineage of a job's evaluations,
// and the answer to "why?".

// Trace is the whole tree of a job's evaluations: every one stands behind the
// one it came from, those of one origin in order of age.
type Trace struct {
	Namespace string
	JobID     berth.JobID
	JobUID    string // the incarnation whose evaluations these are; "" if of all that bore the name
	JobStatus string // "" if there is no such job any more
	Evals     []TracedEval
}

// TracedEval is one evaluation of a trace.
type TracedEval struct {
	Eval
	JobUID string
	Depth  int          // below how many others of the tree it stands
	Parent berth.EvalID // the evaluation that it came from, zero if none
	// Link says how Parent is known: previous, next, blocked (a pointer), eval
	// or alloc (the cause). It is gone if Parent was deleted since.
	Link    string
	Placed  []TracedAlloc
	Updated []TracedAlloc // carried over to another version in place
	Stopped []TracedAlloc
}

// TracedAlloc is an allocation that an evaluation placed, updated or stopped.
type TracedAlloc struct {
	ID           berth.AllocID
	Name         string
	NodeID       berth.NodeID
	NodeName     string
	ClientStatus berth.ClientStatus
	Why          string // of one that was stopped
}

// Explanation answers why a job, or an evaluation, is as it is.
type Explanation struct {
	Namespace     string
	JobID         berth.JobID
	JobStatus     string
	JobVersion    uint64
	EvalID        berth.EvalID // zero if the job was asked for
	Verdict       string       // one of the Why words below
	Summary       string       // in a sentence; never empty
	Waits         []Wait       // evaluations that are open, and for what
	Groups        []GroupExplanation
	Placed        int // by the evaluation
	Updated       int
	Stopped       int
	Failed        map[string]*berth.AllocMetric // what found no place when the evaluation was decided
	SnapshotIndex uint64                        // the state looked at
}

// The verdicts of an explanation.
const (
	WhyRuns      = "runs"            // everything that the job asks for runs
	WhyFinished  = "finished"        // a batch job whose instances all ended well
	WhyRoom      = "waits for room"  // something finds no place
	WhyTime      = "waits for time"  // something is due later
	WhyStop      = "waits for stops" // what is being stopped still holds the room
	WhyScheduler = "waits for a scheduler"
	WhyGaveUp    = "not replaced" // something failed and its policy allows no other
	WhyStopped   = "stopped"
	WhyPurged    = "purged"
	WhyBegets    = "begets children" // runs nothing itself
	WhyNothing   = "nothing to do"
	WhyDone      = "done" // the evaluation did all it had to
	WhyCanceled  = "canceled"
	WhyFailed    = "failed"
)

// Wait is an evaluation that is open, and what it waits for.
type Wait struct {
	EvalID      berth.EvalID
	TriggeredBy string
	Status      string
	QuasiStatus string
	Until       time.Time // zero: not for a time
	Why         string
}

// GroupExplanation is how one group of a job fares on the state as it is.
type GroupExplanation struct {
	Group    string
	Wanted   int
	Live     int // run, or are about to
	Finished int
	GaveUp   int // failed, and are not replaced
	Later    int // failed, and are replaced later
	Missing  int // find no place
	Summary  string

	// Of a group that finds no place: what was found of each node.

	Nodes     int // looked at: those that are ready
	Filtered  int
	Exhausted int
	// Conditions counts, for each condition, the nodes that do not meet it. A
	// node that breaks several counts for each.
	Conditions map[string]int
	Shortages  []berth.Shortage
	Nearest    []NodeVerdict // what misses least, the best first
	// Changes are what would place all that is missing, each alone, the
	// smallest first. Each was tried on a copy of the state, but for more than 64
	// nodes. They are looked for in the first 8 groups that need some.
	Changes []Change

	Allocs []AllocReason // where what lives is, and why there; the newest
}

// NodeVerdict is what speaks against a node.
type NodeVerdict struct {
	NodeID    berth.NodeID
	Name      string
	NodeClass string
	Unmet     []string
	Shortages []berth.Shortage
	Score     float64 // what it would score, if room were there
}

// Change is what would place a group's missing instances. What is set of it
// has to be done together.
type Change struct {
	Text       string
	Stopping   int        `json:",omitempty"` // nothing to do but wait until this many allocations have stopped
	Less       *Less      `json:",omitempty"`
	Drop       []string   `json:",omitempty"` // constraints, as explanations show them
	Datacenter string     `json:",omitempty"` // to add to the job's
	NodePool   string     `json:",omitempty"` // instead of the job's
	Port       *FreePort  `json:",omitempty"`
	Nodes      *MoreNodes `json:",omitempty"`
}

// Less is a smaller ask of one dimension.
type Less struct {
	Dimension string
	Unit      string
	Amount    int64            // less for each instance
	From, To  int64            // for each instance
	Tasks     map[string]int64 // what each task asks for then; of the disk none
}

// FreePort is a static port that someone else holds.
type FreePort struct {
	Port     int
	NodeID   berth.NodeID
	NodeName string
	Holder   string        // name of the allocation
	AllocID  berth.AllocID // that would have to stop
	JobID    berth.JobID   // of the holder
	Dynamic  bool          // instead: let the group take any free port
}

// MoreNodes is nodes that would have to join.
type MoreNodes struct {
	Count      int
	Like       berth.NodeID // in all else like this one; zero: none is like it
	LikeName   string
	Datacenter string
	NodePool   string
	NodeClass  string
	Drivers    []string          // that it must have and Like has not
	Set        map[string]string // attributes it must have and Like has not, by target: "${meta.rack}"
	Unset      []string          // those it must not have
	Distinct   []string          // those that must differ from node to node
	Ports      []int             // that it must not reserve for itself, as Like does
	Room       berth.Ask         // that each must have free
	Larger     bool              // than Like is
	Elsewhere  bool              // in another datacenter than Like
	OtherPool  bool              // in another node pool than Like
}

// AllocReason is why an allocation is where it is.
type AllocReason struct {
	AllocID  berth.AllocID
	Name     string
	NodeID   berth.NodeID
	NodeName string
	Score    float64
	Scores   map[string]float64 // by scorer; empty if no longer known
	// The next best node when its group was placed; zero if there was none, or
	// it is no longer known.
	RunnerUp      berth.NodeID
	RunnerUpName  string
	RunnerUpScore float64
	Nodes         int // looked at when it was placed; 0 is no longer known
	Text          string
}

// JobTraceQuery asks for the evaluations of a job: of its newest incarnation,
// or with All of all that bore its name.
type JobTraceQuery struct {
	JobID string
	All   bool `query:"all"`
	Query
}

// The operations of lineage and explanation.
var (
	TraceJob    = define[JobTraceQuery, Trace]("job.trace", "GET /v1/job/{JobID}/trace", "", acl.ReadJob, acl.QuerySpace, leader)
	TraceEval   = define[EvalRef, Trace]("eval.trace", "GET /v1/evaluation/{EvalID}/trace", "", acl.ReadJob, acl.EvalSpace, leader)
	ExplainJob  = define[JobRef, Explanation]("job.explain", "GET /v1/job/{JobID}/explain", "", acl.ReadJob, acl.QuerySpace, leader)
	ExplainEval = define[EvalRef, Explanation]("eval.explain", "GET /v1/evaluation/{EvalID}/explain", "", acl.ReadJob, acl.EvalSpace, leader)
)

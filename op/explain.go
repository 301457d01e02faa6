package op

import (
	"time"

	"berth"
	"berth/internal/acl"
)

// This file has no counterpart in Nomad's API: the lineage of a job's
// evaluations, and the explanation of its present state.

// Trace is the tree of a job's evaluations: each follows the one it came from,
// and those of one origin are in order of age.
type Trace struct {
	Namespace string
	JobID     berth.JobID
	JobUID    string // the incarnation whose evaluations these are; "" for all incarnations
	JobStatus string // "" if the job no longer exists
	Evals     []TracedEval
	// Older and Later are how many evaluations Limit left out before and behind
	// Evals, Unmatched how many Filter left out.
	Older     int `json:",omitempty"`
	Later     int `json:",omitempty"`
	Unmatched int `json:",omitempty"`
}

// TracedEval is one evaluation of a trace.
type TracedEval struct {
	Eval
	JobUID string
	Depth  int          // how many ancestors it has in the tree
	Parent berth.EvalID // the evaluation that it came from, zero if none
	// Link is how Parent is known: previous, next or blocked from a
	// pointer; eval, alloc or deployment from the cause. It is "gone" if
	// Parent was deleted since.
	Link    string
	Placed  []TracedAlloc
	Updated []TracedAlloc // updated in place to another version
	Stopped []TracedAlloc
}

// TracedAlloc is an allocation that an evaluation placed, updated or stopped.
type TracedAlloc struct {
	ID           berth.AllocID
	Name         string
	NodeID       berth.NodeID
	NodeName     string
	ClientStatus berth.ClientStatus
	Why          string // why it was stopped
}

// Explanation explains the state of a job or of an evaluation.
type Explanation struct {
	Namespace     string
	JobID         berth.JobID
	JobStatus     string
	JobVersion    uint64
	EvalID        berth.EvalID // zero for an explanation of the job
	Verdict       string       // one of the Why constants below
	Summary       string       // one sentence; never empty
	Waits         []Wait       // open evaluations and what they wait for
	Groups        []GroupExplanation
	Placed        int // by the evaluation
	Updated       int
	Stopped       int
	Failed        map[string]*berth.AllocMetric // by group: why something could not be placed when the evaluation was processed
	SnapshotIndex uint64                        // index of the state that was examined
}

// The verdicts of an explanation.
const (
	WhyRuns       = "runs"            // everything the job asks for runs
	WhyFinished   = "finished"        // a batch job whose instances all completed
	WhyRoom       = "waits for room"  // something cannot be placed
	WhyTime       = "waits for time"  // something is due later
	WhyStop       = "waits for stops" // allocations that are stopping still hold the capacity
	WhyScheduler  = "waits for a scheduler"
	WhyOrder      = "waits for a group"        // depends_on or once holds a group back
	WhyNode       = "waits for a node"         // an older version runs on where its node takes no new allocation now
	WhyInput      = "waits for inputs"         // tasks wait for what they need to start, such as a variable
	WhyDeployment = "waits for a deployment"   // everything is placed; its health, or a promotion, is awaited
	WhySubmission = "waits for its submission" // objects of a stream job are created, and its elements launched
	WhyIncomplete = "incomplete"               // something is missing, and nobody will add it: the deployment has failed
	WhyGaveUp     = "not replaced"             // something failed and its policy allows no replacement
	WhyStopped    = "stopped"
	WhyPurged     = "purged"
	WhyBegets     = "begets children" // it runs nothing itself
	WhyNothing    = "nothing to do"
	WhyDone       = "done" // the evaluation did everything it had to
	WhyCanceled   = "canceled"
	WhyFailed     = "failed"
)

// Wait is an open evaluation and what it waits for.
type Wait struct {
	EvalID      berth.EvalID
	TriggeredBy string
	Status      string
	QuasiStatus string
	Until       time.Time // zero: it does not wait for a time
	Why         string
}

// GroupWait is a group that another one waits for.
type GroupWait struct {
	Group  string
	Ready  int    // instances that are what is waited for
	Wanted int    // instances that must be
	State  string // what each of them must be: healthy, running or finished
	Failed bool   `json:",omitempty"` // an instance failed for good: the wait does not end by itself
}

// InputWait is what a task waits for before it can start.
type InputWait struct {
	AllocID berth.AllocID
	Task    string
	berth.TaskWait
}

// GroupExplanation is the state of one group of a job.
type GroupExplanation struct {
	Group      string
	Wanted     int
	Live       int // running or about to run
	Restarting int `json:",omitempty"` // of those, how many wait for the delay of the restart policy
	Finished   int
	GaveUp     int // failed and will not be replaced
	Later      int // failed and will be replaced later
	Missing    int // cannot be placed
	Unlaunched int `json:",omitempty"` // of a stream job: processing elements that are launched when it is their turn
	Halted     int `json:",omitempty"` // are not placed because the deployment has failed
	Summary    string

	WaitsFor []GroupWait `json:",omitempty"` // the groups that come first and are not ready
	Inputs   []InputWait `json:",omitempty"` // what tasks of its newest live allocations wait for to start

	// For a group that cannot be placed: what was found on the nodes.

	Quota     []string // what the namespace's quota has too little of, with numbers; then nodes are not searched
	Nodes     int      // ready nodes, which were examined
	Filtered  int
	Exhausted int
	// Conditions counts the nodes that do not meet each condition. A node
	// that fails several conditions counts for each.
	Conditions map[string]int
	// Unknown lists attributes that constraints need and no node has, such as
	// ${attr.kernel.nmae}.
	Unknown   []Unknown `json:",omitempty"`
	Shortages []berth.Shortage
	Nearest   []NodeVerdict // the nodes that come closest, best first
	// Changes lists changes, smallest first. Each alone would place all
	// missing instances. Each was tried on a copy of the state, unless it
	// needs more than 64 nodes. Only the first 8 groups with missing
	// instances get them.
	Changes []Change
	// Algorithm is set if another scheduler algorithm would place more of the
	// group, if all of the job was placed again.
	Algorithm *OtherAlgorithm `json:",omitempty"`

	Allocs []AllocReason // the newest live allocations, and why they are where they are
}

// OtherAlgorithm is a scheduler algorithm that places more of a group than the
// one in force. It was tried on a copy of the state.
type OtherAlgorithm struct {
	Algorithm string
	Instead   string // the one in force
	Places    int    // instances, of Of
	Of        int
}

// NodeVerdict is why a node was not chosen.
type NodeVerdict struct {
	NodeID    berth.NodeID
	Name      string
	NodeClass string
	Unmet     []string
	Shortages []berth.Shortage
	Score     float64 // what it would score if it had the capacity
}

// Change would place a group's missing instances. All fields that are set must
// be applied together, and so must And.
type Change struct {
	Text       string
	Stopping   int        `json:",omitempty"` // just wait until this many allocations have stopped
	Less       *Less      `json:",omitempty"`
	Drop       []string   `json:",omitempty"` // constraints to remove, as explanations show them
	Datacenter string     `json:",omitempty"` // to add to the job's datacenters
	NodePool   string     `json:",omitempty"` // to use instead of the job's
	Port       *FreePort  `json:",omitempty"`
	Nodes      *MoreNodes `json:",omitempty"`
	Present    *Present   `json:",omitempty"`
	Misspelt   *Misspelt  `json:",omitempty"`
	And        *Change    `json:",omitempty"` // a second change, where neither helps alone
}

// Unknown is an attribute that no node has, and the most similar one that nodes
// have, "" if none is similar.
type Unknown struct{ Attribute, Similar string }

// Misspelt is an attribute that no node has, in a constraint of the job, and a
// similar one that nodes have.
type Misspelt struct{ Attribute, Instead string }

// Present is a node that is there and would do if it was changed.
type Present struct {
	NodeID   berth.NodeID
	NodeName string
	Eligible bool     // make it eligible
	Drivers  []string // enable these drivers on it
}

// Less is a smaller ask of one dimension.
type Less struct {
	Dimension string
	Unit      string
	Amount    int64            // how much less, for each instance
	From, To  int64            // for each instance
	Tasks     map[string]int64 // what each task then asks for; empty for disk
}

// FreePort is a static port that another allocation holds.
type FreePort struct {
	Port        int
	HostNetwork string `json:",omitempty"` // "": the default one
	NodeID      berth.NodeID
	NodeName    string
	Holder      string        // name of the allocation that holds it
	AllocID     berth.AllocID // the allocation that would have to stop
	JobID       berth.JobID   // of the holder
	Dynamic     bool          // instead, let the group use a dynamic port
}

// MoreNodes describes nodes that would have to join the cluster.
type MoreNodes struct {
	Count      int
	Like       berth.NodeID // a node that they must otherwise resemble; zero: no such node
	LikeName   string
	Datacenter string
	// The pattern of the job that Datacenter meets, such as "*"; "" if the job
	// must be in Datacenter itself.
	Datacenters string
	NodePool    string
	NodeClass   string
	Drivers     []string          // required drivers that Like lacks
	Set         map[string]string // required attributes that Like lacks, by target: "${meta.rack}"
	Unset       []string          // attributes they must not have
	Distinct    []string          // attributes that must differ between the nodes
	Ports       []int             // ports that Like reserves and they must not
	Room        berth.Ask         // free capacity that each must have
	Larger      bool              // they must be larger than Like
	Elsewhere   bool              // they must be in another datacenter than Like
	OtherPool   bool              // they must be in another node pool than Like
}

// AllocReason is why an allocation is on its node.
type AllocReason struct {
	AllocID  berth.AllocID
	Name     string
	NodeID   berth.NodeID
	NodeName string
	Score    float64
	Scores   map[string]float64 // by scorer; empty if they are no longer known
	// The second-best node when the group was placed; zero if there was
	// none or it is no longer known.
	RunnerUp      berth.NodeID
	RunnerUpName  string
	RunnerUpScore float64
	Nodes         int // nodes examined when it was placed; 0: no longer known
	Text          string
}

// JobTraceQuery asks for the evaluations of a job: of its newest incarnation,
// or with All of all incarnations. Filter selects those that match and those that
// they came from.
type JobTraceQuery struct {
	JobID string
	All   bool `query:"all"`
	// Limit is the most evaluations in the answer: the last whole trees, or the
	// beginning of the last. 0 is no limit.
	Limit int `query:"limit"`
	Query
}

// EvalTraceQuery asks for the evaluations of the job that an evaluation is of.
// Limit and Filter are as in JobTraceQuery, but the tree of the evaluation is
// always there.
type EvalTraceQuery struct {
	EvalID string
	Limit  int `query:"limit"`
	Query
}

// The operations of lineage and explanation.
var (
	TraceJob    = define[JobTraceQuery, Trace]("job.trace", "GET /v1/job/{JobID}/trace", "", acl.ReadJob, acl.QuerySpace, leader)
	TraceEval   = define[EvalTraceQuery, Trace]("eval.trace", "GET /v1/evaluation/{EvalID}/trace", "", acl.ReadJob, acl.EvalSpace, leader)
	ExplainJob  = define[JobRef, Explanation]("job.explain", "GET /v1/job/{JobID}/explain", "", acl.ReadJob, acl.QuerySpace, leader)
	ExplainEval = define[EvalRef, Explanation]("eval.explain", "GET /v1/evaluation/{EvalID}/explain", "", acl.ReadJob, acl.EvalSpace, leader)
)

package berth

import "time"

// Eval (evaluation) is a stored request to look at a job and decide what must
// change. Schedulers turn it into a plan.
type Eval struct {
	ID                EvalID
	Namespace         string
	Priority          int    // of the job; the higher is decided first
	Type              string // the scheduler that decides it: the job's type, or core
	TriggeredBy       string // one of the Trigger constants
	Cause             Cause
	JobID             JobID
	JobUID            UID    // the job's incarnation; an evaluation does not outlive it
	JobModifyIndex    uint64 // of the job when the evaluation was created
	NodeID            NodeID // set if a node was the trigger
	NodeModifyIndex   uint64
	DeploymentID      DeploymentID // of the version that it decided on, or that was the trigger
	Status            string       // one of the Eval constants
	StatusDescription string
	Failure           string // of a failed one: a Failure constant, or "" for any other reason
	WaitUntil         int64  // ns since 1970; 0 is at once
	NextEval          EvalID // the one that this one created to follow it
	PreviousEval      EvalID // the one that created this one
	BlockedEval       EvalID // the one that waits for capacity that this one lacked
	SupersededBy      EvalID // for a canceled one: the newer evaluation that does its work
	QuotaLimitReached string // the quota that left no room for an instance, "" if none did

	// The results of the last decision.

	FailedTGAllocs    map[string]*AllocMetric // by group: why something could not be placed
	QueuedAllocations map[string]int          // by group: how many wait to be placed
	Missed            *Missed                 // for a blocked evaluation: what would help
	SnapshotIndex     uint64                  // index of the state that it was decided on

	Timeline    Timeline
	CreateIndex uint64
	ModifyIndex uint64
	CreateTime  int64 // ns since 1970
	ModifyTime  int64
}

// Key returns the name of the evaluation's job.
func (e *Eval) Key() JobKey { return JobKey{e.Namespace, e.JobID} }

// Terminal reports whether the evaluation has ended.
func (e *Eval) Terminal() bool {
	return e.Status == EvalComplete || e.Status == EvalFailed || e.Status == EvalCanceled
}

// The statuses of an evaluation.
const (
	EvalPending  = "pending"
	EvalBlocked  = "blocked"
	EvalComplete = "complete"
	EvalFailed   = "failed"
	EvalCanceled = "canceled"
)

// FailureTooMuchWork is the failure of an evaluation whose decision needs more
// work than is allowed. Its job is quarantined: what follows it is decided later
// and later, until the job is changed.
const FailureTooMuchWork = "too-much-work"

// The triggers of evaluations.
const (
	TriggerJobRegister          = "job-register"
	TriggerJobDeregister        = "job-deregister"
	TriggerPeriodicJob          = "periodic-job"
	TriggerNodeUpdate           = "node-update"
	TriggerNodeDrain            = "node-drain"
	TriggerAllocStop            = "alloc-stop"
	TriggerScheduled            = "scheduled"
	TriggerAllocFailure         = "alloc-failure"
	TriggerJobScaling           = "job-scaling"
	TriggerQueuedAllocs         = "queued-allocs"
	TriggerMaxPlanAttempts      = "max-plan-attempts"
	TriggerRollingUpdate        = "rolling-update"
	TriggerFailedFollowUp       = "failed-follow-up"
	TriggerPreemption           = "preemption"
	TriggerDeploymentWatcher    = "deployment-watcher"
	TriggerMaxDisconnectTimeout = "max-disconnect-timeout"
	TriggerReconnect            = "reconnect"
	TriggerGroupOrder           = "group-order" // a group runs or has finished that another one waits for
	TriggerPELaunch             = "pe-launch"   // a processing element of a stream job was launched
)

// Cause is what led to an evaluation. It is always set, also where the pointers
// between evaluations have gaps, so that a job's history can be followed in both
// directions.
type Cause struct {
	Kind    string   // one of the Cause constants
	ID      string   // of the thing: a UUID, a job's name, a launch time
	Request *Request `json:",omitempty"` // what a user asked for, if one did; nil: unknown, or nobody did
}

// Request is a request of a user that changed something. Its time is that of
// the row that it caused. It never changes once it is stored.
type Request struct {
	Op     string // the operation, such as job.register
	Remote string // the host that it came from, as the first server saw it: the client, or an agent that forwarded it
	Token  string `json:",omitempty"` // the accessor ID of the token that allowed it; empty without access control
}

// String returns the request as people read it.
func (r *Request) String() string {
	if r.Remote == "" {
		return r.Op
	}
	return r.Op + " from " + r.Remote
}

// The kinds of cause.
const (
	CauseUser       = "user"
	CauseEval       = "eval"
	CauseAlloc      = "alloc"
	CauseNode       = "node"
	CauseDeployment = "deployment"
	CausePeriodic   = "periodic"
	CauseSystem     = "system"
	CausePE         = "pe" // a processing element, by UID
)

// String returns the cause as people read it.
func (c Cause) String() string {
	s := c.Kind
	if c.ID != "" {
		s += " " + c.ID
	}
	if c.Request != nil {
		s += ": " + c.Request.String()
	}
	return s
}

// A Token proves that its holder is the last worker that was given an evaluation.
type Token uint64

// Delivery is an evaluation given to a worker.
type Delivery struct {
	Eval     *Eval
	Token    Token // proves that the worker holds the evaluation
	Enqueued int64 // ns since 1970
	Dequeued int64
	Count    int // how often it was given to a worker, including this time
}

// Timeline holds the times of an evaluation's steps, in ns since 1970, 0 for
// steps not taken. The command that ends the evaluation writes it; until then
// only the leader knows it.
type Timeline struct {
	Enqueued   int64 // it could be given to a worker
	Dequeued   int64 // it was given to the worker that has or had it last
	Planned    int64 // the first plan was submitted
	Applied    int64 // the last plan was submitted
	Deliveries int   // how often a worker was given it
	Refused    int   // how many of its plans were refused in part or in full
}

// Missed is what a blocked evaluation lacked. It is woken only by changes that
// can help.
type Missed struct {
	// Classes holds, for each node class that was looked at, whether its nodes
	// could run the job at all. A class not in it was never seen.
	Classes map[string]bool
	// Escaped means that a constraint uses an attribute unique to nodes, so
	// classes say nothing about it.
	Escaped bool
	// Dimensions are the resources that ran out: cpu, memory, disk, ports.
	Dimensions []string
	Quota      string `msgpack:",omitempty"` // the quota that left no room, "" if none did
	QuotaOnly  bool   `msgpack:",omitempty"` // no group lacks anything else, so no node can help
}

// QuotaReached returns the quota that left no room, "" if none did. m may be nil.
func (m *Missed) QuotaReached() string {
	if m == nil {
		return ""
	}
	return m.Quota
}

// AllocMetric explains a decision about one group: which nodes were considered,
// why nodes were rejected, and the scores of the best.
type AllocMetric struct {
	NodesEvaluated     int // nodes that were looked at
	NodesFiltered      int // not feasible
	NodesInPool        int
	NodePool           string
	NodesAvailable     map[string]int // ready nodes by datacenter
	ClassFiltered      map[string]int // by node class
	ConstraintFiltered map[string]int // by constraint
	NodesExhausted     int            // feasible, but without the capacity
	ClassExhausted     map[string]int // by node class
	DimensionExhausted map[string]int // by dimension, such as memory
	Shortages          []Shortage     // the numbers behind DimensionExhausted
	QuotaExhausted     []string       // what the namespace's quota has too little of, with numbers
	Scores             map[string]float64
	AllocationTime     time.Duration // how long it took to decide
	CoalescedFailures  int           // further instances that failed for the same reasons
	ScoreMetaData      []NodeScore   // the best nodes
}

// Shortage is a dimension that some nodes lacked, with numbers.
type Shortage struct {
	Dimension string // cpu, memory, disk, or "port 8080"
	Unit      string // MHz, MiB, or ""
	Nodes     int    // nodes that lacked it
	Wanted    int64  // what one instance needs
	Free      int64  // the most that any of them had
	Holder    string // for a port: what uses it
}

// NodeScore is the score of one node.
type NodeScore struct {
	NodeID    NodeID
	Scores    map[string]float64 // by scorer
	NormScore float64            // the average, by which nodes are ranked
}

// CoreNamespace is the namespace of core evaluations. No namespace of users can
// have this name.
const CoreNamespace = "-"

// CorePriority is the priority of core evaluations.
const CorePriority = 100

// CoreKey returns the key of evaluations that collect garbage: rows that are old
// enough, or all if forced. The two keys have separate queues, so neither
// supersedes the other.
func CoreKey(force bool) JobKey {
	if force {
		return JobKey{CoreNamespace, "force-gc"}
	}
	return JobKey{CoreNamespace, "gc"}
}

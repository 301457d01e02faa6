package berth

import "time"

// Eval (evaluation) is a durable note: something about a job changed, look at
// it. Schedulers turn it into a plan.
type Eval struct {
	ID                EvalID
	Namespace         string
	Priority          int
	Type              string // the scheduler that decides it: the job's type, or core
	TriggeredBy       string
	Cause             Cause
	JobID             JobID
	JobUID            UID // the incarnation meant; an evaluation does not outlive it
	JobModifyIndex    uint64
	NodeID            NodeID
	NodeModifyIndex   uint64
	DeploymentID      DeploymentID
	Status            string
	StatusDescription string
	WaitUntil         int64 // ns since 1970; 0 is at once
	NextEval          EvalID
	PreviousEval      EvalID
	BlockedEval       EvalID

	// What the last decision found.

	FailedTGAllocs    map[string]*AllocMetric // by group: why something could not be placed
	QueuedAllocations map[string]int          // by group: how many wait for a place
	Missed            *Missed                 // of a blocked evaluation: what would help
	SnapshotIndex     uint64                  // the state decided on

	Timeline    Timeline
	CreateIndex uint64
	ModifyIndex uint64
	CreateTime  int64 // ns since 1970
	ModifyTime  int64
}

// Key returns the name of the evaluation's job.
func (e *Eval) Key() JobKey { return JobKey{e.Namespace, e.JobID} }

// Terminal says whether the evaluation has ended.
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

// What raises an evaluation.
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
	TriggerPELaunch             = "pe-launch" // of a stream job: a processing element was launched
)

// Cause is the thing an evaluation came from. It is never unset, also where
// the pointers between evaluations have gaps, so that the story of a job can
// be walked in both directions.
type Cause struct {
	Kind string
	ID   string // of the thing: a UUID, a job's name, a launch time
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
	if c.ID == "" {
		return c.Kind
	}
	return c.Kind + " " + c.ID
}

// A Token proves that its holder was given an evaluation, and the last to be
// given it.
type Token uint64

// Delivery is an evaluation given to a worker.
type Delivery struct {
	Eval     *Eval
	Token    Token
	Enqueued int64 // ns since 1970
	Dequeued int64
	Count    int // how often it was given to a worker, this time included
}

// Timeline is when an evaluation passed each station, in ns since 1970, 0 if
// it did not. It is written with the command that ends the evaluation; until
// then it is known to the leader alone.
type Timeline struct {
	Enqueued   int64
	Dequeued   int64
	Planned    int64 // the first plan was handed in
	Applied    int64 // the last plan was handed in
	Deliveries int   // how often a worker was given it
	Refused    int   // how many of its plans were refused in part or whole
}

// Missed says what a blocked evaluation lacked, so that it is woken by a
// change that can help and by no other.
type Missed struct {
	// Classes holds, for each node class that was looked at, whether its nodes
	// could run the job at all. A class not in it was never seen.
	Classes map[string]bool
	// Escaped: a constraint looked at what is unique to nodes, so classes do
	// not answer for them.
	Escaped bool
	// Dimensions are the resources that ran out: cpu, memory, disk, ports.
	Dimensions []string
}

// AllocMetric explains a decision about one group: what was looked at, what
// was wrong with it, and what the best nodes scored.
type AllocMetric struct {
	NodesEvaluated     int
	NodesFiltered      int
	NodesInPool        int
	NodePool           string
	NodesAvailable     map[string]int // ready nodes by datacenter
	ClassFiltered      map[string]int
	ConstraintFiltered map[string]int
	NodesExhausted     int
	ClassExhausted     map[string]int
	DimensionExhausted map[string]int
	Shortages          []Shortage // the numbers behind DimensionExhausted
	Scores             map[string]float64
	AllocationTime     time.Duration
	CoalescedFailures  int // further instances that failed for the same reasons
	ScoreMetaData      []NodeScore
}

// Shortage says that one dimension ran out on some nodes, and by how much.
type Shortage struct {
	Dimension string // cpu, memory, disk, or "port 8080"
	Unit      string // MHz, MiB, or ""
	Nodes     int    // nodes that lacked it
	Wanted    int64
	Free      int64  // the most that any of them had
	Holder    string // for a port: who has it
}

// NodeScore is what one node scored.
type NodeScore struct {
	NodeID    NodeID
	Scores    map[string]float64
	NormScore float64
}

// CoreNamespace is where evaluations of the system's own upkeep stand. No
// namespace can have this name, so they are of no job and in nobody's way.
const CoreNamespace = "-"

// CorePriority is that of evaluations of the system's own upkeep.
const CorePriority = 100

// CoreKey returns the key of evaluations that delete what is of no use any
// more: what is old, or all of it if forced. Each has a queue of its own, so
// none takes the place of the other.
func CoreKey(force bool) JobKey {
	if force {
		return JobKey{CoreNamespace, "force-gc"}
	}
	return JobKey{CoreNamespace, "gc"}
}

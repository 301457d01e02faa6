package op

import (
	"time"

	"berth"
	"berth/internal/acl"
)

// Eval is an evaluation as the API shows it.
type Eval struct {
	ID                   berth.EvalID
	Namespace            string
	Priority             int
	Type                 string // the scheduler that decides it: the job's type, or core
	TriggeredBy          string // a trigger, such as berth.TriggerJobRegister
	Cause                berth.Cause
	JobID                berth.JobID
	JobModifyIndex       uint64       // of the job when the evaluation was created
	NodeID               berth.NodeID // set if a node was the trigger
	NodeModifyIndex      uint64
	DeploymentID         berth.DeploymentID // of the version that it decided on, or that was the trigger
	Status               string
	StatusDescription    string
	Failure              string `json:",omitempty"` // a Failure constant of package berth, or "" for any other reason
	QuasiStatus          string // delayed, scheduling or applying; "" otherwise
	Wait                 time.Duration
	WaitUntil            time.Time                     // zero: it is processed at once
	NextEval             berth.EvalID                  // the one that this one created to follow it
	PreviousEval         berth.EvalID                  // the one that created this one
	BlockedEval          berth.EvalID                  // the one that waits for capacity that this one lacked
	SupersededBy         berth.EvalID                  // for a canceled one: the newer evaluation that does its work
	QuotaLimitReached    string                        // the quota that left no room, "" if none did
	FailedTGAllocs       map[string]*berth.AllocMetric // by group: why something could not be placed
	ClassEligibility     map[string]bool
	EscapedComputedClass bool
	QueuedAllocations    map[string]int // by group: how many wait to be placed
	Timeline             Timeline
	RelatedEvals         []EvalStub `json:",omitempty"` // if requested
	SnapshotIndex        uint64     // index of the state that it was last decided on
	CreateIndex          uint64
	ModifyIndex          uint64
	CreateTime           int64 // ns since 1970
	ModifyTime           int64
}

// Timeline is when an evaluation reached each stage.
type Timeline struct {
	berth.Timeline
	// Acked is when its worker confirmed it as done, in ns since 1970; 0 is
	// not known. That is after the row was written, so only the leader of
	// that time knows it, and only for the most recent evaluations.
	Acked int64
}

// EvalStub is an evaluation to which another one is linked.
type EvalStub struct {
	ID                berth.EvalID
	Priority          int
	Type              string
	TriggeredBy       string
	Namespace         string
	JobID             berth.JobID
	NodeID            berth.NodeID
	DeploymentID      berth.DeploymentID
	Status            string
	StatusDescription string
	WaitUntil         time.Time
	NextEval          berth.EvalID
	PreviousEval      berth.EvalID
	BlockedEval       berth.EvalID
	SupersededBy      berth.EvalID
	CreateIndex       uint64
	ModifyIndex       uint64
	CreateTime        int64
	ModifyTime        int64
}

// EvalQuery asks for an evaluation, and with Related for all that can be
// reached from it through previous, next and blocked evaluations.
type EvalQuery struct {
	EvalID  string
	Related bool `query:"related"`
	Query
}

// EvalRef names an evaluation.
type EvalRef struct {
	EvalID string
	Query
}

// EvalsQuery asks for evaluations.
type EvalsQuery struct {
	Job    string `query:"job"`
	Status string `query:"status"`
	Query
}

// The operations on evaluations.
var (
	ListEvals  = define[EvalsQuery, []Eval]("eval.list", "GET /v1/evaluations", "", acl.ReadJob, acl.QuerySpace, leader)
	ReadEval   = define[EvalQuery, Eval]("eval.read", "GET /v1/evaluation/{EvalID}", "", acl.ReadJob, acl.EvalSpace, leader)
	EvalAllocs = define[EvalRef, []AllocStub]("eval.allocations", "GET /v1/evaluation/{EvalID}/allocations", "", acl.ReadJob, acl.EvalSpace)
)

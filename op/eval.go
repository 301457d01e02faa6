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
	Type                 string
	TriggeredBy          string
	Cause                berth.Cause
	JobID                berth.JobID
	JobModifyIndex       uint64
	NodeID               berth.NodeID
	NodeModifyIndex      uint64
	DeploymentID         berth.DeploymentID
	Status               string
	StatusDescription    string
	QuasiStatus          string // delayed, scheduling or applying while it is; else ""
	Wait                 time.Duration
	WaitUntil            time.Time
	NextEval             berth.EvalID
	PreviousEval         berth.EvalID
	BlockedEval          berth.EvalID
	FailedTGAllocs       map[string]*berth.AllocMetric
	ClassEligibility     map[string]bool
	EscapedComputedClass bool
	QueuedAllocations    map[string]int
	Timeline             Timeline
	RelatedEvals         []EvalStub `json:",omitempty"` // if they were asked for
	SnapshotIndex        uint64
	CreateIndex          uint64
	ModifyIndex          uint64
	CreateTime           int64
	ModifyTime           int64
}

// Timeline is when an evaluation passed each station.
type Timeline struct {
	berth.Timeline
	// Acked is when its worker had heard that the end is safe, and said that it
	// is done: ns since 1970. That is after what is stored was written, so only
	// the leader of that time knows it, of the evaluations that ended last; 0 is
	// not known.
	Acked int64
}

// EvalStub is an evaluation that another one is linked with.
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
	CreateIndex       uint64
	ModifyIndex       uint64
	CreateTime        int64
	ModifyTime        int64
}

// EvalQuery asks for an evaluation. Related ones are those that are reached by
// following the pointers to previous, next and blocked evaluations.
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

package op

import (
	"time"

	"berth"
	"berth/acl"
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
	Timeline             berth.Timeline
	SnapshotIndex        uint64
	CreateIndex          uint64
	ModifyIndex          uint64
	CreateTime           int64
	ModifyTime           int64
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
	ListEvals  = define[EvalsQuery, []Eval]("eval.list", "GET /v1/evaluations", "", acl.ReadJob, acl.QuerySpace)
	ReadEval   = define[EvalRef, Eval]("eval.read", "GET /v1/evaluation/{EvalID}", "", acl.ReadJob, acl.EvalSpace)
	EvalAllocs = define[EvalRef, []AllocStub]("eval.allocations", "GET /v1/evaluation/{EvalID}/allocations", "", acl.ReadJob, acl.EvalSpace)
)

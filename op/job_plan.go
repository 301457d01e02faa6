package op

import (
	"time"

	"berth"
	"berth/internal/acl"
	"berth/internal/decode"
	"berth/internal/diff"
)

// PlanJob asks what would become of a job if it were registered now. Nothing
// is written. Job is the text as it came, as in RegisterJob.
type PlanJob struct {
	JobID          string
	Job            decode.RawTree
	Diff           bool // say what differs from the job as it is
	PolicyOverride bool
	Write
}

// Shape does what that of RegisterJob does.
func (*PlanJob) Shape(body decode.Tree) decode.Tree { return holding(body) }

// JobPlanned answers PlanJob.
type JobPlanned struct {
	JobModifyIndex     uint64 // of the job as it is, what to register with; 0 if there is no job
	CreatedEvals       []Eval // that the first decision leads to: what waits for room, or for a time
	Diff               *diff.JobDiff
	Annotations        *PlanAnnotations
	FailedTGAllocs     map[string]*berth.AllocMetric // by group: why something finds no place
	NextPeriodicLaunch time.Time
	Changes            map[string]GroupChanges // by group: what is done to allocations, exactly
	Warnings           string
	Meta
}

// PlanAnnotations say what a scheduler would do.
type PlanAnnotations struct {
	DesiredTGUpdates map[string]*DesiredUpdates
	PreemptedAllocs  []AllocStub
}

// DesiredUpdates counts what should become of a group's instances, whether
// there is room for it or not. None is counted twice.
type DesiredUpdates struct {
	Ignore            uint64
	Place             uint64
	Migrate           uint64
	Stop              uint64
	InPlaceUpdate     uint64
	DestructiveUpdate uint64
	Canary            uint64
	Preemptions       uint64 // allocations of other jobs that make room
	Disconnect        uint64
	Reconnect         uint64
	RescheduleNow     uint64
	RescheduleLater   uint64
}

// GroupChanges counts what the first decision does to a group's allocations. A
// replacement is one that is destroyed and one that is created.
type GroupChanges struct {
	Created   int
	Destroyed int // were to run, and are told to stop or given up as lost
	Updated   int // in place
	Migrated  int // of those destroyed: are moved off their node
	Kept      int // go on as they are
	Queued    int // find no place
	Evicted   int // of other jobs
}

// Plan is the dry run of a registration.
var Plan = define[PlanJob, JobPlanned]("job.plan", "PUT /v1/job/{JobID}/plan", "", acl.SubmitJob, acl.JobSpace, jobBody)

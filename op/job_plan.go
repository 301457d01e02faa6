package op

import (
	"time"

	"berth"
	"berth/internal/acl"
	"berth/internal/decode"
	"berth/internal/diff"
)

// PlanJob asks what registering a job would change. Nothing is written. Job is
// the body as received, as in RegisterJob.
type PlanJob struct {
	JobID          string
	Job            decode.RawTree
	Diff           bool // include the difference from the present job
	PolicyOverride bool
	Write
}

// Spec returns the job of the request, as received.
func (r *PlanJob) Spec() decode.RawTree { return r.Job }

// Shape does what that of RegisterJob does.
func (*PlanJob) Shape(body decode.Tree) decode.Tree { return holding(body) }

// JobPlanned answers PlanJob.
type JobPlanned struct {
	JobModifyIndex     uint64 // of the present job, to be used in RegisterJob; 0 if there is no job
	CreatedEvals       []Eval // follow-ups of the first evaluation, which wait for capacity or for a time
	Diff               *diff.JobDiff
	Annotations        *PlanAnnotations
	FailedTGAllocs     map[string]*berth.AllocMetric // by group: why something cannot be placed
	NextPeriodicLaunch time.Time                     // zero: the job is not periodic
	Changes            map[string]GroupChanges       // by group: exactly what happens to allocations
	Warnings           string
	Meta
}

// PlanAnnotations summarize what the scheduler would do.
type PlanAnnotations struct {
	DesiredTGUpdates map[string]*DesiredUpdates
	PreemptedAllocs  []AllocStub
}

// DesiredUpdates counts what should happen to a group's instances, even where
// capacity is missing. Each counts once.
type DesiredUpdates struct {
	Ignore            uint64
	Place             uint64
	Migrate           uint64
	Stop              uint64
	InPlaceUpdate     uint64 // go on running with the new version
	DestructiveUpdate uint64 // are replaced
	Canary            uint64
	Preemptions       uint64 // allocations of other jobs that would be preempted
	Disconnect        uint64
	Reconnect         uint64
	RescheduleNow     uint64
	RescheduleLater   uint64 // failed, and are replaced after a delay
}

// GroupChanges counts what the first evaluation does to a group's allocations.
// A replacement counts as one destroyed and one created.
type GroupChanges struct {
	Created   int
	Destroyed int // told to stop, or given up as lost
	Updated   int // in place
	Migrated  int // how many of Destroyed are moved off their node
	Kept      int // unchanged
	Queued    int // cannot be placed
	Evicted   int // victims, which are allocations of other jobs
}

// Plan is the dry run of a registration.
var Plan = define[PlanJob, JobPlanned]("job.plan", "PUT /v1/job/{JobID}/plan", "", acl.SubmitJob, acl.JobSpace, jobBody)

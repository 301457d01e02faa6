package op

import (
	"berth"
	"berth/internal/acl"
)

// ForcePeriodic asks for a periodic job to be launched now, even if no launch
// is due or another one still runs.
type ForcePeriodic struct {
	JobID string
	Write
}

// PeriodicForced answers ForcePeriodic.
type PeriodicForced struct {
	EvalID          berth.EvalID
	EvalCreateIndex uint64
	LaunchedJobID   berth.JobID // the child
	Meta
}

// DispatchJob asks for a child of a parameterized job. All requests with one
// idempotency token get the same child, as long as it exists.
type DispatchJob struct {
	JobID            string
	Payload          []byte
	Meta             map[string]string
	IdPrefixTemplate string // part of the child's ID, before its unique part
	Priority         int    // of the child; 0 is the parent's
	Write
}

// JobDispatched answers DispatchJob.
type JobDispatched struct {
	DispatchedJobID berth.JobID
	EvalID          berth.EvalID
	EvalCreateIndex uint64
	JobCreateIndex  uint64
	Meta
}

// The operations that launch children.
var (
	Force    = define[ForcePeriodic, PeriodicForced]("job.force", "PUT /v1/job/{JobID}/periodic/force", "", acl.ForcePeriodicJob, acl.QuerySpace)
	Dispatch = define[DispatchJob, JobDispatched]("job.dispatch", "PUT /v1/job/{JobID}/dispatch", "", acl.DispatchJob, acl.QuerySpace)
)

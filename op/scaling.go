package op

import (
	"berth"
	"berth/internal/acl"
)

// ScaleJob asks for the count of a group to be changed, or for a message of the
// autoscaler to be recorded.
type ScaleJob struct {
	JobID          string
	Count          *int64            // nil: only the message is recorded
	Target         map[string]string // the key Group names the group
	Message        string
	Error          bool // the message reports a failure
	Meta           map[string]any
	PolicyOverride bool
	JobModifyIndex uint64 // scale only if the job is at this index; 0 is any
	Write
}

// JobScale is how the groups of a job are scaled.
type JobScale struct {
	JobID          berth.JobID
	Namespace      string
	JobCreateIndex uint64
	JobModifyIndex uint64
	JobStopped     bool
	TaskGroups     map[string]GroupScale
}

// GroupScale counts the allocations of a group and lists the changes of its
// count, newest first.
type GroupScale struct {
	Desired   int
	Placed    int // allocations that should run and have not ended
	Running   int
	Healthy   int
	Unhealthy int
	Events    []ScalingEvent
}

// ScalingEvent is a change of a count, or a message.
type ScalingEvent struct {
	Time          uint64 // ns since 1970
	Count         *int64 // nil: only a message
	PreviousCount int64
	Error         bool
	Message       string
	Meta          map[string]any
	EvalID        *berth.EvalID // nil: nothing was changed
	CreateIndex   uint64
}

// PoliciesQuery asks for the scaling policies of a namespace, of one job, or of
// one type.
type PoliciesQuery struct {
	Job  string `query:"job"`
	Type string `query:"type"`
	Query
}

// PolicyStub is a scaling policy in a list.
type PolicyStub struct {
	ID          string
	Enabled     bool
	Type        string
	Target      map[string]string
	CreateIndex uint64
	ModifyIndex uint64
}

// PolicyRef names a scaling policy.
type PolicyRef struct {
	PolicyID string
	Query
}

// The operations on scaling.
var (
	Scale        = define[ScaleJob, JobRegistered]("job.scale", "PUT /v1/job/{JobID}/scale", "", acl.ScaleJob, acl.QuerySpace)
	ReadScale    = define[JobRef, JobScale]("job.scaling", "GET /v1/job/{JobID}/scale", "", acl.ReadJobScaling, acl.QuerySpace)
	ListPolicies = define[PoliciesQuery, []PolicyStub]("scaling.list", "GET /v1/scaling/policies", "", acl.ListScalingPolicies, acl.QuerySpace)
	ReadPolicy   = define[PolicyRef, berth.ScalingPolicy]("scaling.read", "GET /v1/scaling/policy/{PolicyID}", "", acl.ReadScalingPolicy, acl.PolicySpace)
)

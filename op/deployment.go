package op

import (
	"berth"
	"berth/internal/acl"
)

// DeploymentRef names a deployment.
type DeploymentRef struct {
	DeploymentID string
	Query
}

// JobDeploymentsQuery asks for the deployments of a job.
type JobDeploymentsQuery struct {
	JobID string
	All   bool `query:"all"` // also those of earlier jobs with this ID
	Query
}

// FailDeployment asks for a deployment to be marked as failed.
type FailDeployment struct {
	DeploymentID string
	Write
}

// PauseDeployment asks for a deployment to be paused or resumed.
type PauseDeployment struct {
	DeploymentID string
	Pause        bool
	Write
}

// PromoteDeployment asks for canaries to be promoted: those of all groups, or
// of the groups named.
type PromoteDeployment struct {
	DeploymentID string
	All          bool
	Groups       []string
	PromotedAt   int64 // ignored: the servers set the time
	Write
}

// SetAllocHealth sets whether allocations of a deployment are healthy. An
// unhealthy one fails the deployment.
type SetAllocHealth struct {
	DeploymentID           string
	HealthyAllocationIDs   []berth.AllocID
	UnhealthyAllocationIDs []berth.AllocID
	Write
}

// UnblockDeployment asks for a deployment that waits for other regions to
// continue.
type UnblockDeployment struct {
	DeploymentID string
	Write
}

// DeploymentUpdated answers all writes to deployments.
type DeploymentUpdated struct {
	EvalID                berth.EvalID // zero if no evaluation follows at once
	EvalCreateIndex       uint64
	DeploymentModifyIndex uint64
	RevertedJobVersion    *uint64 // the version to which the job was reverted; nil if it was not
	Meta
}

// The operations on deployments.
var (
	ListDeployments   = define[Query, []*berth.Deployment]("deployment.list", "GET /v1/deployments", "", acl.ReadJob, acl.QuerySpace)
	ReadDeployment    = define[DeploymentRef, *berth.Deployment]("deployment.read", "GET /v1/deployment/{DeploymentID}", "", acl.ReadJob, acl.DeploymentSpace)
	DeploymentAllocs  = define[DeploymentRef, []AllocStub]("deployment.allocations", "GET /v1/deployment/allocations/{DeploymentID}", "", acl.ReadJob, acl.DeploymentSpace)
	Fail              = define[FailDeployment, DeploymentUpdated]("deployment.fail", "PUT /v1/deployment/fail/{DeploymentID}", "", acl.SubmitJob, acl.DeploymentSpace)
	Pause             = define[PauseDeployment, DeploymentUpdated]("deployment.pause", "PUT /v1/deployment/pause/{DeploymentID}", "", acl.SubmitJob, acl.DeploymentSpace)
	Promote           = define[PromoteDeployment, DeploymentUpdated]("deployment.promote", "PUT /v1/deployment/promote/{DeploymentID}", "", acl.SubmitJob, acl.DeploymentSpace)
	SetHealth         = define[SetAllocHealth, DeploymentUpdated]("deployment.health", "PUT /v1/deployment/allocation-health/{DeploymentID}", "", acl.SubmitJob, acl.DeploymentSpace)
	Unblock           = define[UnblockDeployment, DeploymentUpdated]("deployment.unblock", "PUT /v1/deployment/unblock/{DeploymentID}", "", acl.SubmitJob, acl.DeploymentSpace)
	JobDeployments    = define[JobDeploymentsQuery, []*berth.Deployment]("job.deployments", "GET /v1/job/{JobID}/deployments", "", acl.ReadJob, acl.QuerySpace)
	JobLastDeployment = define[JobRef, *berth.Deployment]("job.deployment", "GET /v1/job/{JobID}/deployment", "", acl.ReadJob, acl.QuerySpace)
)

package op

import (
	"fmt"
	"strings"

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

// ShowDeployment returns a deployment as the API shows it: with the description
// of its status in the words that scripts for Nomad compare. The state has other
// words, which must stay as they are.
func ShowDeployment(d *berth.Deployment) *berth.Deployment {
	v := *d
	v.StatusDescription = DeploymentText(d)
	return &v
}

// deploymentTexts are what is shown for the descriptions that the state has.
var deploymentTexts = map[string]string{
	berth.DeploymentRuns:        "Deployment is running",
	berth.DeploymentWaits:       "Deployment is running but requires manual promotion",
	berth.DeploymentDone:        "Deployment completed successfully",
	berth.DeploymentJobStopped:  "Cancelled because job is stopped",
	berth.DeploymentJobReplaced: "Cancelled due to newer version of job",
	berth.DeploymentHeld:        "Deployment is paused",
	berth.DeploymentUserFailed:  "Deployment marked as failed",
	berth.DeploymentNoProgress:  "Failed due to progress deadline",
	berth.DeploymentUnhealthy:   "Failed due to unhealthy allocations",
	berth.DeploymentFirst:       "Failed because a group that runs once before the others has failed",
	berth.DeploymentNoNode:      "Cancelled because no node is left that meets the job's conditions",
}

// autoPromotes is what is shown while canaries are promoted without anybody.
const autoPromotes = "Deployment is running pending automatic promotion"

// DeploymentText returns the description of a deployment's status as people and
// scripts know it. What it does not know stays as it is.
func DeploymentText(d *berth.Deployment) string {
	if d.StatusDescription == berth.DeploymentRuns && autoPromoting(d) {
		return autoPromotes
	}
	if text := deploymentTexts[d.StatusDescription]; text != "" {
		return text
	}
	// What became of the job stands behind it.
	why, more, _ := strings.Cut(d.StatusDescription, "; ")
	text := deploymentTexts[why]
	var to, is uint64
	switch {
	case text == "":
		return d.StatusDescription
	case scans(more, "the job was reverted to version %d, as version %d", &to, &is):
		return fmt.Sprintf("%s - rolling back to job version %d", text, to)
	case scans(more, "the newest stable version, %d, has the same specification", &to):
		return fmt.Sprintf("%s - not rolling back to stable job version %d as current job has same specification", text, to)
	case strings.HasPrefix(more, "no earlier version of the job is stable"):
		return text + " - no stable job version to auto revert to"
	}
	return text + "; " + more
}

// autoPromoting reports whether a group has canaries that are promoted once they
// are healthy.
func autoPromoting(d *berth.Deployment) bool {
	for _, g := range d.TaskGroups {
		if !g.Past() && g.AutoPromote {
			return true
		}
	}
	return false
}

// scans reports whether a text begins in a form, and reads the numbers in it.
func scans(text, form string, numbers ...any) bool {
	n, _ := fmt.Sscanf(text, form, numbers...)
	return n == len(numbers)
}

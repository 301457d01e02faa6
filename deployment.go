package berth

import "time"

// Deployment follows the change from one version of a job to the next.
type Deployment struct {
	ID                 DeploymentID
	Namespace          string
	JobID              JobID
	JobUID             UID
	JobVersion         uint64
	JobModifyIndex     uint64
	JobSpecModifyIndex uint64
	JobCreateIndex     uint64
	IsMultiregion      bool
	TaskGroups         map[string]*DeploymentState
	Status             string
	StatusDescription  string
	EvalPriority       int
	CreateIndex        uint64
	ModifyIndex        uint64
	CreateTime         int64
	ModifyTime         int64
}

// Key returns the name of the deployment's job.
func (d *Deployment) Key() JobKey { return JobKey{d.Namespace, d.JobID} }

// DeploymentState is how far one group has come.
type DeploymentState struct {
	PlacedCanaries    []AllocID
	AutoRevert        bool
	AutoPromote       bool
	ProgressDeadline  time.Duration
	RequireProgressBy time.Time
	Promoted          bool
	DesiredCanaries   int
	DesiredTotal      int
	PlacedAllocs      int
	HealthyAllocs     int
	UnhealthyAllocs   int
}

// The statuses of a deployment.
const (
	DeploymentRunning    = "running"
	DeploymentPaused     = "paused"
	DeploymentFailed     = "failed"
	DeploymentSuccessful = "successful"
	DeploymentCancelled  = "cancelled"
)

// Why a deployment has its status, as its StatusDescription says it.
const (
	DeploymentRuns        = "the deployment is running"
	DeploymentWaits       = "the deployment is running; its canaries wait to be promoted"
	DeploymentDone        = "the deployment is complete"
	DeploymentJobStopped  = "the job was stopped"
	DeploymentJobReplaced = "there is a newer version of the job"
)

// Past says whether a group's canaries have taken the place of what they
// were placed beside; also of a group without canaries.
func (s *DeploymentState) Past() bool { return s.Promoted || s.DesiredCanaries == 0 }

// Active says whether the deployment goes on.
func (d *Deployment) Active() bool {
	return d.Status == DeploymentRunning || d.Status == DeploymentPaused
}

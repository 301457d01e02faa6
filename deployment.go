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

	// HealthIndex is when something last changed that its scheduler has to see,
	// StepIndex when an evaluation last was raised that will: state indexes. Its
	// next step is due while the first is the larger.
	HealthIndex uint64 `json:"-"`
	StepIndex   uint64 `json:"-"`
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

// DeploymentSize is how many instances of a group a deployment is about. Of a
// job that runs on every node it changes with the nodes.
type DeploymentSize struct {
	Total    int // instances
	Canaries int // of them, those to be promoted
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
	DeploymentHeld        = "the deployment is paused"
	DeploymentUserFailed  = "the deployment was failed by hand"
	DeploymentNoProgress  = "no allocation became healthy before the progress deadline"
	DeploymentUnhealthy   = "an allocation is not healthy"
	DeploymentNoNode      = "no node is left that meets the job's conditions"
)

// Past says whether a group's canaries have taken the place of what they
// were placed beside; also of a group without canaries.
func (s *DeploymentState) Past() bool { return s.Promoted || s.DesiredCanaries == 0 }

// Active says whether the deployment goes on.
func (d *Deployment) Active() bool {
	return d.Status == DeploymentRunning || d.Status == DeploymentPaused
}

// Waits says whether nothing happens to a group before somebody promotes its
// canaries.
func (s *DeploymentState) Waits() bool { return !s.Past() && !s.AutoPromote }

// Runs describes a deployment that goes on.
func (d *Deployment) Runs() string {
	for _, s := range d.TaskGroups {
		if s.Waits() {
			return DeploymentWaits
		}
	}
	return DeploymentRuns
}

// Extend gives a group its whole progress deadline again, from now on, in ns
// since 1970.
func (s *DeploymentState) Extend(now int64) {
	if s.ProgressDeadline > 0 {
		s.RequireProgressBy = time.Unix(0, now).Add(s.ProgressDeadline).UTC()
	}
}

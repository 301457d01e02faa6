package berth

import "time"

// Deployment follows the change from one version of a job to the next.
type Deployment struct {
	ID                 DeploymentID
	Namespace          string
	JobID              JobID
	JobUID             UID // of the incarnation that it rolls out
	JobVersion         uint64
	JobModifyIndex     uint64 // ModifyIndex of the job that it rolls out
	JobSpecModifyIndex uint64 // JobModifyIndex of the job that it rolls out
	JobCreateIndex     uint64
	IsMultiregion      bool                        // always false
	TaskGroups         map[string]*DeploymentState // by group name
	Status             string                      // one of the Deployment constants
	StatusDescription  string
	EvalPriority       int    // of the evaluations raised for it
	EvalID             EvalID // the evaluation whose plan created it; zero if that was before log version 3
	CreateIndex        uint64
	ModifyIndex        uint64
	CreateTime         int64 // ns since 1970
	ModifyTime         int64 // ns since 1970

	// HealthIndex is the state index of the last change that a scheduler must
	// see, StepIndex that of the last evaluation raised for it. A step is due
	// while HealthIndex is the larger.
	HealthIndex uint64 `json:"-"`
	StepIndex   uint64 `json:"-"`
}

// Key returns the name of the deployment's job.
func (d *Deployment) Key() JobKey { return JobKey{d.Namespace, d.JobID} }

// DeploymentState is the progress of one group.
type DeploymentState struct {
	PlacedCanaries    []AllocID
	AutoRevert        bool          // on failure, go back to the last stable version
	AutoPromote       bool          // promote once all canaries are healthy
	ProgressDeadline  time.Duration // longest time between two healthy allocations
	RequireProgressBy time.Time     // when it fails without progress
	Promoted          bool          // its canaries were promoted
	DesiredCanaries   int
	DesiredTotal      int // the group's count
	PlacedAllocs      int // of this version, canaries included
	HealthyAllocs     int
	UnhealthyAllocs   int
}

// DeploymentSize is the number of a group's instances in a deployment. For a
// system job it changes with the nodes.
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

// The status descriptions of a deployment.
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
	DeploymentFirst       = "a group that runs once before the others has failed"
	DeploymentNoNode      = "no node is left that meets the job's conditions"
)

// Past reports whether a group needs no promotion any more: its canaries were
// promoted, or it has none.
func (s *DeploymentState) Past() bool { return s.Promoted || s.DesiredCanaries == 0 }

// Active reports whether the deployment has not ended.
func (d *Deployment) Active() bool {
	return d.Status == DeploymentRunning || d.Status == DeploymentPaused
}

// Waits reports whether a group waits for its canaries to be promoted.
func (s *DeploymentState) Waits() bool { return !s.Past() && !s.AutoPromote }

// Runs returns the status description of an active deployment.
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

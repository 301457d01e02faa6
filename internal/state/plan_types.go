package state

import (
	"berth"
)

// ApplyPlan makes the changes of a plan that still fit, and ends the plan's
// evaluation in the same command. Every placement is checked against the state
// that it is applied to, so no plan, however old its snapshot, overcommits a
// node, uses a name twice or places for a job that changed.
type ApplyPlan struct {
	ByLeader
	Eval       berth.EvalID
	JobVersion uint64 // the version placed
	Place      []berth.Placement
	Stop       []berth.AllocStop
	Update     []berth.AllocID // to carry over to the version in place
	Explain    map[string]*berth.AllocMetric
	Deploy     *berth.Deployment // to be created with the plan, whose placements belong to it
	Deployed   *DeploymentChange // a change of the existing deployment
	End        *EvalEnd          // nil: the evaluation continues
	Now        int64

	// Refused are the placements that did not fit, set by Apply. If there are
	// any, End did not happen.
	Refused []berth.Refusal

	nodes       []uint32     // the number of each placement's node; set by Apply, or read from the log
	fromLog     bool         // nodes has the nodes, NodeID does not
	preemptions []preemption // jobs that lost an allocation to preemption; set by Apply
	joins       *enrolment
}

// quarantineSince is the log version that brought the quarantine of jobs, and
// canceled evaluations that keep nothing of a decision.
const quarantineSince = 3

// needs implements needer: failures came with log version 3.
func (c *ApplyPlan) needs() int {
	if c.End != nil && c.End.Failure != "" {
		return quarantineSince
	}
	return 1
}

// preemption is a job that lost an allocation, and one that took its capacity.
type preemption struct {
	key berth.JobKey  // of the job that lost an allocation
	by  berth.AllocID // the allocation that took its capacity
}

// EvalEnd is how an evaluation ends.
type EvalEnd struct {
	Status        string // complete, failed or canceled; blocked if it was blocked and stays so
	Description   string
	Failure       string // a Failure constant of package berth, or ""
	Failed        map[string]*berth.AllocMetric
	Queued        map[string]int
	Missed        *berth.Missed
	SnapshotIndex uint64
	Timeline      berth.Timeline
	Blocked       *NewEval  // for what could not be placed
	Later         []NewEval // for what must be done later
	// Nodes are those on which a job that runs on every node lacks capacity.
	// Each has its own blocked evaluation, except the node of an evaluation
	// that itself stays blocked.
	Nodes []NodeWait
}

// news returns the evaluations that the end creates, the blocked one first.
func (e *EvalEnd) news() []NewEval {
	if e.Blocked == nil {
		return e.Later
	}
	return append([]NewEval{*e.Blocked}, e.Later...)
}

// NewEval is an evaluation that follows another one.
type NewEval struct {
	ID          berth.EvalID
	TriggeredBy string
	WaitUntil   int64 // ns since 1970; 0: it is due at once
}

// Jobs of the types system and sysbatch run on every node. The state treats
// them specially in two ways: they are listed, so that a node that joins finds
// them without a scan of all jobs, and they wait for capacity node by node.

// NodeWait is what a job that runs on every node waits for on some nodes, all
// with the same shortfall.
type NodeWait struct {
	Nodes  []berth.NodeID
	Failed map[string]*berth.AllocMetric // by group, of one node
	Queued map[string]int                // by group, on one node
	Missed *berth.Missed
}

// DeploymentChange is a new status of a deployment, "" if it continues, and new
// sizes of its groups. One that has ended stays as it is.
type DeploymentChange struct {
	ID                  berth.DeploymentID
	Status, Description string
	Sizes               map[string]berth.DeploymentSize // by group; those of other groups stay
}

// verdict returns the health in an allocation's row, or nil.
func verdict(a *berth.Alloc) *bool {
	if s := a.Rest().DeploymentStatus; s != nil {
		return s.Healthy
	}
	return nil
}

// enrolment is the deployment that a plan's placements belong to, with what the
// plan adds to its counts; nil if there is none.
type enrolment struct {
	old, d *berth.Deployment // old is the row before the plan, nil if the plan creates it
	// carriedHealthy means that a healthy allocation was carried over. No agent
	// reports it healthy again, so the deployment needs an evaluation now.
	carriedHealthy bool
}

// version is a group of one version of a job.
type version struct {
	job   *berth.Job
	group *berth.TaskGroup
}

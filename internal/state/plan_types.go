package state

import (
	"berth"
)

// ApplyPlan makes the changes that a plan asks for, as far as they still fit,
// and ends the plan's evaluation with them. Every placement is checked against
// the state it meets in the log, so no plan, however old its snapshot,
// overcommits a node, uses a name twice or places for a job that changed.
type ApplyPlan struct {
	ByLeader
	Eval       berth.EvalID
	JobVersion uint64 // the version placed
	Place      []berth.Placement
	Stop       []berth.AllocStop
	Update     []berth.AllocID // to carry over to the version in place
	Explain    map[string]*berth.AllocMetric
	Deploy     *berth.Deployment // to be made with the plan, which belongs to it
	Deployed   *DeploymentChange // what becomes of the deployment there was
	End        *EvalEnd          // nil: the evaluation goes on
	Now        int64

	// Refused are the placements that did not fit, set by Apply. With any, End
	// did not happen.
	Refused []berth.Refusal

	nodes   []uint32 // by placement, its node's number; set by Apply, or read from the log
	fromLog bool     // nodes says where, not NodeID
	robbed  []robbed // jobs of which something was evicted; set by Apply
	joins   *enrolment
}

// robbed is a job that lost an allocation, and one that took its room.
type robbed struct {
	key berth.JobKey
	by  berth.AllocID
}

// EvalEnd is how an evaluation ends.
type EvalEnd struct {
	Status        string // complete, failed or canceled; blocked for one that was blocked and stays so
	Description   string
	Failed        map[string]*berth.AllocMetric
	Queued        map[string]int
	Missed        *berth.Missed
	SnapshotIndex uint64
	Timeline      berth.Timeline
	Blocked       *NewEval  // for what could not be placed
	Later         []NewEval // for what is to be done later
	// Nodes are those on which a job that runs on every node lacks room. Each
	// has a blocked evaluation of its own, but for the node of an evaluation
	// that stays blocked itself.
	Nodes []NodeWait
}

func (e *EvalEnd) news() []NewEval {
	if e.Blocked == nil {
		return e.Later
	}
	return append([]NewEval{*e.Blocked}, e.Later...)
}

// NewEval is an evaluation that another one leads to.
type NewEval struct {
	ID          berth.EvalID
	TriggeredBy string
	WaitUntil   int64
}

// Jobs of the types system and sysbatch run on every node. What is special
// about them in the state stands here: they are listed, so that a node that
// joins finds those that want it without asking all others, and what lacks
// room waits node by node.

// NodeWait is what a job that runs on every node waits for on some of them,
// which are equally short.
type NodeWait struct {
	Nodes  []berth.NodeID
	Failed map[string]*berth.AllocMetric // by group, of one node
	Queued map[string]int                // by group, on one node
	Missed *berth.Missed
}

// DeploymentChange is a new status of a deployment, none if it goes on, and new
// sizes of its groups. One that has ended stays as it is.
type DeploymentChange struct {
	ID                  berth.DeploymentID
	Status, Description string
	Sizes               map[string]berth.DeploymentSize // by group; of others they stay
}

// verdict is what an allocation's row says of its health; nil is nothing.
func verdict(a *berth.Alloc) *bool {
	if s := a.Rest().DeploymentStatus; s != nil {
		return s.Healthy
	}
	return nil
}

// enrolment is the deployment that a plan's placements belong to, with what the
// plan adds to its counts; nil if there is none.
type enrolment struct {
	old, d *berth.Deployment // old is the row before the plan, nil if it makes it
	// again: a healthy allocation was carried over. Nobody will say again that
	// it is, so the deployment is to be looked at without that.
	again bool
}

// version is a group of one version of a job.
type version struct {
	job   *berth.Job
	group *berth.TaskGroup
}

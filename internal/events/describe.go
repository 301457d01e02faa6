package events

import (
	"berth"
	"berth/internal/state"
)

// describe fills in an event for a change, except for the summary of a job.
func describe(e *Event, c *state.Change) {
	e.Row, e.Deleted = c.New, c.New == nil
	if e.Deleted {
		e.Row = c.Old
	}
	// The row decides the topic; command and change decide the type.
	switch row := e.Row.(type) {
	case *berth.Job:
		e.Topic, e.Type = Job, JobRegistered
		switch {
		case !e.Deleted && c.By == deleteJob:
			e.Type = JobDeleting
		case e.Deleted || row.Stop && c.By != registerJob:
			e.Type = JobDeregistered
		}
	case *berth.Eval:
		e.Topic, e.Type = Evaluation, either(e.Deleted, EvaluationDeleted, EvaluationUpdated)
	case *berth.Alloc:
		e.Topic, e.Type = Allocation, allocType(c)
	case *berth.Deployment:
		e.Topic, e.Type = Deployment, deploymentType(c)
	case *berth.Node:
		e.Topic, e.Type = Node, nodeType(c)
	case *berth.NodePool:
		e.Topic, e.Type = NodePool, either(e.Deleted, NodePoolDeleted, NodePoolUpserted)
	case *berth.ServiceRegistration:
		e.Topic, e.Type = Service, either(e.Deleted, ServiceDeregistration, ServiceRegistration)
	case *berth.CSIVolume:
		e.Topic, e.Type = CSIVolume, either(e.Deleted, CSIVolumeDeregistered, CSIVolumeRegistered)
	case *state.CSIClaim:
		e.Topic, e.Type, e.Deleted = CSIVolume, CSIVolumeClaim, false // the row that is deleted is not the volume
	case *state.CSIPlugin:
		e.Topic, e.Type = CSIPlugin, either(e.Deleted, CSIPluginDeleted, CSIPluginUpdated)
	case *berth.HostVolume:
		e.Topic, e.Type = HostVolume, either(e.Deleted, HostVolumeDeleted, HostVolumeRegistered)
	default:
		describeAccess(e)
	}
}

// describeAccess fills in an event about who may do what, a variable or the
// scheduler configuration.
func describeAccess(e *Event) {
	switch e.Row.(type) {
	case *berth.ACLToken:
		e.Topic, e.Type = ACLToken, either(e.Deleted, ACLTokenDeleted, ACLTokenUpserted)
	case *berth.ACLPolicy:
		e.Topic, e.Type = ACLPolicy, either(e.Deleted, ACLPolicyDeleted, ACLPolicyUpserted)
	case *berth.ACLRole:
		e.Topic, e.Type = ACLRole, either(e.Deleted, ACLRoleDeleted, ACLRoleUpserted)
	case *berth.ACLAuthMethod:
		e.Topic, e.Type = ACLAuthMethod, either(e.Deleted, ACLAuthMethodDeleted, ACLAuthMethodUpserted)
	case *berth.ACLBindingRule:
		e.Topic, e.Type = ACLBindingRule, either(e.Deleted, ACLBindingRuleDeleted, ACLBindingRuleUpserted)
	case *berth.SealedVariable:
		e.Topic, e.Type = Variable, either(e.Deleted, VariableDeleted, VariableUpserted)
	case *berth.SchedulerConfig:
		e.Topic, e.Type = Operator, SchedulerConfigUpdated
	}
}

// allocType returns the type of an allocation's event, which depends on the
// command more than on the change.
func allocType(c *state.Change) string {
	switch {
	case c.New == nil:
		return AllocationDeleted
	case c.By == applyPlan:
		return PlanResult
	case c.By == reportAllocs, leftAlone(c):
		return AllocationUpdated
	case c.Old == nil:
		return AllocationCreated
	}
	return AllocationUpdateDesiredStatus
}

// leftAlone reports whether an allocation was orphaned by this change and runs
// on.
func leftAlone(c *state.Change) bool {
	old, _ := c.Old.(*berth.Alloc)
	return old != nil && !old.Orphaned && c.New.(*berth.Alloc).Orphaned
}

// deploymentType returns the type of a deployment's event. A health report that
// ends the deployment is a status update.
func deploymentType(c *state.Change) string {
	d, _ := c.New.(*berth.Deployment)
	switch {
	case d == nil:
		return DeploymentDeleted
	case c.By == applyPlan:
		return PlanResult
	case c.By == promote:
		return DeploymentPromotion
	case (c.By == reportAllocs || c.By == setHealth) && d.Active():
		return DeploymentAllocHealth
	}
	return DeploymentStatusUpdate
}

// nodeType returns the type of a node's event.
func nodeType(c *state.Change) string {
	if c.New == nil {
		return NodeDeregistration
	}
	if c.Old == nil || c.By == registerNode {
		return NodeRegistration
	}
	if c.Old.(*berth.Node).SchedulingEligibility != c.New.(*berth.Node).SchedulingEligibility {
		return NodeEligibility
	}
	return NodeEvent
}

// either returns a if the condition holds, else b.
func either(is bool, a, b string) string {
	if is {
		return a
	}
	return b
}

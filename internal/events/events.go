// Package events keeps the newest changes of the state as events. A Buffer
// follows the commits of a store at its own pace, so it never slows a commit.
// It holds events in order of state index, without gaps, as far back as its
// limits allow. A Reader reads them from an index on and gets an error if the
// next one is gone.
//
// Package api decides what an event shows of its row and who may see it, and
// streams events over HTTP.
package events

import (
	"cmp"
	"sync/atomic"
	"time"

	"berth"
	"berth/internal/state"
)

// Topic is the kind of row that an event is about, named as in Nomad's event
// stream.
type Topic string

// The topics.
const (
	Job        Topic = "Job"
	Evaluation Topic = "Evaluation"
	Allocation Topic = "Allocation"
	Deployment Topic = "Deployment"
	Node       Topic = "Node"
	NodePool   Topic = "NodePool"
	Service    Topic = "Service"
	Resource   Topic = "Resource"
	HostVolume Topic = "HostVolume"
	CSIVolume  Topic = "CSIVolume"
	CSIPlugin  Topic = "CSIPlugin"

	ACLToken       Topic = "ACLToken"
	ACLPolicy      Topic = "ACLPolicy"
	ACLRole        Topic = "ACLRole"
	ACLAuthMethod  Topic = "ACLAuthMethod"
	ACLBindingRule Topic = "ACLBindingRule"
	Variable       Topic = "Variable" // without items
	Operator       Topic = "Operator" // the scheduler configuration
)

// Topics are all topics.
var Topics = []Topic{Job, Evaluation, Allocation, Deployment, Node, NodePool, Service, Resource, HostVolume, CSIVolume, CSIPlugin,
	ACLToken, ACLPolicy, ACLRole, ACLAuthMethod, ACLBindingRule, Variable, Operator}

// Namespaced reports whether the rows of a topic belong to namespaces.
func (t Topic) Namespaced() bool {
	switch t {
	case Node, NodePool, CSIPlugin, ACLToken, ACLPolicy, ACLRole, ACLAuthMethod, ACLBindingRule, Operator:
		return false
	}
	return true
}

// The types of events, as Nomad documents them. Nomad does not have those that
// end in Deleted. They report deleted rows; without them a copy of the state
// could not be kept up to date from events.
const (
	JobRegistered                 = "JobRegistered"
	JobDeregistered               = "JobDeregistered" // stopped, or deleted if Event.Deleted is set
	JobDeleting                   = "JobDeleting"     // will be deleted when everything it runs has ended; not in Nomad
	EvaluationUpdated             = "EvaluationUpdated"
	EvaluationDeleted             = "EvaluationDeleted"
	AllocationCreated             = "AllocationCreated"             // by a command other than a plan
	AllocationUpdated             = "AllocationUpdated"             // its agent reported
	AllocationUpdateDesiredStatus = "AllocationUpdateDesiredStatus" // the servers changed its desired status
	AllocationDeleted             = "AllocationDeleted"
	PlanResult                    = "PlanResult" // of an allocation or a deployment
	DeploymentStatusUpdate        = "DeploymentStatusUpdate"
	DeploymentPromotion           = "DeploymentPromotion"
	DeploymentAllocHealth         = "DeploymentAllocHealth"
	DeploymentDeleted             = "DeploymentDeleted"
	NodeRegistration              = "NodeRegistration"
	NodeDeregistration            = "NodeDeregistration"
	NodeEligibility               = "NodeEligibility"
	NodeEvent                     = "NodeEvent" // also for a change of its status
	NodePoolUpserted              = "NodePoolUpserted"
	NodePoolDeleted               = "NodePoolDeleted"
	ServiceRegistration           = "ServiceRegistration"
	ServiceDeregistration         = "ServiceDeregistration"
	HostVolumeRegistered          = "HostVolumeRegistered"
	HostVolumeDeleted             = "HostVolumeDeleted"
	CSIVolumeRegistered           = "CSIVolumeRegistered"
	CSIVolumeDeregistered         = "CSIVolumeDeregistered"
	CSIVolumeClaim                = "CSIVolumeClaim"
	CSIPluginUpdated              = "CSIPluginUpdated"
	CSIPluginDeleted              = "CSIPluginDeleted"
	ACLTokenUpserted              = "ACLTokenUpserted"
	ACLTokenDeleted               = "ACLTokenDeleted"
	ACLPolicyUpserted             = "ACLPolicyUpserted"
	ACLPolicyDeleted              = "ACLPolicyDeleted"
	ACLRoleUpserted               = "ACLRoleUpserted"
	ACLRoleDeleted                = "ACLRoleDeleted"
	ACLAuthMethodUpserted         = "ACLAuthMethodUpserted"
	ACLAuthMethodDeleted          = "ACLAuthMethodDeleted"
	ACLBindingRuleUpserted        = "ACLBindingRuleUpserted"
	ACLBindingRuleDeleted         = "ACLBindingRuleDeleted"
	VariableUpserted              = "VariableUpserted"
	VariableDeleted               = "VariableDeleted"
	SchedulerConfigUpdated        = "SchedulerConfigUpdated"
)

// A Set holds the events of one command, which share its state index.
type Set struct {
	Index  uint64  // of the state after the command
	Events []Event // in the order in which the command made the changes

	number uint64    // counted from the buffer's first ever
	added  time.Time // to the buffer
	weight int       // approximate memory in bytes; only its buffer changes it
}

// Event is one change of one row.
type Event struct {
	Topic   Topic
	Type    string // one of the constants above, or of those for Resource
	Row     any    // *berth.Job, *berth.Eval, *berth.Alloc, *berth.Deployment, *berth.Node, *berth.NodePool, *berth.ServiceRegistration, *berth.HostVolume, *berth.CSIVolume, *state.CSIClaim, *state.CSIPlugin, a row of access control, *berth.SealedVariable or *berth.SchedulerConfig; of Resource *berth.Job, *berth.StreamJob or *berth.Object
	Deleted bool   // Row is the deleted row
	// Summary holds the counts of a job at this change, for its status. It is
	// nil for other topics, and for a job without counts.
	Summary *state.Summary
	// Stream is the state of the submission of a stream job, for the topic
	// Resource; nil if it is not known any more.
	Stream *berth.StreamJob

	by      state.Number           // the command, for the topic Resource
	encoded atomic.Pointer[[]byte] // shared by readers, see Reader.Encoded
}

// Key returns the ID or name of the row.
func (e *Event) Key() string {
	if e.Topic == Resource {
		_, _, uid, _ := e.Object()
		return uid
	}
	switch v := e.Row.(type) {
	case *berth.Job:
		return string(v.ID)
	case *berth.Eval:
		return v.ID.String()
	case *berth.Alloc:
		return v.ID.String()
	case *berth.Deployment:
		return v.ID.String()
	case *berth.Node:
		return v.ID.String()
	case *berth.NodePool:
		return v.Name
	case *berth.ServiceRegistration:
		return v.ID
	case *berth.HostVolume:
		return v.ID
	case *berth.CSIVolume:
		return v.ID
	case *state.CSIClaim:
		return v.VolumeID
	case *state.CSIPlugin:
		return v.ID
	case *berth.ACLToken:
		return v.AccessorID
	case *berth.ACLPolicy:
		return v.Name
	case *berth.ACLRole:
		return v.ID
	case *berth.ACLAuthMethod:
		return v.Name
	case *berth.ACLBindingRule:
		return v.ID
	case *berth.SealedVariable:
		return v.Path
	case *berth.SchedulerConfig:
		return "scheduler"
	}
	return ""
}

// Namespace returns the namespace of the row, "" for a topic that is not
// namespaced.
func (e *Event) Namespace() string {
	if e.Topic == Resource {
		_, _, _, _, job := e.object()
		return job.Namespace
	}
	switch v := e.Row.(type) {
	case *berth.Job:
		return v.Namespace
	case *berth.Eval:
		return v.Namespace
	case *berth.Alloc:
		return v.Job.Namespace
	case *berth.Deployment:
		return v.Namespace
	case *berth.ServiceRegistration:
		return v.Namespace
	case *berth.HostVolume:
		return v.Namespace
	case *berth.CSIVolume:
		return v.Namespace
	case *state.CSIClaim:
		return v.Namespace
	case *berth.SealedVariable:
		return v.Namespace
	}
	return ""
}

// FilterKeys returns the names of what the row belongs to, which a filter can
// name as well as the row itself. The job comes first.
func (e *Event) FilterKeys() []string {
	keys := []string{}
	// Zero IDs have an empty text and name nothing.
	add := func(names ...string) {
		for _, k := range names {
			if k != "" {
				keys = append(keys, k)
			}
		}
	}
	if e.Topic == Resource {
		_, name, _, owner := e.Object()
		_, _, _, _, job := e.object()
		add(string(job.ID), name, owner)
		return keys
	}
	switch v := e.Row.(type) {
	case *berth.Job:
		add(string(v.ParentID))
	case *berth.Eval:
		add(string(v.JobID), v.DeploymentID.String(), v.NodeID.String())
	case *berth.Alloc:
		add(string(v.Job.ID), v.Rest().DeploymentID.String(), v.EvalID.String(), v.NodeID.String())
	case *berth.Deployment:
		add(string(v.JobID))
	case *berth.ServiceRegistration:
		add(string(v.JobID), v.ServiceName, v.AllocID.String(), v.NodeID.String())
	case *berth.HostVolume:
		add(v.Name, v.PluginID, v.NodeID.String())
	case *berth.CSIVolume:
		add(v.Name, v.PluginID)
	case *state.CSIClaim:
		add(v.PluginID, v.AllocID.String(), v.NodeID.String())
	case *berth.ACLRole:
		add(v.Name)
	case *berth.ACLBindingRule:
		add(v.AuthMethod)
	}
	return keys
}

// The commands that determine the type of an event.
var (
	registerJob  = state.NumberOf(&state.RegisterJob{})
	registerNode = state.NumberOf(&state.RegisterNode{})
	applyPlan    = state.NumberOf(&state.ApplyPlan{})
	reportAllocs = state.NumberOf(&state.ReportAllocs{})
	promote      = state.NumberOf(&state.PromoteDeployment{})
	setHealth    = state.NumberOf(&state.SetAllocHealth{})
	deleteJob    = state.NumberOf(&state.DeleteJob{})
)

// hasEvents reports whether a change becomes an event.
func hasEvents(c *state.Change) bool {
	switch c.Table {
	case state.Variables: // in no namespace are the servers' own
		v, _ := cmp.Or(c.New, c.Old).(*berth.SealedVariable)
		return v != nil && v.Namespace != ""
	case state.Jobs, state.Evals, state.Allocs, state.Deployments, state.Nodes, state.NodePools, state.Services,
		state.HostVolumes, state.CSIVolumes, state.CSIClaims, state.CSIPlugins, state.ACLTokens, state.ACLPolicies, state.ACLRoles, state.ACLAuthMethods, state.ACLBindingRules,
		state.SchedulerConfigs:
		return true
	}
	return false
}

// sets groups the changes of a commit by command, and leaves out those without
// events.
func sets(c *state.Commit) (out []*Set) {
	for rest := c.Changes; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].Index == rest[0].Index {
			n++
		}
		if s := newSet(c.Snapshot, rest[:n]); s != nil {
			out = append(out, s)
		}
		rest = rest[n:]
	}
	return out
}

// newSet returns the events for the changes of one command, nil if there are
// none.
func newSet(snap *state.Snapshot, changes []state.Change) *Set {
	// Events hold an atomic and cannot be moved, so they are counted first.
	told := 0
	for i := range changes {
		if hasEvents(&changes[i]) {
			told++
		}
		if ofResource(&changes[i]) {
			told++
		}
	}
	if told == 0 {
		return nil
	}
	s := &Set{Index: changes[0].Index, Events: make([]Event, told)}
	n := 0
	for i := range changes {
		c := &changes[i]
		if c.Table == state.Jobs && c.New != nil && removed(changes[i+1:], c.New) {
			continue // a purge stores the stopped job before it deletes it: one event covers both
		}
		if hasEvents(c) {
			e := &s.Events[n]
			describe(e, c)
			if j, ok := e.Row.(*berth.Job); ok {
				e.Summary = summary(snap, changes, j.Key())
			}
			n++
		}
		if ofResource(c) {
			describeResource(&s.Events[n], snap, changes, c)
			n++
		}
	}
	// Skipped changes were counted, so some may be left over.
	s.Events = s.Events[:n]
	for i := range s.Events {
		// Rows are shared with the state, but a buffer may keep them alive
		// alone.
		s.weight += weight(s.Events[i].Row)
	}
	return s
}

// removed reports whether one of the changes deletes a row.
func removed(changes []state.Change, row any) bool {
	for i := range changes {
		if changes[i].New == nil && changes[i].Old == row {
			return true
		}
	}
	return false
}

// summary returns the counts of a job after a command: those that the command
// itself changed, or else those at the end of the commit.
func summary(snap *state.Snapshot, changes []state.Change, k berth.JobKey) *state.Summary {
	for i := len(changes) - 1; i >= 0; i-- {
		if s, _ := changes[i].New.(*state.Summary); s != nil && s.Key == k {
			return s
		}
	}
	return snap.Summary(k)
}

// weight returns approximately how many bytes of memory a row takes.
func weight(row any) int {
	// bytes of the event itself
	const event = 160
	switch v := row.(type) {
	case *berth.Job:
		n := 2 << 10
		for _, g := range v.TaskGroups {
			n += 2<<10 + len(g.Tasks)<<10
		}
		return event + n
	case *berth.Eval:
		return event + 512 + 1024*len(v.FailedTGAllocs)
	case *berth.Alloc:
		n := event + 256 + len(v.Tasks)
		if v.More != nil {
			n += 256
		}
		return n
	case *berth.Deployment:
		return event + 512 + 256*len(v.TaskGroups)
	case *berth.NodePool:
		return event + 512 + 96*len(v.Meta)
	case *berth.StreamJob:
		n := event + 512
		if v.Plan != nil {
			n += 256 * len(v.Plan.Objects)
		}
		return n
	case *berth.Object:
		return event + 512
	case *berth.ServiceRegistration:
		return event + 512 + 64*len(v.Tags) + 96*len(v.Meta)
	case *berth.Node:
		return event + 2<<10 + 96*(len(v.Attributes)+len(v.Meta)) + 512*len(v.Events)
	case *berth.ACLPolicy:
		return event + 256 + len(v.Rules)
	case *berth.SealedVariable:
		return event + 256 + len(v.Data)
	}
	return event + 512
}

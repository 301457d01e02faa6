package op

import (
	"slices"

	"berth"
	"berth/internal/acl"
)

// Alloc is an allocation as the API shows it and as agents receive it, with its
// whole job.
type Alloc struct {
	ID                    berth.AllocID
	Namespace             string
	EvalID                berth.EvalID // the evaluation that placed it or updated it in place
	Name                  string       // job.group[index]
	NodeID                berth.NodeID
	NodeName              string
	JobID                 berth.JobID
	Job                   *berth.Job // the version that it was placed with or updated to
	TaskGroup             string
	Resources             *berth.Resources            // legacy sum of all tasks
	TaskResources         map[string]*berth.Resources // legacy, by task
	SharedResources       *berth.Resources            // legacy: what its tasks share
	AllocatedResources    *AllocatedResources
	Metrics               *berth.AllocMetric  // of its placement
	DesiredStatus         berth.DesiredStatus // what the servers want
	DesiredDescription    string              // why it stops
	DesiredTransition     DesiredTransition
	ClientStatus          berth.ClientStatus           // what its agent reported, or what servers concluded
	ClientDescription     string                       // why
	TaskStates            map[string]*TaskState        // by task; what its agent last reported
	DeploymentID          berth.DeploymentID           // zero: it is in no deployment
	DeploymentStatus      *berth.AllocDeploymentStatus // nil: its health is not decided and it is no canary
	FollowupEvalID        berth.EvalID                 // the delayed evaluation that will replace it
	PreviousAllocation    berth.AllocID                // that it replaces, zero if none
	NextAllocation        berth.AllocID                // that replaces it, zero if none
	RescheduleTracker     *RescheduleTracker           // nil: it replaces nothing that failed
	NetworkStatus         *berth.AllocNetworkStatus
	PreemptedAllocations  []berth.AllocID  // that made room for it
	PreemptedByAllocation berth.AllocID    // for which it made room, zero if none
	UnknownSince          int64            `json:",omitempty"` // ns since 1970, while the client status is unknown
	UID                   string           // a-…
	OwnerUID              string           // the UID of its job
	OwnerRefs             []berth.OwnerRef // empty: it was orphaned
	PE                    *PERef           `json:",omitempty"` // in a stream job: the launch of a processing element that it belongs to
	CreateIndex           uint64
	ModifyIndex           uint64
	AllocModifyIndex      uint64 // index of the last change that its agent must see
	CreateTime            int64  // ns since 1970
	ModifyTime            int64  // ns since 1970
}

// AllocStub is an allocation in a list.
type AllocStub struct {
	ID                    berth.AllocID
	EvalID                berth.EvalID
	Name                  string
	Namespace             string
	NodeID                berth.NodeID
	NodeName              string
	JobID                 berth.JobID
	JobType               string
	JobVersion            uint64
	TaskGroup             string
	AllocatedResources    *AllocatedResources `json:",omitempty"`
	DesiredStatus         berth.DesiredStatus
	DesiredDescription    string
	ClientStatus          berth.ClientStatus
	ClientDescription     string
	TaskStates            map[string]*TaskState
	DeploymentStatus      *berth.AllocDeploymentStatus
	FollowupEvalID        berth.EvalID
	NextAllocation        berth.AllocID
	RescheduleTracker     *RescheduleTracker
	PreemptedAllocations  []berth.AllocID
	PreemptedByAllocation berth.AllocID
	OwnerRefs             []berth.OwnerRef `json:",omitempty"` // in a stream job: its processing element
	PE                    *PERef           `json:",omitempty"` // the launch of it; Zombie is not set
	CreateIndex           uint64
	ModifyIndex           uint64
	CreateTime            int64
	ModifyTime            int64
}

// AllocatedResources is the capacity of its node that an allocation has.
type AllocatedResources struct {
	Tasks  map[string]*AllocatedTask
	Shared AllocatedShared
}

// AllocatedTask is the capacity that one task has.
type AllocatedTask struct {
	Cpu      AllocatedCPU
	Memory   AllocatedMemory
	Networks []berth.NetworkResource // ports that the task itself asked for
	Devices  []AllocatedDevice       `json:",omitempty"`
}

// Ports returns the ports that the task asked for itself, static ones included.
func (t *AllocatedTask) Ports() (out []berth.PortMapping) {
	if t == nil {
		return nil
	}
	for i := range t.Networks {
		nw := &t.Networks[i]
		for _, p := range slices.Concat(nw.ReservedPorts, nw.DynamicPorts) {
			m := berth.PortMapping{Label: p.Label, Value: p.Value, To: p.To, HostIP: nw.IP}
			if m.To < 0 {
				m.To = m.Value
			}
			out = append(out, m)
		}
	}
	return out
}

// PortsOf returns the ports that a task can name by their label: its own, and
// those of the group unless its own have the label. task is "" for the group.
func (r *AllocatedResources) PortsOf(task string) (out []berth.PortMapping) {
	if r == nil {
		return nil
	}
	if task != "" {
		out = r.Tasks[task].Ports()
	}
	for _, m := range r.Shared.Ports {
		if !slices.ContainsFunc(out, func(own berth.PortMapping) bool { return own.Label == m.Label }) {
			out = append(out, m)
		}
	}
	return out
}

// AllocatedDevice is the devices granted for one request, all from one group of
// equal devices.
type AllocatedDevice struct {
	Vendor, Type, Name string
	DeviceIDs          []string
}

// AllocatedCPU is processor time in MHz, and the cores reserved for the task.
type AllocatedCPU struct {
	CpuShares     int64    // MHz, those of reserved cores included
	ReservedCores []uint16 `json:",omitempty"` // IDs
}

// AllocatedMemory is memory in MiB.
type AllocatedMemory struct{ MemoryMB, MemoryMaxMB int64 }

// AllocatedShared is the capacity that the tasks of an allocation share.
type AllocatedShared struct {
	DiskMB   int64 // MiB
	Networks []berth.NetworkResource
	Ports    []berth.PortMapping // of the group, static ones included
}

// DesiredTransition is what is requested of an allocation beyond its desired
// status.
type DesiredTransition struct {
	Migrate         *bool // elsewhere, because its node is drained
	Reschedule      *bool // elsewhere, because it failed
	ForceReschedule *bool // the same, whatever its policy says
	NoShutdownDelay *bool // stop without the delay of its group
}

// RescheduleTracker lists the replacements that led to an allocation.
type RescheduleTracker struct {
	Events []berth.RescheduleEvent
}

// AllocRef names an allocation.
type AllocRef struct {
	AllocID string
	Query
}

// AllocsQuery asks for allocations.
type AllocsQuery struct {
	Resources  bool  `query:"resources"`   // include AllocatedResources
	TaskStates *bool `query:"task_states"` // include TaskStates; nil is true
	Query
}

// LogsQuery asks for the output of a task.
type LogsQuery struct {
	AllocID string
	Task    string `query:"task"`
	Type    string `query:"type"`   // stdout or stderr
	Follow  bool   `query:"follow"` // go on when the file grows
	Offset  int64  `query:"offset"` // in bytes
	Origin  string `query:"origin"` // start or end: where Offset counts from
	File    string `query:"file"`   // with the origin start: Offset counts from the start of this file, named as in frames; if it is gone, reading begins with the next
	Plain   bool   `query:"plain"`  // answer with bytes instead of frames
	Query
}

// StreamFrame is a piece of a file that is being streamed. An empty frame keeps
// the connection alive.
type StreamFrame struct {
	Offset    int64  `json:",omitempty"` // in bytes, where Data begins in File
	Data      []byte `json:",omitempty"`
	File      string `json:",omitempty"`
	FileEvent string `json:",omitempty"` // the file was truncated or deleted
}

// The operations on allocations. ReadLogs streams frames or bytes; its output
// type only names the frame.
var (
	ListAllocs = define[AllocsQuery, []AllocStub]("alloc.list", "GET /v1/allocations", "", acl.ReadJob, acl.QuerySpace)
	ReadAlloc  = define[AllocRef, Alloc]("alloc.read", "GET /v1/allocation/{AllocID}", "", acl.ReadJob, acl.AllocSpace)
	ReadLogs   = define[LogsQuery, StreamFrame]("alloc.logs", "GET /v1/client/fs/logs/{AllocID}", "", acl.ReadLogs, acl.AllocSpace, local)
)

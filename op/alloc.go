package op

import (
	"berth"
	"berth/internal/acl"
)

// Alloc is an allocation as the API shows it, and as agents get it: with its
// whole job.
type Alloc struct {
	ID                    berth.AllocID
	Namespace             string
	EvalID                berth.EvalID
	Name                  string
	NodeID                berth.NodeID
	NodeName              string
	JobID                 berth.JobID
	Job                   *berth.Job
	TaskGroup             string
	Resources             *berth.Resources            // legacy sum of all tasks
	TaskResources         map[string]*berth.Resources // legacy, by task
	AllocatedResources    *AllocatedResources
	Metrics               *berth.AllocMetric
	DesiredStatus         berth.DesiredStatus
	DesiredDescription    string
	DesiredTransition     DesiredTransition
	ClientStatus          berth.ClientStatus
	ClientDescription     string
	TaskStates            map[string]*berth.TaskState
	DeploymentID          berth.DeploymentID
	DeploymentStatus      *berth.AllocDeploymentStatus
	FollowupEvalID        berth.EvalID
	PreviousAllocation    berth.AllocID
	NextAllocation        berth.AllocID
	RescheduleTracker     *RescheduleTracker
	NetworkStatus         *berth.AllocNetworkStatus
	PreemptedAllocations  []berth.AllocID
	PreemptedByAllocation berth.AllocID
	UnknownSince          int64            `json:",omitempty"` // ns since 1970, while the client status is unknown
	UID                   string           // a-…
	OwnerUID              string           // of its job
	OwnerRefs             []berth.OwnerRef // empty: it was left to itself
	PE                    *PERef           `json:",omitempty"` // of a stream job: what it is a launch of
	CreateIndex           uint64
	ModifyIndex           uint64
	AllocModifyIndex      uint64
	CreateTime            int64
	ModifyTime            int64
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
	TaskStates            map[string]*berth.TaskState
	DeploymentStatus      *berth.AllocDeploymentStatus
	FollowupEvalID        berth.EvalID
	NextAllocation        berth.AllocID
	RescheduleTracker     *RescheduleTracker
	PreemptedAllocations  []berth.AllocID
	PreemptedByAllocation berth.AllocID
	OwnerRefs             []berth.OwnerRef `json:",omitempty"` // of a stream job's: its processing element
	PE                    *PERef           `json:",omitempty"` // of that the launch; not whether it is a zombie
	CreateIndex           uint64
	ModifyIndex           uint64
	CreateTime            int64
	ModifyTime            int64
}

// AllocatedResources is what an allocation was given of its node.
type AllocatedResources struct {
	Tasks  map[string]*AllocatedTask
	Shared AllocatedShared
}

// AllocatedTask is what one task was given.
type AllocatedTask struct {
	Cpu      AllocatedCPU
	Memory   AllocatedMemory
	Networks []berth.NetworkResource
	Devices  []AllocatedDevice `json:",omitempty"`
}

// AllocatedDevice is the devices that one request was given, of a group of
// equal ones.
type AllocatedDevice struct {
	Vendor, Type, Name string
	DeviceIDs          []string
}

// AllocatedCPU is processor time in MHz, and the cores that are the task's own.
type AllocatedCPU struct {
	CpuShares     int64
	ReservedCores []uint16 `json:",omitempty"`
}

// AllocatedMemory is memory in MiB.
type AllocatedMemory struct{ MemoryMB, MemoryMaxMB int64 }

// AllocatedShared is what the tasks share.
type AllocatedShared struct {
	DiskMB   int64
	Networks []berth.NetworkResource
	Ports    []berth.PortMapping
}

// DesiredTransition is what an operator wants of an allocation beyond its
// desired status.
type DesiredTransition struct {
	Migrate         *bool
	Reschedule      *bool
	ForceReschedule *bool
	NoShutdownDelay *bool
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
	Resources  bool  `query:"resources"`   // with AllocatedResources
	TaskStates *bool `query:"task_states"` // with TaskStates; nil is yes
	Query
}

// LogsQuery asks for the output of a task.
type LogsQuery struct {
	AllocID string
	Task    string `query:"task"`
	Type    string `query:"type"` // stdout or stderr
	Follow  bool   `query:"follow"`
	Offset  int64  `query:"offset"`
	Origin  string `query:"origin"` // start or end, which Offset counts from
	Plain   bool   `query:"plain"`  // bytes instead of frames
	Query
}

// StreamFrame is one piece of a file that is streamed. An empty frame keeps
// the connection alive.
type StreamFrame struct {
	Offset    int64  `json:",omitempty"`
	Data      []byte `json:",omitempty"`
	File      string `json:",omitempty"`
	FileEvent string `json:",omitempty"`
}

// The operations on allocations. ReadLogs streams: what comes out are frames
// or bytes, and the type here only names them.
var (
	ListAllocs = define[AllocsQuery, []AllocStub]("alloc.list", "GET /v1/allocations", "", acl.ReadJob, acl.QuerySpace)
	ReadAlloc  = define[AllocRef, Alloc]("alloc.read", "GET /v1/allocation/{AllocID}", "", acl.ReadJob, acl.AllocSpace)
	ReadLogs   = define[LogsQuery, StreamFrame]("alloc.logs", "GET /v1/client/fs/logs/{AllocID}", "", acl.ReadLogs, acl.AllocSpace, local)
)

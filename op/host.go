package op

import (
	"maps"
	"regexp"
	"slices"
	"time"

	"berth"
	"berth/internal/acl"
	"berth/internal/decode"
)

// NodeTarget asks the agent of a node.
type NodeTarget struct {
	NodeID string `query:"node_id"` // "" is the node of the agent that answers
	Query
}

// HostStats is what a node's machine uses of itself.
type HostStats struct {
	Memory           *HostMemory
	CPU              []HostCPU  // one for each processor
	DiskStats        []HostDisk // of file systems on block devices
	AllocDirStats    *HostDisk  // of the file system with the directories of allocations
	DeviceStats      []*DeviceGroupStats
	Uptime           uint64  // s
	CPUTicksConsumed float64 // MHz
}

// HostMemory is the memory of a machine, in bytes.
type HostMemory struct{ Total, Available, Used, Free uint64 }

// HostCPU is the use of one processor, in percent of its time.
type HostCPU struct {
	CPU                string // cpu0
	User, System, Idle float64
}

// HostDisk is the use of a file system. Used counts what only root may take as
// free, so that Used and Available add up to less than Size.
type HostDisk struct {
	Device            string
	Mountpoint        string
	Size              uint64 // bytes, as the two below
	Used              uint64
	Available         uint64
	UsedPercent       float64 // of Used and Available
	InodesUsedPercent float64 // 0 where the file system has no fixed number
}

// AllocStatsQuery asks what an allocation uses of its node.
type AllocStatsQuery struct {
	AllocID string
	Task    string `query:"task"` // "" is all tasks
	Query
}

// AllocUsage is what the tasks of an allocation use.
type AllocUsage struct {
	ResourceUsage *ResourceUsage // their sum
	Tasks         map[string]*TaskUsage
	Timestamp     int64 // ns since 1970
}

// AllocUse is an allocation of a node with what its tasks use.
type AllocUse struct {
	Alloc *Alloc
	Usage *AllocUsage
}

// TaskUsage is what a task uses.
type TaskUsage struct {
	ResourceUsage *ResourceUsage
	Timestamp     int64                     // ns since 1970
	Pids          map[string]*ResourceUsage // by process, where the driver knows them
}

// ResourceUsage is a use of memory and processors.
type ResourceUsage struct {
	MemoryStats *MemoryUsage
	CpuStats    *CPUUsage
	DeviceStats []Nothing // none: device plugins tell them of the machine only
}

// MemoryUsage is a use of memory, in bytes. Measured names those of the fields
// that the driver measures.
type MemoryUsage struct {
	RSS            uint64
	Cache          uint64
	Swap           uint64
	Usage          uint64
	MaxUsage       uint64
	KernelUsage    uint64
	KernelMaxUsage uint64
	Measured       []string
}

// CPUUsage is a use of processors. Percentages are of one processor. Measured
// names those of the fields that the driver measures.
type CPUUsage struct {
	SystemMode       float64 // percent
	UserMode         float64 // percent
	TotalTicks       float64 // MHz
	ThrottledPeriods uint64  // in which it would have used more than it may
	ThrottledTime    uint64  // ns
	Percent          float64 // of both modes
	Measured         []string
}

// AllocTarget names an allocation to its agent.
type AllocTarget struct {
	AllocID string
	Query
}

// PauseQuery asks what a task's schedule is made to do.
type PauseQuery struct {
	AllocID string
	Task    string `query:"task"` // "" is the only one
	Query
}

// PauseState answers PauseQuery.
type PauseState struct {
	ScheduleState string // berth.ScheduleFollow and its siblings
}

// PauseAlloc says what a task's schedule is made to do.
type PauseAlloc struct {
	AllocID       string
	Task          string // "" is the only one
	ScheduleState string // berth.ScheduleFollow and its siblings
	Write
}

// Check returns an error if the state is none.
func (p *PauseAlloc) Check() error {
	switch p.ScheduleState {
	case berth.ScheduleFollow, berth.SchedulePause, berth.ScheduleRun:
		return nil
	}
	return berth.Errorf(berth.Invalid, "ScheduleState: unknown state %q: want pause, run or scheduled", berth.Clip(p.ScheduleState, 64))
}

// ChangeMeta changes the metadata that a node has beside that of its
// configuration.
type ChangeMeta struct {
	NodeID string            // "" is the node of the agent that answers
	Meta   map[string]string // keys to set. In JSON, null removes a key as Unset does
	Unset  []string          // keys to remove, also those of the configuration
	Write
}

// Shape moves the keys whose value is null to Unset, as Nomad's clients send
// them.
func (*ChangeMeta) Shape(body decode.Tree) decode.Tree {
	meta, ok := body["Meta"].(decode.Tree)
	if !ok {
		return body
	}
	out, kept := maps.Clone(body), decode.Tree{}
	unset, _ := body["Unset"].([]any)
	unset = slices.Clone(unset)
	for _, k := range slices.Sorted(maps.Keys(meta)) {
		if v := meta[k]; v != nil {
			kept[k] = v
		} else {
			unset = append(unset, k)
		}
	}
	out["Meta"] = kept
	if len(unset) > 0 {
		out["Unset"] = unset
	}
	return out
}

// Changes returns what is asked for; nil stands for a key that is removed.
func (c *ChangeMeta) Changes() map[string]*string {
	out := map[string]*string{}
	for k, v := range c.Meta {
		out[k] = &v
	}
	for _, k := range c.Unset {
		out[k] = nil
	}
	return out
}

// NodeMeta is the metadata of a node.
type NodeMeta struct {
	Meta    map[string]string  // that holds
	Dynamic map[string]*string // what was changed; nil: the key was removed
	Static  map[string]string  // of the configuration
}

// The operations that a node's agent answers about the node. Those of Nomad's
// clients that collect are GET, and any method is accepted.
var (
	ReadHost     = define[NodeTarget, HostStats]("node.stats", "GET /v1/client/stats", "", acl.NodeRead, acl.NoSpace, local)
	CollectNode  = define[NodeTarget, Nothing]("node.collect", "GET /v1/client/gc", "", acl.NodeWrite, acl.NoSpace, local, anyMethod)
	ReadMeta     = define[NodeTarget, NodeMeta]("node.meta", "GET /v1/client/metadata", "", acl.NodeRead, acl.NoSpace, local)
	ApplyMeta    = define[ChangeMeta, NodeMeta]("node.set_meta", "PUT /v1/client/metadata", "", acl.NodeWrite, acl.NoSpace, local)
	ReadUsage    = define[AllocStatsQuery, AllocUsage]("alloc.stats", "GET /v1/client/allocation/{AllocID}/stats", "", acl.ReadJob, acl.AllocSpace, local)
	CollectAlloc = define[AllocTarget, Nothing]("alloc.collect", "GET /v1/client/allocation/{AllocID}/gc", "", acl.SubmitJob, acl.AllocSpace, local, anyMethod)

	ReadPause = define[PauseQuery, PauseState]("alloc.pause_state", "GET /v1/client/allocation/{AllocID}/pause", "", acl.ReadJob, acl.AllocSpace, local)
	PauseTask = define[PauseAlloc, Nothing]("alloc.pause", "PUT /v1/client/allocation/{AllocID}/pause", "", acl.SubmitJob, acl.AllocSpace, local)

	AgentReadPause    = define[PauseQuery, PauseState]("agent.pause_state", "", "Allocations.GetPauseState", acl.Server, acl.NoSpace, agents)
	AgentPauseTask    = define[PauseAlloc, Nothing]("agent.pause", "", "Allocations.SetPauseState", acl.Server, acl.NoSpace, agents, write)
	AgentReadHost     = define[NodeTarget, HostStats]("agent.stats", "", "ClientStats.Stats", acl.Server, acl.NoSpace, agents)
	AgentReadUsage    = define[AllocStatsQuery, AllocUsage]("agent.alloc_stats", "", "Allocations.Stats", acl.Server, acl.NoSpace, agents)
	AgentCollectNode  = define[NodeTarget, Nothing]("agent.collect", "", "Allocations.GarbageCollectAll", acl.Server, acl.NoSpace, agents)
	AgentCollectAlloc = define[AllocTarget, Nothing]("agent.collect_alloc", "", "Allocations.GarbageCollect", acl.Server, acl.NoSpace, agents)
	AgentReadMeta     = define[NodeTarget, NodeMeta]("agent.meta", "", "NodeMeta.Read", acl.Server, acl.NoSpace, agents)
	AgentApplyMeta    = define[ChangeMeta, NodeMeta]("agent.set_meta", "", "NodeMeta.Apply", acl.Server, acl.NoSpace, agents, write)
)

// The limits of metadata that is changed while an agent runs.
const (
	MaxMetaKeys  = 512
	MaxMetaValue = 4096 // bytes
)

// metaForm limits the keys of a node's metadata: jobs refer to them as
// ${meta.KEY}.
var metaForm = regexp.MustCompile(`^[A-Za-z0-9._/-]{1,128}$`)

// MetaKey reports whether a text can be a key of a node's metadata.
func MetaKey(s string) bool { return metaForm.MatchString(s) }

// Check returns an error that names each key that cannot be one, and each value
// that is too long.
func (c *ChangeMeta) Check() error {
	var ps berth.Problems
	changes := c.Changes()
	if len(changes) == 0 {
		ps.Addf("Meta", "is missing: want at least one key")
	}
	if len(changes) > MaxMetaKeys {
		ps.Addf("Meta", "%d keys are too many: the limit is %d", len(changes), MaxMetaKeys)
	}
	for k, v := range changes {
		name := "Meta[" + berth.Clip(k, 64) + "]"
		if !MetaKey(k) {
			ps.Addf(name, "not a valid key: want 1 to 128 letters, digits, dots, slashes, dashes and underscores")
		}
		if v != nil && len(*v) > MaxMetaValue {
			ps.Addf(name, "%d bytes are too long: the limit is %d", len(*v), MaxMetaValue)
		}
	}
	return ps.Err()
}

// DeviceGroupStats are the statistics of equal devices.
type DeviceGroupStats struct {
	Vendor, Type, Name string
	InstanceStats      map[string]*DeviceStats // by the ID of the device
}

// DeviceStats are those of one device.
type DeviceStats struct {
	Summary   *StatValue // the most telling one
	Stats     *StatObject
	Timestamp time.Time
}

// StatObject is a tree of statistics.
type StatObject struct {
	Nested     map[string]*StatObject
	Attributes map[string]*StatValue
}

// StatValue is a statistic: a number, a fraction, a text or a truth.
type StatValue struct {
	FloatNumeratorVal   *float64 `json:",omitempty"`
	FloatDenominatorVal *float64 `json:",omitempty"`
	IntNumeratorVal     *int64   `json:",omitempty"`
	IntDenominatorVal   *int64   `json:",omitempty"`
	StringVal           *string  `json:",omitempty"`
	BoolVal             *bool    `json:",omitempty"`
	Unit                string   `json:",omitempty"`
	Desc                string   `json:",omitempty"`
}

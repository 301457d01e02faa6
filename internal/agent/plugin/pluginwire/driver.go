package pluginwire

// Capabilities answers the call of that name.
type Capabilities struct {
	Capabilities *DriverCapabilities `pb:"1"`
}

// The isolations of a driver.
const (
	IsolationNone   = 0
	IsolationChroot = 1
	IsolationImage  = 2
)

// The modes of a task's network.
const (
	NetworkHost  = 0
	NetworkGroup = 1
	NetworkTask  = 2
	NetworkNone  = 3
)

// DriverCapabilities are what a driver can do.
type DriverCapabilities struct {
	SendSignals       bool    `pb:"1"`
	Exec              bool    `pb:"2"`
	FSIsolation       int32   `pb:"3"`
	NetworkModes      []int32 `pb:"4"`
	MustCreateNetwork bool    `pb:"5"`
	NoMounts          int32   `pb:"6"` // 1: no mounts
	RemoteTasks       bool    `pb:"7"`
	NoLogs            bool    `pb:"8"`
}

// The states of a driver's health.
const (
	Undetected = 0
	Unhealthy  = 1
	Healthy    = 2
)

// DriverFingerprint is one message of the stream Fingerprint.
type DriverFingerprint struct {
	Attributes        map[string]*Attribute `pb:"1"`
	Health            int32                 `pb:"2"`
	HealthDescription string                `pb:"3"`
}

// TaskID asks something of one task: WaitTask, InspectTask.
type TaskID struct {
	TaskID string `pb:"1"`
}

// RecoverTask asks for a task that was started before.
type RecoverTask struct {
	TaskID string      `pb:"1"`
	Handle *TaskHandle `pb:"2"`
}

// StartTask asks for a new task.
type StartTask struct {
	Task *TaskConfig `pb:"1"`
}

// The results of a start.
const (
	StartSuccess = 0
	StartRetry   = 1
	StartFatal   = 2
)

// StartedTask answers StartTask.
type StartedTask struct {
	Result  int32            `pb:"1"`
	Error   string           `pb:"2"`
	Handle  *TaskHandle      `pb:"3"`
	Network *NetworkOverride `pb:"4"`
}

// WaitedTask answers WaitTask.
type WaitedTask struct {
	Result *ExitResult `pb:"1"`
	Error  string      `pb:"2"`
}

// StopTask asks a task to end.
type StopTask struct {
	TaskID  string    `pb:"1"`
	Timeout *Duration `pb:"2"`
	Signal  string    `pb:"3"`
}

// DestroyTask forgets a task.
type DestroyTask struct {
	TaskID string `pb:"1"`
	Force  bool   `pb:"2"`
}

// InspectedTask answers InspectTask.
type InspectedTask struct {
	Task    *TaskStatus       `pb:"1"`
	Driver  *TaskDriverStatus `pb:"2"`
	Network *NetworkOverride  `pb:"3"`
}

// TaskStatsRequest asks for the stream TaskStats.
type TaskStatsRequest struct {
	TaskID   string    `pb:"1"`
	Interval *Duration `pb:"2"`
}

// TaskStatsResponse is one message of it.
type TaskStatsResponse struct {
	Stats *TaskStats `pb:"1"`
}

// SignalTask signals a task.
type SignalTask struct {
	TaskID string `pb:"1"`
	Signal string `pb:"2"`
}

// ExecIO is a piece of input or output of a command, or its end.
type ExecIO struct {
	Data  []byte `pb:"1"`
	Close bool   `pb:"2"`
}

// ExecRequest is what goes to a command: first what it is, then its input.
type ExecRequest struct {
	Setup *ExecSetup `pb:"1"`
	Size  *ExecSize  `pb:"2"`
	Stdin *ExecIO    `pb:"3"`
}

// ExecSetup says what to run.
type ExecSetup struct {
	TaskID  string   `pb:"1"`
	Command []string `pb:"2"`
	TTY     bool     `pb:"3"`
}

// ExecSize is the size of a terminal.
type ExecSize struct {
	Height int32 `pb:"1"`
	Width  int32 `pb:"2"`
}

// ExecResponse is what comes from it.
type ExecResponse struct {
	Stdout *ExecIO     `pb:"1"`
	Stderr *ExecIO     `pb:"2"`
	Exited bool        `pb:"3"`
	Result *ExitResult `pb:"4"`
}

// NetworkIsolation is the network of a task.
type NetworkIsolation struct {
	Mode   int32             `pb:"1"`
	Path   string            `pb:"2"`
	Labels map[string]string `pb:"3"`
	Hosts  *HostsConfig      `pb:"4"`
}

// HostsConfig is the host name of a network.
type HostsConfig struct {
	Hostname string `pb:"1"`
	Address  string `pb:"2"`
}

// DNSConfig is how a task resolves names.
type DNSConfig struct {
	Servers  []string `pb:"1"`
	Searches []string `pb:"2"`
	Options  []string `pb:"3"`
}

// TaskConfig is all that a driver is told of a task.
type TaskConfig struct {
	ID          string            `pb:"1"`
	Name        string            `pb:"2"`
	Config      []byte            `pb:"3"` // msgpack
	Env         map[string]string `pb:"4"`
	DeviceEnv   map[string]string `pb:"5"`
	Resources   *TaskResources    `pb:"6"`
	Mounts      []*Mount          `pb:"7"`
	Devices     []*Device         `pb:"8"`
	User        string            `pb:"9"`
	AllocDir    string            `pb:"10"`
	Stdout      string            `pb:"11"`
	Stderr      string            `pb:"12"`
	Group       string            `pb:"13"`
	JobName     string            `pb:"14"`
	AllocID     string            `pb:"15"`
	Network     *NetworkIsolation `pb:"16"`
	DNS         *DNSConfig        `pb:"17"`
	JobID       string            `pb:"18"`
	Namespace   string            `pb:"19"`
	NodeName    string            `pb:"20"`
	NodeID      string            `pb:"21"`
	ParentJobID string            `pb:"22"`
}

// TaskResources are what a task may use.
type TaskResources struct {
	Allocated *AllocatedResources `pb:"1"`
	Linux     *LinuxResources     `pb:"2"`
	Ports     []*Port             `pb:"3"`
}

// AllocatedResources are what it was promised.
type AllocatedResources struct {
	CPU    *AllocatedCPU    `pb:"1"`
	Memory *AllocatedMemory `pb:"2"`
}

// AllocatedCPU is in MHz.
type AllocatedCPU struct {
	Shares int64 `pb:"1"`
}

// AllocatedMemory is in MiB.
type AllocatedMemory struct {
	MemoryMB    int64 `pb:"1"`
	MemoryMaxMB int64 `pb:"2"`
}

// Port is a port of the allocation.
type Port struct {
	Label  string `pb:"1"`
	Value  int32  `pb:"2"`
	To     int32  `pb:"3"`
	HostIP string `pb:"4"`
}

// LinuxResources are the same in the terms of Linux.
type LinuxResources struct {
	CPUPeriod    int64   `pb:"1"`
	CPUQuota     int64   `pb:"2"`
	CPUShares    int64   `pb:"3"`
	MemoryLimit  int64   `pb:"4"` // bytes
	OOMScoreAdj  int64   `pb:"5"`
	CPUSet       string  `pb:"6"`
	PercentTicks float64 `pb:"8"`
	CPUSetCgroup string  `pb:"9"`
}

// Mount is a directory of the host in the tree of a task.
type Mount struct {
	TaskPath    string `pb:"1"`
	HostPath    string `pb:"2"`
	ReadOnly    bool   `pb:"3"`
	Propagation string `pb:"4"`
}

// Device is a device of the host in the tree of a task.
type Device struct {
	TaskPath    string `pb:"1"`
	HostPath    string `pb:"2"`
	Permissions string `pb:"3"`
}

// The states of a task.
const (
	TaskUnknown = 0
	TaskRunning = 1
	TaskExited  = 2
)

// TaskHandle is what a driver needs to find a task again.
type TaskHandle struct {
	Version int32       `pb:"1"`
	Config  *TaskConfig `pb:"2"`
	State   int32       `pb:"3"`
	Driver  []byte      `pb:"4"`
}

// NetworkOverride is the network that a driver made for a task.
type NetworkOverride struct {
	PortMap       map[string]int32 `pb:"1"`
	Addr          string           `pb:"2"`
	AutoAdvertise bool             `pb:"3"`
}

// ExitResult is how a task ended.
type ExitResult struct {
	Code      int32 `pb:"1"`
	Signal    int32 `pb:"2"`
	OOMKilled bool  `pb:"3"`
}

// TaskStatus is how a task stands.
type TaskStatus struct {
	ID          string      `pb:"1"`
	Name        string      `pb:"2"`
	State       int32       `pb:"3"`
	StartedAt   *Time       `pb:"4"`
	CompletedAt *Time       `pb:"5"`
	Result      *ExitResult `pb:"6"`
}

// TaskDriverStatus is what a driver says of it besides.
type TaskDriverStatus struct {
	Attributes map[string]string `pb:"1"`
}

// TaskStats is what a task uses.
type TaskStats struct {
	ID    string                `pb:"1"`
	At    *Time                 `pb:"2"`
	All   *TaskUsage            `pb:"3"`
	ByPID map[string]*TaskUsage `pb:"4"`
}

// TaskUsage is what a process or all of a task use.
type TaskUsage struct {
	CPU    *CPUUsage    `pb:"1"`
	Memory *MemoryUsage `pb:"2"`
}

// CPUUsage is the use of processors.
type CPUUsage struct {
	System           float64 `pb:"1"`
	User             float64 `pb:"2"`
	Ticks            float64 `pb:"3"`
	ThrottledPeriods uint64  `pb:"4"`
	ThrottledTime    uint64  `pb:"5"`
	Percent          float64 `pb:"6"`
	Measured         []int32 `pb:"7"`
}

// MemoryUsage is the use of memory in bytes.
type MemoryUsage struct {
	RSS            uint64  `pb:"1"`
	Cache          uint64  `pb:"2"`
	MaxUsage       uint64  `pb:"3"`
	KernelUsage    uint64  `pb:"4"`
	KernelMaxUsage uint64  `pb:"5"`
	Measured       []int32 `pb:"6"`
	Usage          uint64  `pb:"7"`
	Swap           uint64  `pb:"8"`
}

// TaskEvent is one message of the stream TaskEvents.
type TaskEvent struct {
	TaskID      string            `pb:"1"`
	AllocID     string            `pb:"2"`
	TaskName    string            `pb:"3"`
	At          *Time             `pb:"4"`
	Message     string            `pb:"5"`
	Annotations map[string]string `pb:"6"`
}

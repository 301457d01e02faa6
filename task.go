package berth

import "time"

// Task is one process, container or virtual machine of a group.
type Task struct {
	Name            string `hcl:",label"`
	Driver          string
	User            string
	Lifecycle       *TaskLifecycle    `hcl:"lifecycle"`
	Config          map[string]any    `hcl:"config"` // its keys depend on the driver
	Constraints     []Constraint      `hcl:"constraint"`
	Affinities      []Affinity        `hcl:"affinity"`
	Env             map[string]string `hcl:"env"`
	Services        []Service         `hcl:"service"`
	Resources       *Resources        `hcl:"resources"` // never nil once decoded
	RestartPolicy   *RestartPolicy    `hcl:"restart"`   // never nil once decoded
	Meta            map[string]string `hcl:"meta"`
	KillTimeout     time.Duration     // from the kill signal to the kill
	LogConfig       *LogConfig        `hcl:"logs"` // never nil once decoded
	Artifacts       []TaskArtifact    `hcl:"artifact"`
	Vault           *Vault            `hcl:"vault"`
	Consul          *Consul           `hcl:"consul"`
	Templates       []Template        `hcl:"template"`
	DispatchPayload *DispatchPayload  `hcl:"dispatch_payload"`
	VolumeMounts    []VolumeMount     `hcl:"volume_mount"`
	CSIPluginConfig *CSIPluginConfig  `hcl:"csi_plugin"`
	Leader          bool              // when it ends, the group's other tasks are stopped
	ShutdownDelay   time.Duration
	KillSignal      string
	Kind            string
	ScalingPolicies []ScalingPolicy    `hcl:"scaling"`
	Secrets         []Secret           `hcl:"secret"`
	Identity        *WorkloadIdentity  `hcl:"-"`
	Identities      []WorkloadIdentity `hcl:"identity"`
	Actions         []Action           `hcl:"action"`
	Schedule        *TaskSchedule      `hcl:"schedule"`
	Connectivity    *TaskConnectivity  `hcl:"connectivity" json:",omitempty"` // in a stream job
}

// TaskLifecycle decides when a task runs relative to the group's main tasks,
// those without it.
type TaskLifecycle struct {
	Hook    string // prestart, poststart or poststop
	Sidecar bool   // runs for as long as the main tasks; otherwise to its end
}

// The hooks of lifecycle.
const (
	HookPrestart  = "prestart"  // before the main tasks
	HookPoststart = "poststart" // once all of them run
	HookPoststop  = "poststop"  // once all of them have ended
)

// Hook returns the hook of the task's lifecycle, "" for a main task.
func (t *Task) Hook() string {
	if t.Lifecycle == nil {
		return ""
	}
	return t.Lifecycle.Hook
}

// Sidecar reports whether the task runs beside the main tasks for as long as
// they do.
func (t *Task) Sidecar() bool { return t.Lifecycle != nil && t.Lifecycle.Sidecar }

// LogConfig bounds what is kept of a task's output.
type LogConfig struct {
	MaxFiles      int
	MaxFileSizeMB int `hcl:"max_file_size"`
	Disabled      bool
	Enabled       *bool `hcl:"enabled"` // deprecated spelling of Disabled
}

// DispatchPayload is where a dispatched job's payload is written.
type DispatchPayload struct{ File string }

// VolumeMount puts a volume of the group into a task's tree.
type VolumeMount struct {
	Volume          string
	Destination     string
	ReadOnly        bool
	PropagationMode string
	SELinuxLabel    string `hcl:"selinux_label"`
}

// CSIPluginConfig makes a task a CSI plugin.
type CSIPluginConfig struct {
	ID                  string
	Type                string
	MountDir            string
	StagePublishBaseDir string
	HealthTimeout       time.Duration
}

// TaskArtifact is fetched before a task starts.
type TaskArtifact struct {
	GetterSource   string            `hcl:"source"`
	GetterOptions  map[string]string `hcl:"options"`
	GetterHeaders  map[string]string `hcl:"headers"`
	GetterMode     string            `hcl:"mode"`
	GetterInsecure bool              `hcl:"insecure"`
	RelativeDest   string            `hcl:"destination"`
	Chown          bool
}

// Template is a file rendered for a task.
type Template struct {
	SourcePath    string        `hcl:"source"`
	DestPath      string        `hcl:"destination"`
	EmbeddedTmpl  string        `hcl:"data"`
	ChangeMode    string        `hcl:"change_mode"`
	ChangeScript  *ChangeScript `hcl:"change_script"`
	ChangeSignal  string
	Once          bool
	Splay         time.Duration
	Perms         string
	Uid           *int
	Gid           *int
	LeftDelim     string `hcl:"left_delimiter"`
	RightDelim    string `hcl:"right_delimiter"`
	Envvars       bool   `hcl:"env"`
	VaultGrace    time.Duration
	Wait          *WaitConfig `hcl:"wait"`
	ErrMissingKey bool        `hcl:"error_on_missing_key"`
	Rolling       bool        `json:",omitempty"` // change_mode restart: the allocations of the group restart in turn
}

// WaitConfig bounds how long a template waits for values to settle.
type WaitConfig struct {
	Min time.Duration
	Max time.Duration
}

// ChangeScript runs in a task when its template changed.
type ChangeScript struct {
	Command          string
	Args             []string
	Timeout          time.Duration
	FailOnError      bool
	RunOnFirstRender bool
}

// Vault asks for a Vault token.
type Vault struct {
	Policies             []string
	Role                 string
	Namespace            string
	Cluster              string
	Env                  bool
	DisableFile          bool
	ChangeMode           string
	ChangeSignal         string
	AllowTokenExpiration bool
}

// Consul asks for a Consul token.
type Consul struct {
	Namespace string
	Cluster   string
	Partition string
}

// Secret is a value fetched from a secret provider into the task's environment.
type Secret struct {
	Name     string `hcl:",label"`
	Provider string
	Path     string
	Config   map[string]any    `hcl:"config"`
	Env      map[string]string `hcl:"env"`
}

// WorkloadIdentity asks for a signed identity of the task.
type WorkloadIdentity struct {
	Name         string
	Audience     []string `hcl:"aud"`
	ChangeMode   string
	ChangeSignal string
	Env          bool
	File         bool
	Filepath     string
	ServiceName  string
	TTL          time.Duration `hcl:"ttl"`
	ExtraClaims  []string      // names among those that the namespace defines
}

// DefaultIdentity is the name of the identity that every task has.
const DefaultIdentity = "default"

// What a task is told when an identity or a template changed.
const (
	ChangeNoop    = "noop"
	ChangeSignal  = "signal"
	ChangeRestart = "restart"
	ChangeRun     = "script" // of a template: its change_script is run
)

// AllIdentities returns the identities that the task's job describes, the
// default one first.
func (t *Task) AllIdentities() (out []*WorkloadIdentity) {
	if t.Identity != nil {
		out = append(out, t.Identity)
	}
	for i := range t.Identities {
		out = append(out, &t.Identities[i])
	}
	return out
}

// IdentityNamed returns an identity of the task, nil if it has none of that
// name. The default one always exists; its name may be "".
func (t *Task) IdentityNamed(name string) *WorkloadIdentity {
	for _, w := range t.AllIdentities() {
		if w.Name == name || (w.Name == "" || w.Name == DefaultIdentity) && (name == "" || name == DefaultIdentity) {
			return w
		}
	}
	if name == "" || name == DefaultIdentity {
		return &WorkloadIdentity{Name: DefaultIdentity}
	}
	return nil
}

// Action is a command that can be run in a task by name.
type Action struct {
	Name    string `hcl:",label"`
	Command string
	Args    []string
}

// What a task's schedule is made to do: follow the job file, or not. These are
// the words of the HTTP API.
const (
	ScheduleFollow = "scheduled" // the task runs when its schedule says so
	SchedulePause  = "pause"     // it does not run, whatever its schedule says
	ScheduleRun    = "run"       // it runs, whatever its schedule says
)

// TaskSchedule runs a task only at certain times.
type TaskSchedule struct {
	Cron *TaskScheduleCron `hcl:"cron"`
}

// TaskScheduleCron is a cron schedule.
type TaskScheduleCron struct {
	Start    string // cron expression: when the task starts
	End      string // minute and hour at which it is stopped, the next after the start
	Timezone string // "" is UTC
}

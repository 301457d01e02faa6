package berth

import "time"

// Task is one process, container or virtual machine of a group.
type Task struct {
	Name            string             `hcl:",label"`
	Driver          string             // what runs it, such as docker or exec
	User            string             // whom it runs as; "" is the driver's default
	Lifecycle       *TaskLifecycle     `hcl:"lifecycle"`  // nil: a main task
	Config          map[string]any     `hcl:"config"`     // its keys depend on the driver
	Constraints     []Constraint       `hcl:"constraint"` // beside those of its group
	Affinities      []Affinity         `hcl:"affinity"`   // beside those of its group
	Env             map[string]string  `hcl:"env"`        // values may hold ${…}
	Services        []Service          `hcl:"service"`
	Resources       *Resources         `hcl:"resources"` // never nil once decoded
	RestartPolicy   *RestartPolicy     `hcl:"restart"`   // never nil once decoded
	Meta            map[string]string  `hcl:"meta"`      // over those of group and job
	KillTimeout     time.Duration      // from the kill signal to the kill
	LogConfig       *LogConfig         `hcl:"logs"` // never nil once decoded
	Artifacts       []TaskArtifact     `hcl:"artifact"`
	Vault           *Vault             `hcl:"vault"`  // not supported
	Consul          *Consul            `hcl:"consul"` // not supported
	Templates       []Template         `hcl:"template"`
	DispatchPayload *DispatchPayload   `hcl:"dispatch_payload"`
	VolumeMounts    []VolumeMount      `hcl:"volume_mount"`
	CSIPluginConfig *CSIPluginConfig   `hcl:"csi_plugin"`
	Leader          bool               // when it ends, the group's other tasks are stopped
	ShutdownDelay   time.Duration      // between the removal of its services and the kill signal
	KillSignal      string             // such as SIGTERM
	Kind            string             // not supported; it is for proxies of Consul
	ScalingPolicies []ScalingPolicy    `hcl:"scaling"` // vertical: of its CPU and memory
	Secrets         []Secret           `hcl:"secret"`
	Identity        *WorkloadIdentity  `hcl:"-"`        // the default one; nil: the job does not change it
	Identities      []WorkloadIdentity `hcl:"identity"` // beside the default one
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
	MaxFiles      int   // for each of stdout and stderr
	MaxFileSizeMB int   `hcl:"max_file_size"` // MiB
	Disabled      bool  // nothing is kept
	Enabled       *bool `hcl:"enabled"` // deprecated spelling of Disabled
}

// DispatchPayload is where a dispatched job's payload is written.
type DispatchPayload struct{ File string }

// VolumeMount puts a volume of the group into a task's tree.
type VolumeMount struct {
	Volume          string // name of a volume of the group
	Destination     string // path in the task's tree
	ReadOnly        bool
	PropagationMode string // private, host-to-task or bidirectional
	SELinuxLabel    string `hcl:"selinux_label"`
}

// CSIPluginConfig makes a task a CSI plugin.
type CSIPluginConfig struct {
	ID                  string        // the plugin's name in the cluster
	Type                string        // node, controller or monolith, which is both
	MountDir            string        // where in the task the directory with the plugin's socket is
	StagePublishBaseDir string        // where in the task volumes are staged and published
	HealthTimeout       time.Duration // how long the plugin may take until it answers
}

// TaskArtifact is fetched before a task starts.
type TaskArtifact struct {
	GetterSource   string            `hcl:"source"` // URL
	GetterOptions  map[string]string `hcl:"options"`
	GetterHeaders  map[string]string `hcl:"headers"`
	GetterMode     string            `hcl:"mode"`        // any, file or dir
	GetterInsecure bool              `hcl:"insecure"`    // do not verify the server's certificate
	RelativeDest   string            `hcl:"destination"` // below the task's directory
	Chown          bool              // what is fetched belongs to the task's user
}

// Template is a file rendered for a task.
type Template struct {
	SourcePath    string        `hcl:"source"`        // a file; instead of EmbeddedTmpl
	DestPath      string        `hcl:"destination"`   // below the task's directory
	EmbeddedTmpl  string        `hcl:"data"`          // the text of the template
	ChangeMode    string        `hcl:"change_mode"`   // one of the Change constants: what follows a change
	ChangeScript  *ChangeScript `hcl:"change_script"` // with ChangeRun
	ChangeSignal  string        // with ChangeSignal
	Once          bool          // it is rendered once and never again
	Splay         time.Duration // what follows a change waits for a random part of this
	Perms         string        // octal, such as "0644"
	Uid           *int          // owner of the file; nil: the task's user
	Gid           *int          // group of the file; nil: that of the task's user
	LeftDelim     string        `hcl:"left_delimiter"`
	RightDelim    string        `hcl:"right_delimiter"`
	Envvars       bool          `hcl:"env"` // the file has NAME=value lines, which go into the task's environment
	VaultGrace    time.Duration // not supported
	Wait          *WaitConfig   `hcl:"wait"`
	ErrMissingKey bool          `hcl:"error_on_missing_key"` // a key that does not exist is an error; otherwise it renders as <no value>
	Rolling       bool          `json:",omitempty"`          // change_mode restart: the allocations of the group restart in turn
}

// WaitConfig bounds how long a template waits for values to settle.
type WaitConfig struct {
	Min time.Duration // how long values must stay the same before the template is rendered
	Max time.Duration // the longest wait for that
}

// ChangeScript runs in a task when its template changed.
type ChangeScript struct {
	Command          string
	Args             []string
	Timeout          time.Duration
	FailOnError      bool // if it fails, the task is stopped
	RunOnFirstRender bool // not supported
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
	Name     string            `hcl:",label"`
	Provider string            // nomad, or the name of a program in a directory of the node
	Path     string            // of the variable, or what the program takes
	Config   map[string]any    `hcl:"config"`
	Env      map[string]string `hcl:"env"` // for the program
}

// WorkloadIdentity asks for a signed identity of the task.
type WorkloadIdentity struct {
	Name         string
	Audience     []string `hcl:"aud"` // whom it is meant for
	ChangeMode   string   // noop, signal or restart: what follows a new one
	ChangeSignal string
	Env          bool          // it is in the task's environment
	File         bool          // it is a file in the task's directory of secrets
	Filepath     string        // below the task's directory; "" is the default one
	ServiceName  string        // not supported; it is for services in Consul
	TTL          time.Duration `hcl:"ttl"` // how long it is valid; it is renewed before. 0: for as long as the allocation runs
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

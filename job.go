package berth

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// Namespace names.
const (
	DefaultNamespace = "default"
	AllNamespaces    = "*" // in a read: every namespace
)

// Built-in names.
const (
	DefaultRegion   = "global"
	DefaultNodePool = "default"
	AllNodePool     = "all" // in a job: nodes of every pool
)

// JobID is the name that a user gave a job. It is unique in a namespace while the
// job exists; incarnations that have it one after another differ by UID.
type JobID string

// JobKey names a job among all namespaces.
type JobKey struct {
	Namespace string
	ID        JobID
}

// String returns the key as people read it.
func (k JobKey) String() string {
	if k.Namespace == DefaultNamespace {
		return string(k.ID)
	}
	return k.Namespace + "/" + string(k.ID)
}

// The job types.
const (
	TypeService  = "service"
	TypeBatch    = "batch"
	TypeSystem   = "system"
	TypeSysbatch = "sysbatch"
	TypeCore     = "core" // of evaluations only: the system's own upkeep
)

// Job priorities; higher is scheduled first.
const (
	MinPriority     = 1
	MaxPriority     = 100    // unless servers are configured for more
	TopPriority     = 32_766 // that they can be configured for
	DefaultPriority = 50
)

// Job is what a user wants to run: groups of tasks, how many of each, and
// where. A stored Job is one version of it and never changes.
type Job struct {
	Region           string // where it runs
	Namespace        string
	ID               JobID
	Name             string
	Type             string               // one of the Type constants
	Priority         int                  // from MinPriority; the higher goes first, and may preempt the lower
	AllAtOnce        bool                 // its plans are committed in full or not at all
	Datacenters      []string             // globs; ["*"] is anywhere
	NodePool         string               // whose nodes may run it; AllNodePool is every node
	Constraints      []Constraint         `hcl:"constraint"` // for all groups
	Affinities       []Affinity           `hcl:"affinity"`   // for all groups
	TaskGroups       []*TaskGroup         `hcl:"group"`
	Update           *UpdateStrategy      `hcl:"update"`                    // of groups that have none
	Multiregion      *Multiregion         `hcl:"multiregion"`               // not supported
	Spreads          []Spread             `hcl:"spread"`                    // for all groups
	Periodic         *PeriodicConfig      `hcl:"periodic"`                  // set: it runs nothing itself and launches children at certain times
	ParameterizedJob *ParameterizedConfig `hcl:"parameterized"`             // set: it runs nothing itself and launches a child for each dispatch
	Reschedule       *ReschedulePolicy    `hcl:"reschedule"`                // of groups that have none
	Migrate          *MigrateStrategy     `hcl:"migrate"`                   // of groups that have none
	Meta             map[string]string    `hcl:"meta"`                      // for tasks, as NOMAD_META_*
	UI               *JobUI               `hcl:"ui"`                        // what the web UI shows beside it
	Stream           *StreamSpec          `hcl:",inline" json:",omitempty"` // of a stream job

	// What follows is set by servers, never by a job file.

	Stop                     bool   `hcl:"-"` // a user stopped it; its allocations stop, the row stays until it is collected or purged
	ParentID                 JobID  `hcl:"-"` // of a child: the periodic or parameterized job that launched it
	Dispatched               bool   `hcl:"-"` // it is the child of a dispatch
	DispatchIdempotencyToken string `hcl:"-"` // of a child: the token of its dispatch, at most one child for each
	Payload                  []byte `hcl:"-"` // of a child of a dispatch
	ConsulNamespace          string `hcl:"-"` // not supported
	VaultNamespace           string `hcl:"-"` // not supported

	Stable         bool           `hcl:"-"` // this version was deployed with success, so a deployment that fails can go back to it
	Version        uint64         `hcl:"-"` // 0 at first, +1 with each accepted change of the specification
	VersionTag     *JobVersionTag `hcl:"-"` // nil: nobody tagged this version
	SubmitTime     int64          `hcl:"-"` // ns since 1970, when the proposer took it
	CreateIndex    uint64         `hcl:"-"` // of this incarnation
	ModifyIndex    uint64         `hcl:"-"` // of the last change of the row
	JobModifyIndex uint64         `hcl:"-"` // of the last change of the specification; what check-index compares

	UID UID `hcl:"-"` // of this incarnation; owns its allocations
}

// Key returns the job's name among all namespaces.
func (j *Job) Key() JobKey { return JobKey{j.Namespace, j.ID} }

// Group returns the group of that name, or nil.
func (j *Job) Group(name string) *TaskGroup {
	for _, g := range j.TaskGroups {
		if g.Name == name {
			return g
		}
	}
	return nil
}

// Schedulable reports whether the job itself runs: of a periodic or
// parameterized job only the children do.
func (j *Job) Schedulable() bool {
	return j.Periodic == nil && (j.ParameterizedJob == nil || j.Dispatched)
}

// PerNode reports whether the job runs on every node that meets its constraints
// (system, sysbatch). An instance belongs to its node: it is never placed
// elsewhere, and instances on different nodes can have the same name.
func (j *Job) PerNode() bool { return PerNode(j.Type) }

// PerNode reports whether jobs of a type run on every node.
func PerNode(jobType string) bool { return jobType == TypeSystem || jobType == TypeSysbatch }

// The statuses of a job, derived from its allocations and evaluations.
const (
	JobPending = "pending" // an evaluation is open and nothing runs yet
	JobRunning = "running"
	JobDead    = "dead" // stopped, or nothing is left to do
)

// JobUI is shown beside the job in a UI and means nothing to the scheduler.
type JobUI struct {
	Description string
	Links       []JobUILink `hcl:"link"`
}

// JobUILink is a labelled link.
type JobUILink struct {
	Label string // the text of the link
	URL   string // where it leads
}

// JobVersionTag names a version so that it is kept and can be found.
type JobVersionTag struct {
	Name        string
	Description string
	TaggedTime  int64 // ns since 1970
}

// JobSubmission is the text a job was made from, kept for people.
type JobSubmission struct {
	Source        string            // the job file as the user wrote it
	Format        string            // hcl2, hcl1 or json
	VariableFlags map[string]string // by name, as given with -var
	Variables     string            // text of the variable files
}

// Multiregion deploys one job to several regions.
type Multiregion struct {
	Strategy *MultiregionStrategy `hcl:"strategy"`
	Regions  []MultiregionRegion  `hcl:"region"`
}

// MultiregionStrategy is the order and error handling of a multiregion rollout.
type MultiregionStrategy struct {
	MaxParallel int
	OnFailure   string
}

// MultiregionRegion is one region of a multiregion job.
type MultiregionRegion struct {
	Name        string `hcl:",label"`
	Count       int
	Datacenters []string
	NodePool    string
	Meta        map[string]string `hcl:"meta"`
}

// GroupPrefix begins each name in depends_on: what is waited for is a group.
const GroupPrefix = "group."

// Ordered reports whether a group of the job waits for another one, or runs
// once in each version.
func (j *Job) Ordered() bool {
	return slices.ContainsFunc(j.TaskGroups, func(g *TaskGroup) bool { return len(g.DependsOn) > 0 || g.Once != "" })
}

// Awaits returns the groups of the job that a group waits for, in the order of
// the job: those that its depends_on names, and those that run once in each
// version unless they wait for this one.
func (j *Job) Awaits(g *TaskGroup) (out []*TaskGroup) {
	for _, other := range j.TaskGroups {
		first := other.Once != "" && g.Once == "" && !j.dependsOn(other, g.Name, map[string]bool{})
		if other.Name != g.Name && (first || slices.Contains(g.DependsOn, GroupPrefix+other.Name)) {
			out = append(out, other)
		}
	}
	return out
}

// dependsOn reports whether a group names another one in its depends_on, or one
// does that it names.
func (j *Job) dependsOn(g *TaskGroup, name string, seen map[string]bool) bool {
	for _, d := range g.DependsOn {
		d = strings.TrimPrefix(d, GroupPrefix)
		if d == name {
			return true
		}
		if next := j.Group(d); next != nil && !seen[d] {
			seen[d] = true
			if j.dependsOn(next, name, seen) {
				return true
			}
		}
	}
	return false
}

// Finite reports whether the instances of a group of the job run to their end.
func (j *Job) Finite(g *TaskGroup) bool {
	return j.Type == TypeBatch || j.Type == TypeSysbatch || g.Once != ""
}

// TaskGroup is a set of tasks that run together on one node; each instance of
// it is an allocation.
type TaskGroup struct {
	Name             string                   `hcl:",label"`
	Count            int                      // how many instances; of a system job, how many on each node
	Constraints      []Constraint             `hcl:"constraint"`
	Affinities       []Affinity               `hcl:"affinity"`
	Tasks            []*Task                  `hcl:"task"`
	Spreads          []Spread                 `hcl:"spread"`
	Volumes          map[string]VolumeRequest `hcl:"volume"`         // by the name that tasks mount them by
	RestartPolicy    *RestartPolicy           `hcl:"restart"`        // of tasks that have none
	Disconnect       *DisconnectStrategy      `hcl:"disconnect"`     // nil: an allocation is lost with its node
	ReschedulePolicy *ReschedulePolicy        `hcl:"reschedule"`     // nil for types that are not rescheduled
	EphemeralDisk    *EphemeralDisk           `hcl:"ephemeral_disk"` // never nil once decoded
	Update           *UpdateStrategy          `hcl:"update"`         // nil: the job's, or none
	Migrate          *MigrateStrategy         `hcl:"migrate"`        // nil: [DefaultMigrate]
	Networks         []NetworkResource        `hcl:"network"`        // one at most
	Meta             map[string]string        `hcl:"meta"`
	Services         []Service                `hcl:"service"`
	ShutdownDelay    time.Duration            // between the removal of its services and the kill signal
	MaxRunDuration   time.Duration            // after which its allocations are stopped; 0: never
	Scaling          *ScalingPolicy           `hcl:"scaling"`
	Consul           *Consul                  `hcl:"consul"` // not supported

	StopAfterClientDisconnect time.Duration // older form of Disconnect.StopOnClientAfter
	MaxClientDisconnect       time.Duration // older form of Disconnect.LostAfter
	PreventRescheduleOnLost   bool          // older form of the opposite of Disconnect.Replace

	DependsOn []string `json:",omitempty"` // "group.db": groups that are healthy, or done, before this one is placed
	Once      string   `json:",omitempty"` // OnceDeployment: it runs to its end once in each version of the job

	Stream *StreamGroup `hcl:",inline" json:",omitempty"` // in a stream job
}

// OnceDeployment is the value of a group's once.
const OnceDeployment = "deployment"

// Task returns the task of that name, or nil.
func (g *TaskGroup) Task(name string) *Task {
	for _, t := range g.Tasks {
		if t.Name == name {
			return t
		}
	}
	return nil
}

// EphemeralDisk is the disk space that an allocation may use on its node.
type EphemeralDisk struct {
	Sticky  bool // a replacement is placed on the same node if it can be, and gets the data
	Migrate bool // with Sticky: a replacement on another node gets a copy of the data
	SizeMB  int  `hcl:"size"` // MiB
}

// VolumeRequest asks for a volume that tasks of the group may mount.
type VolumeRequest struct {
	Name           string           `hcl:",label"`
	Type           string           // VolumeHost or VolumeCSI
	Source         string           // the volume's name on nodes, or in the cluster
	ReadOnly       bool             // no task writes to it
	Sticky         bool             // an instance returns to the host volume that it used first
	AccessMode     string           // one of the Access constants
	AttachmentMode string           // one of the Attach constants
	MountOptions   *CSIMountOptions `hcl:"mount_options"` // of a CSI volume; over those of the volume itself
	PerAlloc       bool             // each instance has a volume of its own: Source[index]
}

// The types of volume.
const (
	VolumeHost = "host"
	VolumeCSI  = "csi"
)

// SourceFor returns the name of the volume that one instance of the group
// asks for.
func (v *VolumeRequest) SourceFor(index uint32) string {
	if v.PerAlloc {
		return v.Source + "[" + strconv.FormatUint(uint64(index), 10) + "]"
	}
	return v.Source
}

// CSIMountOptions are the mount options of a CSI volume.
type CSIMountOptions struct {
	FSType     string   `hcl:"fs_type"` // file system, such as ext4; "" leaves it to the plugin
	MountFlags []string // as for mount -o
}

// ScalingPolicy bounds a count, and holds the settings of an autoscaler.
type ScalingPolicy struct {
	Min     int64          // the least count, or the least of a resource of a task
	Max     int64          // the largest
	Policy  map[string]any `hcl:"policy"` // for the autoscaler, which Berth does not read
	Enabled bool           // whether the autoscaler follows it
	Type    string         // one of the Scaling constants

	ID          string            `hcl:"-"` // follows from Target
	Namespace   string            `hcl:"-"`
	Target      map[string]string `hcl:"-"` // by the Target constants: what is scaled
	CreateIndex uint64            `hcl:"-"`
	ModifyIndex uint64            `hcl:"-"`
}

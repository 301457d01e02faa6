// Package supervise runs the tasks of one allocation in a small process of
// their own, so that restarting the agent disturbs none of them.
//
// The supervisor ([Main], "berth supervise ID" of the same binary) owns what
// would die with its owner: the tasks' log pipes, their exit statuses, their
// timers to be killed. It listens on a unix socket in its control directory,
// does what the agent asks, keeps each exit until the agent says that it is
// recorded ([Dir.Release]), and ends by itself when no task runs and nothing is
// left to tell. It survives the agent, however the agent ends.
//
// The agent sees it through a [Dir]. If a supervisor was killed, its Dir finds
// what is left of the tasks, by cgroup, session and the mark that each process
// has in its environment, and stops it: nobody could say any more how they
// ended. Process numbers of an earlier boot are never signalled.
//
// A supervisor holds a lock on its control directory for as long as it lives.
// That, not a process number, is how the agent knows whether there is one.
package supervise

import (
	"errors"
	"time"

	"berth"
	"berth/internal/agent/isolate"
)

// ControlDir is the name of the control directory in an allocation's
// directory. No task may have it.
const ControlDir = ".supervise"

// Mark is the environment variable that tells whose process one is: the
// allocation's ID. Every process of a task has it, with TaskMark.
const (
	Mark     = "NOMAD_ALLOC_ID"
	TaskMark = "NOMAD_TASK_NAME"
)

// Errors that say what became of a launch. They are final.
var (
	// ErrUnknown says that the launch never started a process.
	ErrUnknown = errors.New("the supervisor does not know this launch")
	// ErrLost says that the supervisor was killed; what was left of the task
	// has been stopped, and how it would have ended is not known.
	ErrLost = errors.New("the task's supervisor was killed")
	// ErrReboot says that the machine was restarted since.
	ErrReboot = errors.New("the machine was restarted")
)

// Start says what to run.
type Start struct {
	Command string   // path of the executable
	Args    []string // without the command
	Env     []string // name=value; the marks are added
	Dir     string   // working directory
	User    *User    // nil: the supervisor's own
	Logs    Logs
	Cgroup  string // name of the parent cgroup; "" for none
	// Until is when the task is stopped unless the lease is extended meanwhile,
	// see [Dir.Extend]; a time of [BootTime], 0 for never. It holds for all
	// tasks of the allocation.
	Until int64 `json:",omitempty"`
	// KillSignal and KillTimeout are how it is stopped then.
	KillSignal  int           `json:",omitempty"`
	KillTimeout time.Duration `json:",omitempty"`
	// Cores are those that the task may run on, where the machine has the
	// cpuset controller; nil is all.
	Cores []uint16 `json:",omitempty"`
	// Limits are what the task may use. Where the machine has no controller for
	// one that is set, the task does not start.
	Limits Limits `json:",omitzero"`
	// OOMScoreAdj, -1000 to 1000, says how readily the kernel kills the task
	// for lack of memory.
	OOMScoreAdj int `json:",omitempty"`
	// Isolate keeps the task from the machine; nil does not. Command is then
	// looked for in the task's file tree, and Dir is not used.
	Isolate *isolate.Spec `json:",omitempty"`
	// NetNS is the path of the network namespace of a task that is not isolated;
	// "" is the supervisor's own.
	NetNS string `json:",omitempty"`
}

// Limits are what a task may use of the machine; 0 is no limit.
type Limits struct {
	CPUShares    int64 `json:",omitempty"` // weight against other tasks
	CPUQuota     int64 `json:",omitempty"` // thousandths of a core, at most
	Memory       int64 `json:",omitempty"` // bytes that it keeps when memory gets scarce
	MemoryMax    int64 `json:",omitempty"` // bytes above which the kernel kills it
	MaxProcesses int64 `json:",omitempty"`
	// MoreDevices are devices besides, each its path on the host and what may be
	// done with it: "/dev/nvidia0 rw".
	MoreDevices []string `json:",omitempty"`
	Devices     bool     `json:",omitempty"` // only the devices that an isolated task has, where cgroups of version 1 can say so
}

// User is who a task runs as.
type User struct {
	UID, GID uint32
	Groups   []uint32
}

// Logs says what to keep of a task's output.
type Logs struct {
	Disabled bool
	MaxFiles int
	MaxSize  int64 // bytes of one file
}

// Launch is one start of a task. The agent numbers them, so that a call that
// is repeated, by this agent or the next, never starts a task twice.
type Launch struct {
	Task      string
	Number    uint64
	PID       int    // 0 while it is being started
	StartTime uint64 // of the process, in clock ticks since boot: with PID its identity
	StartedAt time.Time
	Cgroup    string // directory of its cgroup; "" if it has none
	// Controllers are the directories of its cgroups in hierarchies of version 1
	// that limit it.
	Controllers []string `json:",omitempty"`
	Isolated    bool     `json:",omitempty"` // it was started with Start.Isolate
	Exit        *Exit    // nil while it runs
	Released    bool     // the agent has recorded the exit
}

// Exit is how a task ended.
type Exit struct {
	Code   int
	Signal int    // that ended it, or 0
	Err    string // why there is neither
	At     time.Time
	CutOff bool `json:",omitempty"` // it was stopped because the lease was over
	// OOMKilled says that it failed and the kernel had killed a process of it
	// because it used more memory than it may.
	OOMKilled bool `json:",omitempty"`
}

// Success reports whether the task ended well.
func (e *Exit) Success() bool { return e.Code == 0 && e.Signal == 0 && e.Err == "" }

// check refuses a start that could not be meant.
func (s *Start) check() error {
	switch {
	case s.Command == "":
		return berth.Errorf(berth.Invalid, "start: no command")
	case s.Dir == "" && s.Isolate == nil:
		return berth.Errorf(berth.Invalid, "start: no working directory")
	case !s.Logs.Disabled && (s.Logs.MaxFiles < 1 || s.Logs.MaxSize < 1):
		return berth.Errorf(berth.Invalid, "start: logs of %d files of %d bytes: must be at least one of each", s.Logs.MaxFiles, s.Logs.MaxSize)
	}
	return nil
}

// Package driver says what the agent wants of a task driver: to start a task,
// to find it again after the agent was restarted, to wait for its end, to
// signal and stop it. Restart policies, directories, environment and reports
// are not a driver's business. Package drivertest is this contract in
// executable form; a new driver is done when it passes.
package driver

import (
	"context"
	"errors"
	"io"
	"syscall"
	"time"

	"berth"
	"berth/internal/agent/supervise"
	"berth/internal/saferoot"
)

// Driver starts tasks of one kind. It is safe for concurrent use.
type Driver interface {
	Name() string

	// Capabilities tells what the driver can do at all. It never changes.
	Capabilities() Capabilities

	// Fingerprint tells whether the driver can be used on this machine, and
	// works now.
	Fingerprint(ctx context.Context) berth.DriverInfo

	// Start starts a task. If it returns an error nothing of the task runs,
	// also if ctx ends in the middle, unless it is [Detaching] or the error is
	// ErrUnclear: then Recover tells what became of it.
	// [IsRecoverable] tells whether to try again can help.
	Start(ctx context.Context, t *Task) (Handle, error)

	// Recover finds a task that an earlier agent started, or was about to:
	// state is what Handle.State said, nil if that was never recorded. A
	// t.Launch of 0 means the newest that there is. ErrUnknown says that the
	// launch never ran, ErrLost that it ran and cannot be watched any more and
	// that nothing of it is left, ErrReboot that the machine was restarted.
	Recover(ctx context.Context, t *Task, state []byte) (Handle, error)
}

// Handle is a running task, or one that has ended and is not released.
type Handle interface {
	// Launch is the number it was started by.
	Launch() uint64

	// State is what Recover needs to find the task again.
	State() []byte

	// Wait returns when the task and all its processes have ended, or ctx has.
	// Once it has returned an exit it returns the same again. ErrLost as of
	// Recover.
	Wait(ctx context.Context) (*Exit, error)

	// Signal signals the task.
	Signal(ctx context.Context, sig syscall.Signal) error

	// Stop asks the task to end by sig and sees to it that it is killed after
	// the timeout, even if the agent is gone by then. It does not wait.
	Stop(ctx context.Context, sig syscall.Signal, timeout time.Duration) error

	// Release says that the exit is recorded and can be forgotten.
	Release(ctx context.Context) error

	// Usage tells what the task uses of the machine now.
	Usage(ctx context.Context) (Usage, error)
}

// Isolation says how far a driver keeps tasks from the machine.
type Isolation string

// The isolations.
const (
	NoIsolation    Isolation = "none"  // a process of the host
	Isolated       Isolation = "exec"  // a process with namespaces and a file tree of its own
	ImageIsolation Isolation = "image" // a container or virtual machine with a file tree of its own image
)

// Capabilities are what a driver can do.
type Capabilities struct {
	Isolation Isolation
	Signals   bool     // Handle.Signal works
	Exec      bool     // its handles implement [Execer]
	Mounts    bool     // Task.Mounts are mounted
	Labels    bool     // with their Label
	Networks  []string // the network modes of groups whose tasks it can run, without "host", which each can; "cni" stands for all of CNI
}

// Execer is implemented by handles of drivers that can run a command beside a
// running task, with its user, limits, namespaces and file tree.
type Execer interface {
	// Exec runs the command and returns its exit code when it has ended and all
	// its output is written. It ends the command when ctx ends. An error
	// means that the command could not be started or watched.
	Exec(ctx context.Context, e *Exec) (code int, err error)
}

// Exec is a command to run beside a task.
type Exec struct {
	Command []string // not empty
	TTY     bool     // stdin, stdout and stderr are one terminal; Stderr is not used
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer
	Resize  <-chan TerminalSize // with TTY; may be nil
}

// TerminalSize is the size of a terminal in characters.
type TerminalSize struct{ Rows, Columns uint16 }

// Limits are what a task may use. 0 means no limit.
type Limits struct {
	CPUShares    int64 // MHz that it was promised, as weight against other tasks
	CPUTotal     int64 // MHz of the whole node, to make a hard limit of a share
	Memory       int64 // bytes that it was promised
	MemoryMax    int64 // bytes above which it is killed; 0: Memory
	MaxProcesses int64
}

// Mount is a directory of the host that a task sees at a place of its own tree.
type Mount struct {
	Source      string // absolute, on the host
	Destination string // absolute, in the task's tree
	ReadOnly    bool
	Propagation string // "private", "host-to-task" or "bidirectional"
	Label       string // of SELinux: "z" to share it with others, "Z" for the task alone, "" to leave it
}

// Device is a device of the host that a task gets, at a place of its own tree.
// Permissions are any of "r", "w" and "m".
type Device struct{ Source, Destination, Permissions string }

// Reservation is what a task needs to use devices.
type Reservation struct {
	Env     map[string]string
	Mounts  []Mount
	Devices []Device
}

// Job is whose task it is, for drivers that name things by it.
type Job struct{ ID, Name, Namespace, Group, Parent, NodeID, NodeName string }

// Usage is what a task uses of the machine.
type Usage = supervise.Usage

// Exit is how a task ended.
type Exit = supervise.Exit

// What became of a launch that Recover or Wait cannot find.
var (
	ErrUnknown = supervise.ErrUnknown
	ErrLost    = supervise.ErrLost
	ErrReboot  = supervise.ErrReboot
)

// ErrUnclear is the error of a Start that may have started the task.
var ErrUnclear = errors.New("the task may have been started")

// Task is what a driver is told of a task. All of it is interpolated.
type Task struct {
	AllocID string
	Name    string
	Launch  uint64 // grows with each start of the task; with the two above it names the launch

	Config map[string]any // of the task, for the driver to check
	Env    []string       // name=value, complete
	User   string         // "" is the agent's own

	AllocDir   *saferoot.Root // the allocation's directory
	Dir        string         // the task's, absolute
	Supervisor *supervise.Dir // of the allocation
	Logs       supervise.Logs // how its output is kept
	Cores      []uint16       // that are the task's own; nil if it has none
	Cgroup     string         // name of the parent of the task's cgroup; "" for none
	Grace      time.Duration  // from being asked to end to being killed
	KillSignal syscall.Signal // by which it is asked to end
	Limits     Limits
	Mounts     []Mount              // volumes of the job, and what its devices need
	Devices    []Device             // of device plugins
	DeviceEnv  map[string]string    // what device plugins added to Env
	Job        Job                  // whose task it is
	Ports      []berth.PortMapping  // of the task and its group, each with the address that it is on
	OwnPorts   int                  // that many of Ports, the first, the task asked for itself
	Network    *Network             // nil: the host's
	Progress   func(message string) // shows what a long start does as an event of the task; never nil
	RunUntil   time.Time            // when it is stopped unless the allocation's lease is extended; zero for never
}

// recoverable is an error that may be gone at the next try.
type recoverable struct{ error }

// Unwrap lets errors.Is and KindOf see the error that was marked.
func (e recoverable) Unwrap() error { return e.error }

// Recoverable marks err as one that may be gone at the next try.
func Recoverable(err error) error { return recoverable{err} }

// IsRecoverable reports whether err, or a cause of it, was marked.
func IsRecoverable(err error) bool {
	_, ok := errors.AsType[recoverable](err)
	return ok
}

package berth

import (
	"strings"
	"time"
)

// TaskState is the state of one task of an allocation.
type TaskState struct {
	State       string // pending, running or dead
	Failed      bool
	Restarts    uint64
	LastRestart time.Time
	StartedAt   time.Time
	FinishedAt  time.Time
	Events      []TaskEvent // oldest first, at most TaskEventsKept
}

// TaskEventsKept is how many events a task remembers.
const TaskEventsKept = 10

// The states of a task.
const (
	TaskPending = "pending"
	TaskRunning = "running"
	TaskDead    = "dead"
)

// TaskEvent is something that happened to a task.
type TaskEvent struct {
	Type           string
	Time           int64 // ns since 1970
	DisplayMessage string
	Details        map[string]string
	Message        string
}

// The types of task event.
const (
	EventReceived        = "Received"
	EventTaskSetup       = "Task Setup"
	EventSetupFailure    = "Setup Failure"
	EventDriverFailure   = "Driver Failure"
	EventDriver          = "Driver"
	EventStarted         = "Started"
	EventTerminated      = "Terminated"
	EventRestarting      = "Restarting"
	EventNotRestarting   = "Not Restarting"
	EventKilling         = "Killing"
	EventKilled          = "Killed"
	EventSignaling       = "Signaling"
	EventRestartSignaled = "Restart Signaled"
	EventSiblingFailed   = "Sibling Task Failed"
	EventLeaderDead      = "Leader Task Dead"
	EventMainDead        = "Main Tasks Dead"
	EventReconnected     = "Reconnected"
	EventWaiting         = "Waiting"
	EventMaxRunDuration  = "Max Run Duration Exceeded"
	EventCutOff          = "Servers Unreachable"
	EventDownloading     = "Downloading Artifacts"
	EventDownloadFailed  = "Failed Artifact Download"
	EventTemplate        = "Template" // of templates: what they wait for, and that they changed
	EventPausing         = "Pausing"
	EventPaused          = "Paused"
	EventResuming        = "Resuming"
)

// DetailStartDelay is the detail of an [EventRestarting] that says how long after
// the event the task starts again, in nanoseconds.
const DetailStartDelay = "start_delay"

// DetailFailedSibling is the detail of an [EventSiblingFailed] that names the task
// that failed.
const DetailFailedSibling = "failed_sibling"

// DetailWaitsFor is the detail of an event that says what the task waits for
// before it starts: lines of a kind and, after a space, a name. While that event
// is the last of a task that has not started, the task waits. A task that runs
// waits only for its turn to restart.
const DetailWaitsFor = "waits_for"

// TaskWait is something that a task waits for before it starts.
type TaskWait struct {
	Kind string // one of the Wait constants
	Name string // of the variable, service, file, image or volume; the source of an artifact; of a turn, what comes before it
}

// The kinds of what a task waits for.
const (
	WaitVariable = "variable"
	WaitService  = "service"
	WaitFile     = "file"
	WaitSecret   = "secret"
	WaitArtifact = "artifact"
	WaitImage    = "image"
	WaitVolume   = "volume"
	WaitTurn     = "turn" // of a task that runs and is to restart
)

// String returns the wait as people read it.
func (w TaskWait) String() string {
	if w.Kind == WaitTurn {
		return "its turn to restart, after " + w.Name
	}
	return w.Kind + " " + w.Name
}

// Waits returns what the task waits for before it starts, or starts again in its
// turn; nil if it does not wait, or if that is not known.
func (s *TaskState) Waits() (out []TaskWait) {
	if s.State == TaskDead || len(s.Events) == 0 {
		return nil
	}
	for line := range strings.Lines(s.Events[len(s.Events)-1].Details[DetailWaitsFor]) {
		kind, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if (kind == WaitTurn) == (s.State == TaskRunning) {
			out = append(out, TaskWait{kind, name})
		}
	}
	return out
}

// usualMessages are the default messages by event type. The log leaves them out,
// so a released text must not change.
var usualMessages = map[string]string{
	EventReceived:  "Task received by client",
	EventTaskSetup: "Building Task Directory",
	EventStarted:   "Task started by client",
	EventKilled:    "Task successfully killed",
}

// NewTaskEvent returns an event with the usual message of its type.
func NewTaskEvent(typ string, at time.Time) TaskEvent {
	return TaskEvent{Type: typ, Time: at.UnixNano(), DisplayMessage: usualMessages[typ]}
}

// UsualMessage returns the default message of an event type.
func UsualMessage(typ string) string { return usualMessages[typ] }

// TaskStatesPack is the states of an allocation's tasks in a few bytes a task.
// Package internal/state packs and unpacks it. It never changes.
type TaskStatesPack string

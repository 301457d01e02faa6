package op

import (
	"cmp"
	"strconv"
	"time"

	"berth"
)

// TaskState is the state of a task as the API shows it.
type TaskState struct {
	State       string // pending, running or dead
	Failed      bool
	Restarts    uint64
	LastRestart time.Time
	StartedAt   time.Time
	FinishedAt  time.Time
	Events      []TaskEvent // oldest first
}

// TaskEvent is an event with some of its details once more, under the names that
// older clients know. Those that an event has no detail for are left out.
type TaskEvent struct {
	berth.TaskEvent
	FailsTask        bool          `json:",omitempty"`
	ExitCode         *int          `json:",omitempty"` // of an exit
	Signal           *int          `json:",omitempty"` // of an exit
	RestartReason    string        `json:",omitempty"`
	StartDelay       int64         `json:",omitempty"` // in ns
	SetupError       string        `json:",omitempty"`
	DriverError      string        `json:",omitempty"`
	DriverMessage    string        `json:",omitempty"`
	DownloadError    string        `json:",omitempty"`
	KillReason       string        `json:",omitempty"`
	KillTimeout      time.Duration `json:",omitempty"`
	FailedSibling    string        `json:",omitempty"`
	TaskSignal       string        `json:",omitempty"`
	TaskSignalReason string        `json:",omitempty"`
}

// Waits returns what the task waits for before it starts; nil if it does not
// wait, or if that is not known.
func (s *TaskState) Waits() []berth.TaskWait {
	row := berth.TaskState{State: s.State}
	if n := len(s.Events); n > 0 {
		row.Events = []berth.TaskEvent{s.Events[n-1].TaskEvent}
	}
	return row.Waits()
}

// ShowTaskStates returns states as the API shows them.
func ShowTaskStates(rows map[string]*berth.TaskState) map[string]*TaskState {
	if rows == nil {
		return nil
	}
	out := make(map[string]*TaskState, len(rows))
	for name, s := range rows {
		v := &TaskState{
			State: s.State, Failed: s.Failed, Restarts: s.Restarts, LastRestart: s.LastRestart, StartedAt: s.StartedAt, FinishedAt: s.FinishedAt,
		}
		if s.Events != nil {
			v.Events = make([]TaskEvent, len(s.Events))
		}
		for i := range s.Events {
			v.Events[i] = showTaskEvent(s.Events[i])
		}
		out[name] = v
	}
	return out
}

// showTaskEvent repeats the details of an event. An agent of Nomad gives the
// same details the same names.
func showTaskEvent(e berth.TaskEvent) TaskEvent {
	v, d := TaskEvent{TaskEvent: e}, e.Details
	switch e.Type {
	case berth.EventTerminated:
		if code, err := strconv.Atoi(d["exit_code"]); err == nil {
			signal, _ := strconv.Atoi(d["signal"])
			v.ExitCode, v.Signal = &code, &signal
		}
		v.Message = cmp.Or(e.Message, d["exit_message"])
	case berth.EventRestarting:
		v.RestartReason = d["restart_reason"]
		v.StartDelay, _ = strconv.ParseInt(d[berth.DetailStartDelay], 10, 64)
	case berth.EventNotRestarting:
		v.FailsTask, v.RestartReason = d["fails_task"] == "true", d["restart_reason"]
	case berth.EventSetupFailure:
		v.SetupError = e.DisplayMessage
	case berth.EventDriverFailure:
		v.DriverError = e.DisplayMessage
	case berth.EventDriver:
		v.DriverMessage = e.DisplayMessage
	case berth.EventDownloadFailed:
		v.DownloadError = e.DisplayMessage
	case berth.EventKilling:
		v.KillReason = d["kill_reason"]
		v.KillTimeout, _ = time.ParseDuration(d["kill_timeout"])
	case berth.EventSiblingFailed:
		v.FailedSibling = d[berth.DetailFailedSibling]
	case berth.EventSignaling:
		v.TaskSignal, v.TaskSignalReason = d["signal"], d["signal_reason"]
	case berth.EventTaskSetup:
		v.Message = cmp.Or(e.Message, e.DisplayMessage)
	}
	return v
}

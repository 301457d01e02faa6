package op

import (
	"berth"
	"berth/internal/acl"
)

// StopAlloc asks for an allocation to be stopped and replaced.
type StopAlloc struct {
	AllocID         string
	NoShutdownDelay bool `query:"no_shutdown_delay"`
	Write
}

// AllocStopped answers StopAlloc.
type AllocStopped struct {
	EvalID berth.EvalID
	Index  uint64
	Meta
}

// RestartAlloc asks for tasks of an allocation to be restarted in place: the
// one named, all running ones, or with AllTasks also those that have ended.
type RestartAlloc struct {
	AllocID  string
	TaskName string
	AllTasks bool
	Write
}

// SignalAlloc asks for a signal to be sent to one task of an allocation, or to
// all running ones.
type SignalAlloc struct {
	AllocID string
	Task    string // "" is all running ones
	Signal  string
	Write
}

// The operations that act on an allocation. Its agent carries out restarts and
// signals, whichever agent receives the request.
var (
	HaltAlloc   = define[StopAlloc, AllocStopped]("alloc.stop", "PUT /v1/allocation/{AllocID}/stop", "", acl.AllocLifecycle, acl.AllocSpace)
	RestartTask = define[RestartAlloc, Nothing]("alloc.restart", "PUT /v1/client/allocation/{AllocID}/restart", "", acl.AllocLifecycle, acl.AllocSpace)
	SignalTask  = define[SignalAlloc, Nothing]("alloc.signal", "PUT /v1/client/allocation/{AllocID}/signal", "", acl.AllocLifecycle, acl.AllocSpace)
)

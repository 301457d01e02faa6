package task

import (
	"syscall"
	"time"

	"berth"
	"berth/internal/agent/driver"
)

// Event is something that happens to a task.
type Event interface{ event() }

// The events.
type (
	// Begin is the first event of a task. Adopt says that something of it may
	// run already: the allocation was here before and its record was lost.
	Begin struct{ Adopt bool }
	// Restore is the first event after a restart of the agent.
	Restore struct{}

	// Found says that the driver has a launch, running or ended.
	Found struct {
		Launch uint64
		Handle []byte
	}
	// NotFound says that the driver has none.
	NotFound struct{}
	// Lost says that how the task ends, or ended, cannot be known; nothing of
	// it runs any more.
	Lost struct {
		Why    string
		Reboot bool // because the machine was restarted
	}

	// Doing says what the hooks are doing or waiting for.
	Doing struct {
		Type, Message string
		Waits         []berth.TaskWait // what it waits for
	}
	// Told adds an event about the templates of a task that runs, and what it
	// waits for. It takes the place of the last one that tells of a wait.
	Told struct {
		Message string
		Waits   []berth.TaskWait
	}
	// Rendered says what the texts of templates are, before a start or later.
	Rendered struct {
		Texts   []string // hashes, in the order of the job
		Fetched bool     // the artifacts are there
	}

	// Prepared says that the hooks are done.
	Prepared struct{}
	// PrepareFailed says that one failed.
	PrepareFailed struct {
		Why         string
		Recoverable bool
		Type        string // of the task event; "" is a setup failure
	}
	// Started says that the task runs.
	Started struct{ Handle []byte }
	// StartFailed says that nothing of it does.
	StartFailed struct {
		Why         string
		Recoverable bool
	}
	// Progress says what a start that takes long is doing.
	Progress struct {
		Launch  uint64
		Message string
		Waits   []berth.TaskWait // what it waits for
	}
	// Exited says that it has ended.
	Exited struct{ driver.Exit }

	// Renewed says that identities were signed: before a start, or as a
	// Renewal, which may have Failed.
	Renewed struct {
		All     map[string]Validity // by name
		Renewal bool
		Failed  bool
	}

	// Alarm says that State.Until may be over.
	Alarm struct{}
	// Order tells the task to end.
	Order struct{ Kill }
	// Again tells it to start again; of one that Failed, as its restart policy
	// has it.
	Again struct {
		Reason string
		Failed bool
		Round  uint64 // of a restart of the whole allocation, which ended tasks take part in; 0 is none
		Launch uint64 // only while this is the newest launch; 0 is any
	}
	// Schedule says that its schedule may want something else now, or, with an
	// Order, what it is made to do.
	Schedule struct{ Order string }
	// Note adds to its history, before it is started for the first time.
	Note struct{ Type, Message string }
	// Signal tells it to be signalled.
	Signal struct{ Name, Reason string }
)

// Only these types are events, so the switch in Step is complete.
func (Begin) event()         {}
func (Restore) event()       {}
func (Found) event()         {}
func (NotFound) event()      {}
func (Lost) event()          {}
func (Prepared) event()      {}
func (PrepareFailed) event() {}
func (Started) event()       {}
func (StartFailed) event()   {}
func (Progress) event()      {}
func (Exited) event()        {}
func (Alarm) event()         {}
func (Order) event()         {}
func (Again) event()         {}
func (Signal) event()        {}
func (Renewed) event()       {}
func (Note) event()          {}
func (Schedule) event()      {}
func (Doing) event()         {}
func (Told) event()          {}
func (Rendered) event()      {}

// Action is something to be done about a task. Each of the first four is
// answered by an event.
type Action interface{ action() }

// The actions.
type (
	DoLook    struct{}                // Found, NotFound or Lost
	DoPrepare struct{}                // Prepared or PrepareFailed
	DoStart   struct{ Launch uint64 } // Started or StartFailed
	DoWait    struct{}                // Exited or Lost: wait for the end of what was started or found

	DoCancel struct{} // let go of preparing or starting
	DoStop   struct {
		Signal  syscall.Signal
		Timeout time.Duration
	}
	DoSignal  struct{ Signal syscall.Signal }
	DoAlarm   struct{ At time.Time }
	DoRelease struct{ Launch uint64 } // tell the driver that the exit is recorded
)

// Only these types are actions, so the switch in the Runner is complete.
func (DoLook) action()    {}
func (DoPrepare) action() {}
func (DoStart) action()   {}
func (DoWait) action()    {}
func (DoCancel) action()  {}
func (DoStop) action()    {}
func (DoSignal) action()  {}
func (DoAlarm) action()   {}
func (DoRelease) action() {}

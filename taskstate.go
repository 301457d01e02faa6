package berth

import (
	"encoding/binary"
	"maps"
	"slices"
	"strings"
	"time"
)

// TaskState is how one task of an allocation fares.
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

// Successful says whether the task ended without failing.
func (s *TaskState) Successful() bool { return s.State == TaskDead && !s.Failed }

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
	EventReconnected     = "Reconnected"
	EventWaiting         = "Waiting"
	EventMaxRunDuration  = "Max Run Duration Exceeded"
	EventCutOff          = "Servers Unreachable"
)

// taskEventTypes and taskStates are numbered in packs: append, never reorder.
var (
	taskEventTypes = []string{
		EventReceived, EventTaskSetup, EventSetupFailure, EventDriverFailure, EventDriver, EventStarted,
		EventTerminated, EventRestarting, EventNotRestarting, EventKilling, EventKilled, EventSignaling,
		EventRestartSignaled, EventSiblingFailed, EventLeaderDead, EventReconnected,
		EventWaiting, EventMaxRunDuration, EventCutOff,
	}
	taskStates = []string{TaskPending, TaskRunning, TaskDead}
)

// usualMessages are what the events of a type say when they say nothing
// special; a pack leaves them out.
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

// TaskStatesPack is the states of an allocation's tasks in a few bytes a task:
// millions of them are kept, and each was a line in the log. It never changes.
type TaskStatesPack string

// A pack is, for each task in order of name: name, flags and state, restarts,
// then the times and events, each time as the difference to the one before.
const (
	packFailed = 1 << 2 // the two bits below are the state
	packLong   = 1 << 3 // has restarts, LastRestart and FinishedAt
	packBits   = 0b1111

	packOtherType = 0xff // event type follows as text
	eventMessage  = 1 << 0
	eventDisplay  = 1 << 1 // DisplayMessage is not the usual one
	eventDetails  = 1 << 2
)

// PackTaskStates packs states; nil states are left out. Times are kept to the
// nanosecond.
func PackTaskStates(states map[string]*TaskState) TaskStatesPack {
	if len(states) == 0 {
		return ""
	}
	b := make([]byte, 0, 64)
	var clock int64
	for _, name := range slices.Sorted(maps.Keys(states)) {
		if s := states[name]; s != nil {
			b, clock = s.pack(appendText(b, name), clock)
		}
	}
	return TaskStatesPack(b)
}

func (s *TaskState) pack(b []byte, clock int64) ([]byte, int64) {
	flags := byte(max(0, slices.Index(taskStates, s.State)))
	if s.Failed {
		flags |= packFailed
	}
	long := s.Restarts > 0 || !s.LastRestart.IsZero() || !s.FinishedAt.IsZero()
	if long {
		flags |= packLong
	}
	b = append(b, flags)
	if long {
		b = binary.AppendUvarint(b, s.Restarts)
		b, clock = appendTime(b, s.LastRestart, clock)
		b, clock = appendTime(b, s.FinishedAt, clock)
	}
	b, clock = appendTime(b, s.StartedAt, clock)
	events := s.Events[max(0, len(s.Events)-TaskEventsKept):]
	b = append(b, byte(len(events)))
	for i := range events {
		b, clock = events[i].pack(b, clock)
	}
	return b, clock
}

func (e *TaskEvent) pack(b []byte, clock int64) ([]byte, int64) {
	if i := slices.Index(taskEventTypes, e.Type); i >= 0 {
		b = append(b, byte(i))
	} else {
		b = appendText(append(b, packOtherType), e.Type)
	}
	b = binary.AppendVarint(b, e.Time-clock)
	var has byte
	if e.Message != "" {
		has |= eventMessage
	}
	if e.DisplayMessage != usualMessages[e.Type] {
		has |= eventDisplay
	}
	if len(e.Details) > 0 {
		has |= eventDetails
	}
	b = append(b, has)
	if has&eventMessage != 0 {
		b = appendText(b, e.Message)
	}
	if has&eventDisplay != 0 {
		b = appendText(b, e.DisplayMessage)
	}
	if has&eventDetails != 0 {
		b = binary.AppendUvarint(b, uint64(len(e.Details)))
		for _, k := range slices.Sorted(maps.Keys(e.Details)) {
			b = appendText(appendText(b, k), e.Details[k])
		}
	}
	return b, e.Time
}

// Unpack returns the states, nil if there are none. Bytes that no pack has are
// an Invalid error: a pack can come from a damaged log.
func (p TaskStatesPack) Unpack() (map[string]*TaskState, error) {
	if p == "" {
		return nil, nil
	}
	out := map[string]*TaskState{}
	r := unpacker{rest: string(p)}
	for r.rest != "" && !r.bad {
		name := r.text()
		out[name] = r.state()
	}
	if r.bad {
		return nil, Errorf(Invalid, "task states: damaged after %d of %d bytes", len(p)-len(r.rest), len(p))
	}
	return out, nil
}

// States returns the states of the allocation's tasks, nil if none was
// reported or, which Apply never lets in, the pack is damaged.
func (a *Alloc) States() map[string]*TaskState {
	s, err := a.Tasks.Unpack()
	if err != nil {
		return nil
	}
	return s
}

// unpacker reads a pack; after a fault it is bad and reads zeros.
type unpacker struct {
	rest  string
	clock int64
	bad   bool
}

func (r *unpacker) fail() {
	r.bad = true
}

func (r *unpacker) byte() byte {
	if r.rest == "" {
		r.fail()
		return 0
	}
	c := r.rest[0]
	r.rest = r.rest[1:]
	return c
}

func (r *unpacker) uvarint() uint64 {
	var v uint64
	for shift := 0; shift < 64; shift += 7 {
		c := r.byte()
		if r.bad {
			return 0
		}
		v |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return v
		}
	}
	r.fail()
	return 0
}

func (r *unpacker) varint() int64 {
	u := r.uvarint()
	v := int64(u >> 1)
	if u&1 != 0 {
		v = ^v
	}
	return v
}

func (r *unpacker) text() string {
	n := r.uvarint()
	if n > uint64(len(r.rest)) {
		r.fail()
		return ""
	}
	s := r.rest[:n]
	r.rest = r.rest[n:]
	return strings.Clone(s)
}

// time reads what appendTime wrote.
func (r *unpacker) time() time.Time {
	u := r.uvarint()
	if u == 0 {
		return time.Time{}
	}
	u--
	d := int64(u >> 1)
	if u&1 != 0 {
		d = ^d
	}
	r.clock += d
	return time.Unix(0, r.clock).UTC()
}

func (r *unpacker) state() *TaskState {
	flags := r.byte()
	if int(flags&0b11) >= len(taskStates) || flags&^packBits != 0 {
		r.fail()
		return nil
	}
	s := &TaskState{State: taskStates[flags&0b11], Failed: flags&packFailed != 0}
	if flags&packLong != 0 {
		s.Restarts = r.uvarint()
		s.LastRestart = r.time()
		s.FinishedAt = r.time()
	}
	s.StartedAt = r.time()
	n := int(r.byte())
	if n > TaskEventsKept {
		r.fail()
		return nil
	}
	for range n {
		s.Events = append(s.Events, r.event())
	}
	return s
}

func (r *unpacker) event() (e TaskEvent) {
	switch t := r.byte(); {
	case t == packOtherType:
		e.Type = r.text()
	case int(t) < len(taskEventTypes):
		e.Type = taskEventTypes[t]
	default:
		r.fail()
		return e
	}
	r.clock += r.varint()
	e.Time = r.clock
	has := r.byte()
	if has&eventMessage != 0 {
		e.Message = r.text()
	}
	if has&eventDisplay != 0 {
		e.DisplayMessage = r.text()
	} else {
		e.DisplayMessage = usualMessages[e.Type]
	}
	if has&eventDetails != 0 {
		n := r.uvarint()
		if n > uint64(len(r.rest)/2) { // a pair takes at least two bytes
			r.fail()
			return e
		}
		e.Details = make(map[string]string, min(n, 8)) // n is a claim so far
		for range n {
			k := r.text()
			v := r.text()
			if r.bad {
				return e
			}
			e.Details[k] = v
		}
	}
	return e
}

func appendText(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// appendTime writes 0 for the zero time, else 1 + the zigzag difference to
// clock, which it moves.
func appendTime(b []byte, t time.Time, clock int64) ([]byte, int64) {
	if t.IsZero() {
		return append(b, 0), clock
	}
	d := t.UnixNano() - clock
	z := uint64(d<<1) ^ uint64(d>>63)
	if z == 1<<64-1 { // no such difference between two times of this age
		z--
	}
	return binary.AppendUvarint(b, z+1), t.UnixNano()
}

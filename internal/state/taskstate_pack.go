package state

import (
	"encoding/binary"
	"maps"
	"slices"
	"strings"
	"time"

	"berth"
)

// The states of an allocation's tasks are stored packed: there are millions of
// them, and each took a line in the log.

// taskEventTypes and taskStates are numbered in the packed form: append, never
// reorder.
var (
	taskEventTypes = []string{
		berth.EventReceived, berth.EventTaskSetup, berth.EventSetupFailure, berth.EventDriverFailure, berth.EventDriver, berth.EventStarted,
		berth.EventTerminated, berth.EventRestarting, berth.EventNotRestarting, berth.EventKilling, berth.EventKilled, berth.EventSignaling,
		berth.EventRestartSignaled, berth.EventSiblingFailed, berth.EventLeaderDead, berth.EventReconnected,
		berth.EventWaiting, berth.EventMaxRunDuration, berth.EventCutOff,
	}
	taskStates = []string{berth.TaskPending, berth.TaskRunning, berth.TaskDead}
)

// The packed form has, for each task in order of name: name, flags and state,
// restarts, then the times and events. Each time is the difference to the one
// before.
const (
	packFailed = 1 << 2 // the two bits below are the state
	packLong   = 1 << 3 // has restarts, LastRestart and FinishedAt
	packBits   = 0b1111

	packOtherType = 0xff // the event type follows as text
	eventMessage  = 1 << 0
	eventDisplay  = 1 << 1 // DisplayMessage is not the usual one
	eventDetails  = 1 << 2
)

// PackTaskStates packs states; nil states are left out. Times are kept to the
// nanosecond.
func PackTaskStates(states map[string]*berth.TaskState) berth.TaskStatesPack {
	if len(states) == 0 {
		return ""
	}
	b := make([]byte, 0, 64)
	var clock int64
	for _, name := range slices.Sorted(maps.Keys(states)) {
		if s := states[name]; s != nil {
			b, clock = packTaskState(appendText(b, name), s, clock)
		}
	}
	return berth.TaskStatesPack(b)
}

// packTaskState appends one task's state. Times are written as differences from
// clock, the last time written, which it returns. Of many events the last
// TaskEventsKept are kept.
func packTaskState(b []byte, s *berth.TaskState, clock int64) ([]byte, int64) {
	flags := byte(max(0, slices.Index(taskStates, s.State)))
	if s.Failed {
		flags |= packFailed
	}
	// A task that never ended or restarted needs none of these three.
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
	events := s.Events[max(0, len(s.Events)-berth.TaskEventsKept):]
	b = append(b, byte(len(events)))
	for i := range events {
		b, clock = packTaskEvent(b, &events[i], clock)
	}
	return b, clock
}

// packTaskEvent appends one event and returns its time, the next clock. Types
// that are known take one byte, and the usual message of a type none.
func packTaskEvent(b []byte, e *berth.TaskEvent, clock int64) ([]byte, int64) {
	if i := slices.Index(taskEventTypes, e.Type); i >= 0 {
		b = append(b, byte(i))
	} else {
		b = appendText(append(b, packOtherType), e.Type)
	}
	b = binary.AppendVarint(b, e.Time-clock)
	// Flags for the texts that follow.
	var has byte
	if e.Message != "" {
		has |= eventMessage
	}
	if e.DisplayMessage != berth.UsualMessage(e.Type) {
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
	// In order of keys, so that equal states give equal packs.
	if has&eventDetails != 0 {
		b = binary.AppendUvarint(b, uint64(len(e.Details)))
		for _, k := range slices.Sorted(maps.Keys(e.Details)) {
			b = appendText(appendText(b, k), e.Details[k])
		}
	}
	return b, e.Time
}

// UnpackTaskStates returns the states, nil if there are none. Bytes that
// PackTaskStates never writes are an Invalid error: they can come from a
// damaged log.
func UnpackTaskStates(p berth.TaskStatesPack) (map[string]*berth.TaskState, error) {
	if p == "" {
		return nil, nil
	}
	out := map[string]*berth.TaskState{}
	r := taskReader{rest: string(p)}
	for r.rest != "" && !r.bad {
		name := r.text()
		out[name] = r.state()
	}
	if r.bad {
		return nil, berth.Errorf(berth.Invalid, "task states: damaged after %d of %d bytes", len(p)-len(r.rest), len(p))
	}
	return out, nil
}

// TaskStates returns the states of an allocation's tasks, or nil if none was
// reported or the pack is damaged, which Apply never accepts.
func TaskStates(a *berth.Alloc) map[string]*berth.TaskState {
	s, err := UnpackTaskStates(a.Tasks)
	if err != nil {
		return nil
	}
	return s
}

// Ran returns how long the tasks of an ended allocation ran, and when the last
// of them ended. If no task says so, that is the time of its last report.
func Ran(a *berth.Alloc) (ran time.Duration, ended time.Time) {
	var started time.Time
	for _, s := range TaskStates(a) {
		if !s.StartedAt.IsZero() && (started.IsZero() || s.StartedAt.Before(started)) {
			started = s.StartedAt
		}
		if s.FinishedAt.After(ended) {
			ended = s.FinishedAt
		}
	}
	if ended.IsZero() {
		ended = time.Unix(0, a.ModifyTime)
	}
	if started.IsZero() || ended.Before(started) {
		return 0, ended
	}
	return ended.Sub(started), ended
}

// taskReader reads a pack. After an error it is bad and reads zeros.
type taskReader struct {
	rest  string // not read yet
	clock int64  // the last time read, ns since 1970
	bad   bool
}

// fail marks the pack as damaged. Later reads return anything; the caller looks
// at bad once at the end.
func (r *taskReader) fail() {
	r.bad = true
}

// byte reads one byte, 0 at the end of the pack.
func (r *taskReader) byte() byte {
	if r.rest == "" {
		r.fail()
		return 0
	}
	c := r.rest[0]
	r.rest = r.rest[1:]
	return c
}

// uvarint reads a number of at most 64 bits.
func (r *taskReader) uvarint() uint64 {
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

// varint reads a signed number in zigzag form.
func (r *taskReader) varint() int64 {
	u := r.uvarint()
	v := int64(u >> 1)
	if u&1 != 0 {
		v = ^v
	}
	return v
}

// text reads a string. It is a copy, so that it does not keep the whole pack
// alive.
func (r *taskReader) text() string {
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
func (r *taskReader) time() time.Time {
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

// state reads what packTaskState wrote, or returns nil if the flags or the
// number of events are impossible.
func (r *taskReader) state() *berth.TaskState {
	flags := r.byte()
	if int(flags&0b11) >= len(taskStates) || flags&^packBits != 0 {
		r.fail()
		return nil
	}
	s := &berth.TaskState{State: taskStates[flags&0b11], Failed: flags&packFailed != 0}
	if flags&packLong != 0 {
		s.Restarts = r.uvarint()
		s.LastRestart = r.time()
		s.FinishedAt = r.time()
	}
	s.StartedAt = r.time()
	// Apply accepts packs of agents, so nothing here may be trusted.
	n := int(r.byte())
	if n > berth.TaskEventsKept {
		r.fail()
		return nil
	}
	for range n {
		s.Events = append(s.Events, r.event())
	}
	return s
}

// event reads what packTaskEvent wrote. Its memory stays in proportion to the
// pack, even a damaged one.
func (r *taskReader) event() (e berth.TaskEvent) {
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
		e.DisplayMessage = berth.UsualMessage(e.Type)
	}
	if has&eventDetails != 0 {
		n := r.uvarint()
		if n > uint64(len(r.rest)/2) { // a pair takes at least two bytes
			r.fail()
			return e
		}
		e.Details = make(map[string]string, min(n, 8)) // n is unchecked so far
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

// appendText appends a string after its length in bytes.
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
	if z == 1<<64-1 { // impossible between two plausible times
		z--
	}
	return binary.AppendUvarint(b, z+1), t.UnixNano()
}

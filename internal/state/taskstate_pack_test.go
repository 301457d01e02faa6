package state

import (
	"encoding/binary"
	"runtime"
	"strings"
	"testing"
	"time"

	"berth"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

func drawTime(t *rapid.T, name string) time.Time {
	if rapid.IntRange(0, 3).Draw(t, name+"?") == 0 {
		return time.Time{}
	}
	return time.Unix(0, rapid.Int64Range(-ages, ages).Draw(t, name)).UTC()
}

// ages is how far from 1970 times lie: 146 years. Two times that are further
// apart than a difference of nanoseconds can say cannot be packed.
const ages = 1<<62 - 1

func drawEvent(t *rapid.T) berth.TaskEvent {
	e := berth.TaskEvent{
		Type: rapid.SampledFrom(append([]string{"Own Type", ""}, taskEventTypes...)).Draw(t, "type"),
		Time: rapid.Int64Range(-ages, ages).Draw(t, "time"),
	}
	if rapid.Bool().Draw(t, "usual") {
		e.DisplayMessage = berth.UsualMessage(e.Type)
	} else {
		e.DisplayMessage = rapid.String().Draw(t, "display")
	}
	if rapid.Bool().Draw(t, "message?") {
		e.Message = rapid.String().Draw(t, "message")
	}
	e.Details = rapid.MapOfN(rapid.String(), rapid.String(), 0, 4).Draw(t, "details")
	return e
}

func drawStates(t *rapid.T) map[string]*berth.TaskState {
	return rapid.MapOfN(rapid.String(), rapid.Custom(func(t *rapid.T) *berth.TaskState {
		return &berth.TaskState{
			State:       rapid.SampledFrom(taskStates).Draw(t, "state"),
			Failed:      rapid.Bool().Draw(t, "failed"),
			Restarts:    rapid.Uint64().Draw(t, "restarts"),
			LastRestart: drawTime(t, "last restart"),
			StartedAt:   drawTime(t, "started"),
			FinishedAt:  drawTime(t, "finished"),
			Events:      rapid.SliceOfN(rapid.Custom(drawEvent), 0, berth.TaskEventsKept+3).Draw(t, "events"),
		}
	}), 0, 4).Draw(t, "states")
}

// A pack unpacks to what was packed; of the events the last ones are kept.
func TestTaskStatesPack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		states := drawStates(t)
		pack := PackTaskStates(states)
		got, err := UnpackTaskStates(pack)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range states {
			s.Events = s.Events[max(0, len(s.Events)-berth.TaskEventsKept):]
		}
		if diff := cmp.Diff(states, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("-packed +unpacked\n%s", diff)
		}
		if again := PackTaskStates(got); again != pack {
			t.Fatalf("packed again it differs: %x, %x", pack, again)
		}
	})
}

func TestPackLeavesOutNil(t *testing.T) {
	pack := PackTaskStates(map[string]*berth.TaskState{"a": nil, "b": {State: berth.TaskRunning}})
	got, err := UnpackTaskStates(pack)
	if err != nil || len(got) != 1 || got["b"].State != berth.TaskRunning {
		t.Errorf("%v, %v", got, err)
	}
	if p := PackTaskStates(map[string]*berth.TaskState{"a": nil}); p != "" {
		t.Errorf("a pack of nothing is %x", p)
	}
}

// The states of a task that started and runs, which millions of allocations
// have, take a few dozen bytes.
func TestPackIsSmall(t *testing.T) {
	now := time.Unix(1_700_000_000, 123456789)
	s := &berth.TaskState{State: berth.TaskRunning, StartedAt: now.Add(800 * time.Millisecond)}
	for i, typ := range []string{berth.EventReceived, berth.EventTaskSetup, berth.EventStarted} {
		s.Events = append(s.Events, berth.NewTaskEvent(typ, now.Add(time.Duration(i)*400*time.Millisecond)))
	}
	if n := len(PackTaskStates(map[string]*berth.TaskState{"app": s})); n > 48 {
		t.Errorf("%d bytes", n)
	}
}

func TestUnpackDamaged(t *testing.T) {
	good := PackTaskStates(map[string]*berth.TaskState{"app": {
		State: berth.TaskDead, Failed: true, Restarts: 3, FinishedAt: time.Unix(5, 0),
		Events: []berth.TaskEvent{{Type: "Own", Time: 7, Message: "m", DisplayMessage: "d", Details: map[string]string{"a": "b"}}},
	}})
	for n := 1; n < len(good); n++ {
		if s, err := UnpackTaskStates(good[:n]); err == nil {
			t.Errorf("the first %d of %d bytes are states: %v", n, len(good), s)
		} else if berth.KindOf(err) != berth.Invalid {
			t.Errorf("kind %q", berth.KindOf(err))
		}
	}
	for name, pack := range map[string]string{
		"unknown flag":       "\x01a\xf0\x00\x00",
		"unknown state":      "\x01a\x03\x00\x00",
		"unknown event":      "\x01a\x00\x00\x01\x7f\x00\x00",
		"too many events":    "\x01a\x00\x00\x0b",
		"name beyond end":    "\x05a",
		"endless number":     strings.Repeat("\xff", 20),
		"details beyond end": "\x01a\x00\x00\x01\x00\x00\x04\xff\xff\xff\xff\x0f",
	} {
		if s, err := UnpackTaskStates(berth.TaskStatesPack(pack)); err == nil {
			t.Errorf("%s: %v", name, s)
		}
	}
	a := berth.Alloc{Tasks: "\x05a"}
	if TaskStates(&a) != nil {
		t.Error("a damaged pack has states")
	}
}

// A pack of n bytes cannot make Unpack allocate out of proportion, whatever it
// claims to hold.
func TestUnpackAllocatesInProportion(t *testing.T) {
	const size = 1 << 20
	b := []byte("\x01a\x00\x00\x01\x00\x00\x04")
	b = binary.AppendUvarint(b, size-100)
	b = append(b, make([]byte, 64)...)
	b = append(b, strings.Repeat("\xff", size-len(b))...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := UnpackTaskStates(berth.TaskStatesPack(b)); err == nil {
		t.Error("a claim is states")
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 4*size {
		t.Errorf("%d bytes were allocated for a pack of %d", n, size)
	}
}

func FuzzUnpack(f *testing.F) {
	f.Add([]byte(PackTaskStates(map[string]*berth.TaskState{"a": {State: berth.TaskRunning, StartedAt: time.Unix(1, 2), Events: []berth.TaskEvent{berth.NewTaskEvent(berth.EventStarted, time.Unix(1, 2))}}})))
	f.Add([]byte("\x01a\x00\x00\x01\x00\x00\x04\xff\xff\xff\xff\x0f"))
	f.Fuzz(func(t *testing.T, b []byte) {
		states, err := UnpackTaskStates(berth.TaskStatesPack(b))
		if err != nil {
			if berth.KindOf(err) != berth.Invalid {
				t.Errorf("kind %q of %v", berth.KindOf(err), err)
			}
			return
		}
		// What unpacks is states: packed again and unpacked it is the same.
		again, err := UnpackTaskStates(PackTaskStates(states))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(states, again, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("-first +second\n%s", diff)
		}
	})
}

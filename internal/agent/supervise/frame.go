package supervise

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"berth"
)

// A frame is its length in four bytes, then JSON. Each connection carries one
// request and its response; both say which version of this they speak, so that
// an agent and a supervisor of different releases notice.
const (
	version  = 1
	maxFrame = 4 << 20 // the largest is a start, and the kernel takes no larger argument list by default
)

// The calls.
const (
	callHello   = "hello"
	callStart   = "start"
	callWait    = "wait"
	callSignal  = "signal"
	callStop    = "stop"
	callRelease = "release"
	callEnd     = "end"
	callExtend  = "extend"
	// callIsolate is a start of an isolated task. It has a name of its own so
	// that a supervisor of an older release, which would start the task without
	// isolation, refuses it.
	callIsolate = "isolate"
)

// request is what an agent asks of a supervisor. Which fields it uses depends
// on the call.
type request struct {
	V       int
	Call    string
	Task    string        `json:",omitempty"`
	Launch  uint64        `json:",omitempty"` // its number; 0 is the newest of the task. Of a hello: no launch up to it may start any more
	Start   *Start        `json:",omitempty"`
	Signal  int           `json:",omitempty"` // of a signal or a stop
	Timeout time.Duration `json:",omitempty"` // of a stop, before the kill
	Until   int64         `json:",omitempty"` // of an extension, see Start.Until
}

// response answers a request. Err is empty if the call succeeded.
type response struct {
	V        int
	Kind     berth.Kind `json:",omitempty"` // of Err, where it has one
	Err      string     `json:",omitempty"`
	Launch   *Launch    `json:",omitempty"`
	Launches []Launch   `json:",omitempty"` // in answer to a hello
}

// writeFrame writes v as JSON after its length, in one Write. What is longer
// than maxFrame is TooLarge, and nothing is written then.
func writeFrame(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(b) > maxFrame {
		return berth.Errorf(berth.TooLarge, "a frame of %d bytes is too long: at most %d", len(b), maxFrame)
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(b)), uint32(len(b))), b...))
	return err
}

// readFrame reads a frame. It takes memory for what arrives, not for what a
// length claims.
func readFrame(r io.Reader, v any) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxFrame {
		return berth.Errorf(berth.TooLarge, "a frame of %d bytes is too long: at most %d", n, maxFrame)
	}
	b, err := io.ReadAll(io.LimitReader(r, int64(n)))
	if err != nil {
		return err
	}
	if len(b) < int(n) {
		return io.ErrUnexpectedEOF
	}
	if err := json.Unmarshal(b, v); err != nil {
		return berth.Errorf(berth.Invalid, "frame: %w", err)
	}
	return nil
}

// check refuses a request of another version, or one that lacks what its call
// needs.
func (r *request) check() error {
	if r.V != version {
		return berth.Errorf(berth.Invalid, "unsupported version %d of the supervisor's protocol: want %d", r.V, version)
	}
	if r.Call == callStart || r.Call == callIsolate {
		if r.Start == nil || r.Task == "" || r.Launch == 0 {
			return berth.Errorf(berth.Invalid, "start: must name a task, a launch and what to start")
		}
		return r.Start.check()
	}
	return nil
}

// err returns the error that the supervisor answered with, of the same kind, or
// nil.
func (r *response) err() error {
	switch {
	case r.V != version:
		return fmt.Errorf("the supervisor speaks version %d of its protocol, not %d", r.V, version)
	case r.Err == "":
		return nil
	case r.Kind != "":
		return berth.Errorf(r.Kind, "%s", r.Err)
	}
	return fmt.Errorf("supervisor: %s", r.Err)
}

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// history holds the requests and answers of a round, and what was done to the
// cluster meanwhile.
type history struct {
	began time.Time

	mu    sync.Mutex
	calls []*call
	notes []note
}

// call is one request and its outcome.
type call struct {
	Client  int
	Server  string
	Kind    kind
	Key     string        // the job
	Old     string        `json:",omitempty"` // of a compare-and-set: the value that must be there
	Value   string        `json:",omitempty"` // what was written, or read; "" is no job
	Call    time.Duration // since the round began
	Return  time.Duration
	Outcome outcome
	Index   uint64        `json:",omitempty"` // of the state
	Eval    string        `json:",omitempty"` // evaluation named in the answer
	Contact time.Duration `json:",omitempty"` // how old a stale answer can be according to the server
	Known   bool          `json:",omitempty"` // whether the server knew of a leader
	Life    int           `json:",omitempty"` // which process of the server answered
	Status  int           `json:",omitempty"` // of HTTP
	Conn    string        `json:",omitempty"` // the connection that was used
	Version uint64        `json:",omitempty"` // JobModifyIndex of what was written or read
	Error   string        `json:",omitempty"`
}

// kind is what a call asks for.
type kind string

const (
	read     kind = "read"     // linearizable
	stale    kind = "stale"    // of that server's own state, however old
	write    kind = "write"    // a register of the job
	swap     kind = "swap"     // a write that is refused if the job has changed
	purge    kind = "purge"    // of the job
	dispatch kind = "dispatch" // Key is the token, Value the child
	probe    kind = "probe"    // of the job as stable: refused unless there is one; the value stays
)

// outcome is what is known of a call's effect.
type outcome string

const (
	done    outcome = "done"
	refused outcome = "refused" // certainly not done
	unknown outcome = "unknown" // it may have been done or be done later
)

// note is an event that is not a request.
type note struct {
	At   time.Duration
	Text string
}

// newHistory returns an empty history that begins now.
func newHistory() *history { return &history{began: time.Now()} }

// now returns the time since the history began.
func (h *history) now() time.Duration { return time.Since(h.began) }

// add adds a call that has ended.
func (h *history) add(c *call) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, c)
}

// note adds a line that explains the calls around it.
func (h *history) note(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.notes = append(h.notes, note{h.now(), fmt.Sprintf(format, args...)})
}

// writes reports whether a call changes something.
func (c *call) writes() bool { return c.Kind != read && c.Kind != stale }

// firstWrite returns how long after a moment the first write was done that
// began after it, or 0.
func (h *history) firstWrite(after time.Duration) (took time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.calls {
		if d := c.Return - after; c.writes() && c.Outcome == done && c.Call >= after && (took == 0 || d < took) {
			took = d
		}
	}
	return took
}

// latencies returns the durations of successful calls, sorted.
func (h *history) latencies(of func(*call) bool) (out []time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.calls {
		if c.Outcome == done && of(c) {
			out = append(out, c.Return-c.Call)
		}
	}
	slices.Sort(out)
	return out
}

// percentile returns the pth percentile of a sorted list, or zero if it is
// empty.
func percentile[T any](sorted []T, p int) (zero T) {
	if len(sorted) == 0 {
		return zero
	}
	return sorted[min(len(sorted)-1, len(sorted)*p/100)]
}

// write saves the history as lines of JSON.
func (h *history) write(dir string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	f, err := os.Create(filepath.Join(dir, "history.jsonl"))
	if err != nil {
		return err
	}
	defer f.Close()
	e := json.NewEncoder(f)
	for _, c := range h.calls {
		if err := e.Encode(c); err != nil {
			return err
		}
	}
	for _, n := range h.notes {
		if err := e.Encode(n); err != nil {
			return err
		}
	}
	return nil
}

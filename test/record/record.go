// Package record keeps what the event streams of a cluster's servers tell of
// stream jobs and of what these own, and judges the order in which it happened.
package record

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
)

// Event is one change of an object that has an owner or is one.
type Event struct {
	Index       uint64
	Type        string // Added, Modified, Deleted; of an allocation Placed, Modified, Retired
	Kind, Name  string
	UID, Owner  string // Owner is the job, also of allocations
	Cause       string
	Generation  uint64
	LaunchCount uint64
	State       string // connectivity, of a processing element
	Phase       string // of a job
	Deleting    bool   // the change marks a job for deletion
	ID          string // of an allocation
	Node        string
	Status      string
}

// String returns the event on one line, in columns.
func (e *Event) String() string {
	return fmt.Sprintf("%6d  %-8s %-14s %-32s %s of %s gen %d launch %d %s%s %s %s", e.Index, e.Type, e.Kind, e.Name, e.UID, e.Owner, e.Generation, e.LaunchCount, e.State, e.Phase, e.Status, e.Cause)
}

// Recorder keeps events. Every server sends the same ones, and one server
// always runs.
type Recorder struct {
	mu   sync.Mutex
	seen map[Event]bool
	at   map[string]uint64 // by server: the index read so far
}

// New returns an empty recorder.
func New() *Recorder { return &Recorder{seen: map[Event]bool{}, at: map[string]uint64{}} }

// Path returns the path of the next request to a server.
func (r *Recorder) Path(server string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprintf("/v1/event/stream?topic=Resource&topic=Allocation&index=%d", max(r.at[server], 1))
}

// batch is one JSON object of an event stream.
type batch struct {
	Index  uint64
	Error  string
	Oldest uint64
	Events []struct {
		Index   uint64
		Type    string
		Payload struct {
			Resource *struct {
				Kind, Name, UID, OwnerUID, Cause, Connectivity, Phase string
				Generation, LaunchCount                               uint64
				Deleting                                              bool
			}
			Allocation *struct {
				ID, Name, UID, OwnerUID, NodeName, ClientStatus string
				PE                                              *struct{ LaunchCount uint64 }
				CreateIndex                                     uint64
			}
		}
	}
}

// Read keeps the events that a server sends in answer to Path, until the answer
// ends.
func (r *Recorder) Read(server string, stream io.Reader) {
	for lines := json.NewDecoder(stream); ; {
		var b batch
		if lines.Decode(&b) != nil {
			return
		}
		r.mu.Lock()
		r.at[server] = max(r.at[server], b.Index, b.Oldest)
		r.keep(&b)
		r.mu.Unlock()
	}
}

// keep adds the events of a batch. The stream may repeat events after a
// reconnect; they are kept once.
func (r *Recorder) keep(b *batch) {
	for _, e := range b.Events {
		v := Event{Index: e.Index, Type: e.Type}
		if p := e.Payload.Resource; p != nil {
			v.Kind, v.Name, v.UID, v.Owner, v.Cause, v.State = p.Kind, p.Name, p.UID, p.OwnerUID, p.Cause, p.Connectivity
			v.Generation, v.LaunchCount, v.Phase, v.Deleting = p.Generation, p.LaunchCount, p.Phase, p.Deleting
		}
		if p := e.Payload.Allocation; p != nil {
			v.Kind, v.Name, v.UID, v.Owner, v.ID, v.Node, v.Status = "Allocation", p.Name, p.UID, p.OwnerUID, p.ID, p.NodeName, p.ClientStatus
			switch {
			case Terminal(p.ClientStatus):
				v.Type = "Retired"
			case p.CreateIndex == e.Index:
				v.Type = "Placed"
			default:
				v.Type = "Modified"
			}
			if p.PE != nil {
				v.LaunchCount = p.PE.LaunchCount
			}
		}
		r.seen[v] = true
	}
}

// Terminal reports whether an allocation with this status has released its
// node's capacity.
func Terminal(status string) bool {
	return slices.Contains([]string{"complete", "failed", "lost"}, status)
}

// Events returns what was recorded, in order of index.
func (r *Recorder) Events() (out []Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for e := range r.seen {
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b Event) int {
		return cmp.Or(cmp.Compare(a.Index, b.Index), strings.Compare(a.Kind+a.Name, b.Kind+b.Name), strings.Compare(a.UID, b.UID))
	})
	return out
}

// String returns the events so far, one a line.
func (r *Recorder) String() string {
	var b strings.Builder
	for _, e := range r.Events() {
		fmt.Fprintln(&b, &e)
	}
	return b.String()
}

// Forget drops what was recorded.
func (r *Recorder) Forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.seen)
}

// Index returns the index of the first event of that type about an object, or
// 0.
func (r *Recorder) Index(kind, uid string) uint64 {
	for _, e := range r.Events() {
		if e.UID == uid && e.Type == kind {
			return e.Index
		}
	}
	return 0
}

// Order checks that everything that the incarnation old owned was deleted
// before old, that next, unless empty, was created after that, and that nothing
// of next was created before next. It returns the violations.
func (r *Recorder) Order(old, next string) (amiss []string) {
	note := func(format string, args ...any) { amiss = append(amiss, fmt.Sprintf(format, args...)) }
	gone, came := r.Index("Deleted", old), r.Index("Added", next)
	switch {
	case gone == 0:
		note("%s was not seen to go", old)
		return amiss
	case next != "" && (came == 0 || gone > came):
		note("%s went at %d, and %s came at %d", old, gone, next, came)
	}
	retired := map[string]bool{}
	for _, e := range r.Events() {
		switch {
		case e.Owner == old && e.Type == "Deleted" && e.Index >= gone, e.Owner == old && e.Type == "Retired" && !retired[e.ID] && e.Index >= gone:
			note("the owner went at %d, before %v", gone, &e)
		case e.Owner == old && e.Index > gone && (e.Type == "Added" || e.Type == "Placed"):
			note("after the owner went at %d: %v", gone, &e)
		case next != "" && e.Owner == next && e.Index <= came:
			note("before its owner came at %d: %v", came, &e)
		}
		if e.Type == "Retired" {
			retired[e.ID] = true
		}
	}
	return amiss
}

// Made returns what was created for an owner after an index.
func (r *Recorder) Made(owner string, after uint64) (out []Event) {
	for _, e := range r.Events() {
		if e.Owner == owner && e.Index > after && (e.Type == "Added" || e.Type == "Placed") {
			out = append(out, e)
		}
	}
	return out
}

// Placed returns the allocations that were placed for an owner.
func (r *Recorder) Placed(owner string) (out []Event) {
	for _, e := range r.Made(owner, 0) {
		if e.Type == "Placed" {
			out = append(out, e)
		}
	}
	return out
}

// Most returns the largest number of live allocations of a job at any recorded
// index.
func (r *Recorder) Most(job string) (most int) {
	live := map[string]bool{}
	for _, e := range r.Events() {
		if e.Kind != "Allocation" || !strings.HasPrefix(e.Name, job+".") {
			continue
		}
		if e.Type == "Retired" {
			delete(live, e.ID)
		} else {
			live[e.ID] = true
		}
		most = max(most, len(live))
	}
	return most
}

// Meeting returns the event after which two jobs shared a node, or nil.
func (r *Recorder) Meeting(a, b string) *Event {
	live := map[string]map[string]string{} // by node, by allocation: the job
	for _, e := range r.Events() {
		job, _, _ := strings.Cut(e.Name, ".")
		if e.Kind != "Allocation" || job != a && job != b {
			continue
		}
		if live[e.Node] == nil {
			live[e.Node] = map[string]string{}
		}
		if e.Type == "Retired" {
			delete(live[e.Node], e.ID)
			continue
		}
		live[e.Node][e.ID] = job
		for _, other := range live[e.Node] {
			if other != job {
				return &e
			}
		}
	}
	return nil
}

// Phases returns the changes of an incarnation's submission: plans and
// completions with their generations, in order.
func (r *Recorder) Phases(uid string) (out []string) {
	for _, e := range r.Events() {
		if e.UID == uid && (e.Cause == "plan" || e.Cause == "complete") {
			out = append(out, fmt.Sprint(e.Cause, " ", e.Generation))
		}
	}
	return slices.Compact(out)
}

// Connectivity returns the successive connectivity values of a processing
// element.
func (r *Recorder) Connectivity(uid string) (out []string) {
	for _, e := range r.Events() {
		if e.UID == uid && e.Kind == "ProcessingElement" {
			out = append(out, e.State)
		}
	}
	return slices.Compact(out)
}

package worker

import (
	"crypto/rand"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"berth"
)

// Roster is the workers of a server that run now. The zero value is empty.
type Roster struct {
	mu   sync.Mutex
	list []*Worker // in order of when they began
}

// Info is what is known of a worker.
type Info struct {
	ID      berth.ID[Worker]
	Types   []string // of evaluations that it takes
	Started time.Time
	Doing   string // one of Waiting, Deciding and Submitting
}

// What a worker does.
const (
	Waiting    = "WaitingToDequeue"
	Deciding   = "Scheduling"
	Submitting = "Submitting" // too many plans are on their way
)

// Workers returns those that run now, the oldest first.
func (r *Roster) Workers() []Info {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]Info, len(r.list))
	for i, w := range r.list {
		out[i] = Info{ID: w.id, Types: w.types, Started: w.started, Doing: *w.doing.Load()}
	}
	return out
}

// On lets a worker be on the roster while it runs; nil is none. It returns the
// worker.
func (w *Worker) On(r *Roster) *Worker {
	w.roster = r
	return w
}

// membership is a worker's part in a roster.
type membership struct {
	roster  *Roster
	id      berth.ID[Worker]
	started time.Time
	doing   atomic.Pointer[string]
}

var doings = [...]string{Waiting, Deciding, Submitting}

// does says what the worker does from now on.
func (m *membership) does(what int) { m.doing.Store(&doings[what]) }

const (
	toDequeue = iota
	toDecide
	toSubmit
)

// join puts the worker on its roster, and returns what takes it off.
func (w *Worker) join() (leave func()) {
	w.does(toDequeue)
	r := w.roster
	if r == nil {
		return func() {}
	}
	rand.Read(w.id[:])
	w.started = time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, w)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.list = slices.DeleteFunc(r.list, func(x *Worker) bool { return x == w })
	}
}

package worker

import (
	"crypto/rand"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"berth"
)

// Registry lists the running workers of a server. The zero value is empty.
type Registry struct {
	mu   sync.Mutex
	list []*Worker // in order of their start
}

// Info describes a worker.
type Info struct {
	ID      berth.ID[Worker]
	Types   []string // types of evaluations that it takes
	Started time.Time
	Doing   string // one of Waiting, Deciding and Submitting
}

// The states of a worker.
const (
	Waiting    = "WaitingToDequeue"
	Deciding   = "Scheduling"
	Submitting = "Submitting" // too many plans are pending
)

// Workers returns the running workers, the oldest first.
func (r *Registry) Workers() []Info {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]Info, len(r.list))
	for i, w := range r.list {
		out[i] = Info{ID: w.id, Types: w.types, Started: w.started, Doing: *w.doing.Load()}
	}
	return out
}

// On lists the worker in r while it runs; r may be nil. It returns the worker.
func (w *Worker) On(r *Registry) *Worker {
	w.registry = r
	return w
}

// membership is a worker's entry in a roster.
type membership struct {
	registry *Registry
	id       berth.ID[Worker]
	started  time.Time
	// doing points to one of doings. The API reads it while the worker runs.
	doing atomic.Pointer[string]
}

// doings are what the API shows, by step.
var doings = [...]string{Waiting, Deciding, Submitting}

// does records what the worker does from now on.
func (m *membership) does(what int) { m.doing.Store(&doings[what]) }

const (
	// The steps of a worker, in their order.
	toDequeue = iota
	toDecide
	toSubmit
)

// join adds the worker to its roster. The function that it returns removes it.
func (w *Worker) join() (leave func()) {
	w.does(toDequeue)
	r := w.registry
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

package agent

import (
	"time"

	"berth/internal/agent/alloc"
	"berth/internal/agent/host"
	"berth/op"
)

// held is an allocation that the agent has.
type held struct {
	alloc      *op.Alloc     // as last received
	unrecorded bool          // that is not what is recorded of it, if anything is
	runner     *alloc.Runner // nil if it had ended before it came here
	removed    bool          // on its way out
	ended      time.Time
	cleared    bool // its directory is gone
	usage      host.Sampler[alloc.Usages]
}

// hold remembers an allocation that is not run.
func (a *Agent) hold(al *op.Alloc) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if h := a.allocs[al.ID.String()]; h != nil {
		h.alloc, h.unrecorded = al, false
		return
	}
	a.allocs[al.ID.String()] = &held{alloc: al, ended: time.Now()}
}

// over reports whether nothing runs of an allocation, and nothing will.
func (h *held) over() bool {
	if h.runner == nil {
		return true
	}
	select {
	case <-h.runner.Done():
		return h.runner.Ended()
	default:
		return false
	}
}

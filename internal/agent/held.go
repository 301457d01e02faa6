package agent

import (
	"time"

	"berth"
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

// over reports whether nothing runs of an allocation, and nothing will. That must
// be recorded, or the next agent could start it again, unless servers have ordered
// the end: they say that again. So the directory of what has filled the disk can be
// removed. The caller holds mu.
func (h *held) over() bool {
	if h.runner == nil {
		return true
	}
	select {
	case <-h.runner.Done():
		return h.runner.Ended()
	default:
	}
	ordered := h.removed || h.alloc.DesiredStatus != berth.DesiredRun
	return ordered && h.runner.Unrecorded()
}

// awaitEnd waits until nothing runs of an allocation and nothing will, and reports
// whether that is so: the agent may end first.
func (a *Agent) awaitEnd(h *held) bool {
	if h.runner == nil {
		return true
	}
	tick := time.NewTicker(time.Second) // for what a full disk keeps from being recorded
	defer tick.Stop()
	for {
		select {
		case <-h.runner.Done():
			return h.runner.Ended()
		case <-a.lives.Done():
			return false
		case <-tick.C:
			a.mu.Lock()
			over := h.over()
			a.mu.Unlock()
			if over {
				return true
			}
		}
	}
}

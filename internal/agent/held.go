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
	claimed    bool      // its directory is gone, or somebody removes or empties it
	torn       bool      // the removal has begun: what is there may not be all
	asked      time.Time // when a replacement last asked for its data; zero: none has
	moved      bool      // a replacement on this node has its data
	usage      host.Sampler[alloc.Usages]
}

// whole reports whether the directory of an allocation has all that its tasks left
// there, and nobody removes or empties it. The caller holds mu.
func (h *held) whole() bool { return !h.removed && !h.claimed && !h.torn }

// leaves reports whether an allocation has data for a replacement.
func (h *held) leaves() bool {
	if h.alloc.Job == nil || h.moved {
		return false
	}
	g := h.alloc.Job.Group(h.alloc.TaskGroup)
	return g != nil && g.EphemeralDisk != nil && g.EphemeralDisk.Sticky
}

// awaited reports whether the directory of an allocation that has ended stays for a
// replacement, which takes over its data or may soon.
func (h *held) awaited(now time.Time) bool {
	return h.leaves() && (now.Sub(h.ended) < dataKept || now.Sub(h.asked) < dataKept)
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

package heartbeat

import (
	"time"

	"berth"
)

// Limiter limits mass failures. When this many nodes go silent at once, the
// network or the servers themselves are more likely at fault than the nodes.
// Then nodes are given up one at a time, so that not everything is placed again
// at once, and none as long as no node at all is heard. The zero value never
// limits.
type Limiter struct {
	Nodes  int           // more silent nodes than this within Window turn the limiter on; 0: no limit
	Share  float64       // as does a larger share of all nodes than this; 0: no limit
	Window time.Duration // nodes that go silent within it count together
	Pace   time.Duration // between two nodes that are given up
}

// DefaultLimiter is a server's limiter.
var DefaultLimiter = Limiter{Nodes: 10, Share: 0.25, Window: time.Minute, Pace: 10 * time.Second}

// fewNodes is how many silent nodes it takes to turn the limiter on: in a small
// cluster fewer are already a large share.
const fewNodes = 3

// limiter holds the nodes that are silent and not given up yet.
type limiter struct {
	Limiter
	silent []silence // nodes that went silent within the window, including those given up, oldest first
	held   []silence // to be given up, oldest first
	on     bool
	last   time.Time // when a node was last given up while the limiter was on
	alarms int       // how often the limiter turned on
}

// silence is a node that went silent, and when that was found.
type silence struct {
	node berth.NodeID
	at   time.Time
}

// contacted removes a node that has sent a heartbeat again.
func (b *limiter) contacted(id berth.NodeID) {
	if len(b.silent) > 0 {
		b.silent = without(b.silent, id)
	}
	if len(b.held) > 0 {
		b.held = without(b.held, id)
	}
}

// without returns list without the silence of a node. It leaves list itself
// unchanged.
func without(list []silence, id berth.NodeID) []silence {
	for i := range list {
		if list[i].node == id {
			return append(list[:i:i], list[i+1:]...)
		}
	}
	return list
}

// add records that a node went silent.
func (b *limiter) add(id berth.NodeID, now time.Time) {
	b.contacted(id)
	b.silent = append(b.silent, silence{id, now})
	b.held = append(b.held, silence{id, now})
}

// judge turns the limiter on or off, given the number of other nodes that send
// heartbeats. It reports whether the limiter turned on just now.
func (b *limiter) judge(heard int, now time.Time) (began bool) {
	for len(b.silent) > 0 && now.Sub(b.silent[0].at) >= b.Window {
		b.silent = b.silent[1:]
	}
	n, all := len(b.silent), heard+len(b.silent)
	many := n >= fewNodes && (b.Nodes > 0 && n > b.Nodes || b.Share > 0 && float64(n) > b.Share*float64(all))
	was := b.on
	b.on = many || b.on && len(b.held) > 0
	if b.on && !was {
		b.alarms++
		return true
	}
	return false
}

// release returns the nodes to give up now and when to look again, zero if none
// is held.
func (b *limiter) release(heard int, now time.Time) (out []berth.NodeID, again time.Time) {
	if !b.on {
		for _, s := range b.held {
			out = append(out, s.node)
		}
		b.held = nil
		return out, time.Time{}
	}
	next := b.last.Add(b.Pace)
	if len(b.held) > 0 && heard > 0 && !now.Before(next) {
		out = append(out, b.held[0].node)
		b.held = b.held[1:]
		b.last, next = now, now.Add(b.Pace)
	}
	if len(b.held) == 0 {
		return out, time.Time{}
	}
	if !next.After(now) {
		next = now.Add(b.Pace)
	}
	return out, next
}

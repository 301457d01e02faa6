package heartbeat

import (
	"time"

	"berth"
)

// Limiter limits mass failures. When this many nodes go silent at once, the
// network or the servers themselves are more likely at fault than the nodes.
// Then nodes are given up in batches, so that not everything is placed again at
// once, and none as long as no node at all is heard.
//
// The first batches are a hundredth of the cluster. With every Window in which no
// silent node comes back it is more likely that they are really gone, so the
// batches double. How long it takes to give up the last therefore depends on the
// share of the cluster that is gone, and not on the cluster's size. The zero
// value never limits.
type Limiter struct {
	Nodes  int           // more silent nodes than this, and than a hundredth of all, within Window turn the limiter on; 0: no limit
	Share  float64       // as does a larger share of all nodes than this; 0: no limit
	Window time.Duration // nodes that go silent within it count together
	Pace   time.Duration // between two batches
}

// DefaultLimiter is a server's limiter.
var DefaultLimiter = Limiter{Nodes: 10, Share: 0.25, Window: time.Minute, Pace: 10 * time.Second}

const (
	// fewNodes is how many silent nodes it takes to turn the limiter on: in a
	// small cluster fewer are already a large share.
	fewNodes = 3
	// batches is how many of the first batches the whole cluster would be.
	batches = 100
)

// many reports whether n of all nodes are silent because of a mass failure.
func (b *Limiter) many(n, all int) bool {
	return n >= fewNodes && (b.Nodes > 0 && n > max(b.Nodes, all/batches) || b.Share > 0 && float64(n) > b.Share*float64(all))
}

// limiter holds the nodes that are silent and not given up yet.
type limiter struct {
	Limiter
	silent []silence // nodes that went silent within the window, including those given up, oldest first
	held   []silence // to be given up, oldest first
	on     bool
	all    int       // nodes in the cluster when it was last on, at most
	since  time.Time // when the limiter turned on, or a held node last came back
	last   time.Time // when a batch was last given up while the limiter was on
	alarms int       // how often the limiter turned on
}

// silence is a node that went silent, and when that was found.
type silence struct {
	node berth.NodeID
	at   time.Time
}

// contacted removes a node that has sent a heartbeat again. If it was held, the
// others may come back as well, and the batches begin small again.
func (b *limiter) contacted(id berth.NodeID, now time.Time) {
	before := len(b.held)
	b.remove(id)
	if len(b.held) < before {
		b.since = now
	}
}

// remove removes a node.
func (b *limiter) remove(id berth.NodeID) {
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
	b.remove(id)
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
	many := b.many(n, all)
	was := b.on
	b.on = many || b.on && len(b.held) > 0
	switch {
	case b.on && was:
		b.all = max(b.all, all)
	case b.on:
		b.all, b.since = all, now
		b.alarms++
		return true
	}
	return false
}

// batch returns how many nodes are given up together now.
func (b *limiter) batch(now time.Time) int {
	const most = 20 // doublings; any cluster is given up by then
	doubled := most
	if b.Window > 0 {
		doubled = min(int(now.Sub(b.since)/b.Window), most)
	}
	return max(1, b.all/batches) << doubled
}

// postpone has the next batch wait for its whole time again, and begin small: in
// the time before, nobody could have come back.
func (b *limiter) postpone(now time.Time) {
	b.last, b.since = now, now
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
		n := min(b.batch(now), len(b.held))
		for _, s := range b.held[:n] {
			out = append(out, s.node)
		}
		b.held = b.held[n:]
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

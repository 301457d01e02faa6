package heartbeat

import (
	"time"

	"berth"
)

// Brake says when so many nodes fall silent at once that it is more likely the
// network's fault, or our own, than theirs. Then they are given up one by one,
// so that what runs there is not all placed anew, and none while no node at all
// is heard. The zero value never brakes.
type Brake struct {
	Nodes  int           // more than so many within Window brake; 0: any number may
	Share  float64       // as does more than this part of all nodes; 0: any part may
	Window time.Duration // what is at once
	Pace   time.Duration // from one node that is given up to the next
}

// DefaultBrake is that of a server.
var DefaultBrake = Brake{Nodes: 10, Share: 0.25, Window: time.Minute, Pace: 10 * time.Second}

// fewNodes never brake: in a small cluster they are a large part of it.
const fewNodes = 3

// brake holds the nodes that are silent and not given up yet.
type brake struct {
	Brake
	fell   []silence // within the window, those given up included, oldest first
	held   []silence // to be given up, oldest first
	on     bool
	last   time.Time // when one was given up while it was on
	alarms int       // how often it went on
}

type silence struct {
	node berth.NodeID
	at   time.Time
}

// heard lets go of a node that is heard again.
func (b *brake) heard(id berth.NodeID) {
	if len(b.fell) > 0 {
		b.fell = without(b.fell, id)
	}
	if len(b.held) > 0 {
		b.held = without(b.held, id)
	}
}

func without(list []silence, id berth.NodeID) []silence {
	for i := range list {
		if list[i].node == id {
			return append(list[:i:i], list[i+1:]...)
		}
	}
	return list
}

// fall notes that a node fell silent.
func (b *brake) fall(id berth.NodeID, now time.Time) {
	b.heard(id)
	b.fell = append(b.fell, silence{id, now})
	b.held = append(b.held, silence{id, now})
}

// judge says whether the brake is on, when so many other nodes are heard, and
// whether it went on just now.
func (b *brake) judge(heard int, now time.Time) (began bool) {
	for len(b.fell) > 0 && now.Sub(b.fell[0].at) >= b.Window {
		b.fell = b.fell[1:]
	}
	n, all := len(b.fell), heard+len(b.fell)
	many := n >= fewNodes && (b.Nodes > 0 && n > b.Nodes || b.Share > 0 && float64(n) > b.Share*float64(all))
	was := b.on
	b.on = many || b.on && len(b.held) > 0
	if b.on && !was {
		b.alarms++
		return true
	}
	return false
}

// release returns the nodes that are given up now, and when to look again: zero
// if nothing is held.
func (b *brake) release(heard int, now time.Time) (out []berth.NodeID, again time.Time) {
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

package planner

import (
	"fmt"
	"strconv"
	"time"

	"berth"
)

// Tracker says when a node has refused too many placements, and what happens then.
// A node that refuses some now and then had other plans in between. If it keeps
// refusing them, schedulers see it differently from what it is. Something is wrong
// with it or with us.
type Tracker struct {
	Threshold int           // placements, at least 1
	Window    time.Duration // in which it refused as many
	// Disable takes the node out: no more is placed on it until an operator makes
	// it eligible. One node at most is taken out in each Window, so that a fault of
	// the servers cannot take out all of them.
	Disable bool
}

// DefaultTracker reports such nodes with an event, and leaves them in.
var DefaultTracker = Tracker{Threshold: 100, Window: 5 * time.Minute}

// refusals counts the placements that nodes refused.
type refusals struct {
	tracker  Tracker
	nodes    map[berth.NodeID]*nodeRefusals
	disabled time.Time // when the last node was taken out
}

type nodeRefusals struct {
	kinds    map[berth.RefusalKind]int
	recent   []time.Time // the newest, at most Threshold
	reported time.Time
}

// note counts a refusal. It returns an event for the node if there were too
// many, or nil, and whether the node must be taken out.
func (r *refusals) note(x *berth.Refusal, now time.Time) (e *berth.NodeEvent, disable bool) {
	n, often, within := r.nodes[x.NodeID], r.tracker.Threshold, r.tracker.Window
	if n == nil {
		n = &nodeRefusals{kinds: map[berth.RefusalKind]int{}}
		r.nodes[x.NodeID] = n
	}
	n.kinds[x.Kind]++
	if len(n.recent) == often {
		n.recent = append(n.recent[:0], n.recent[1:]...)
	}
	n.recent = append(n.recent, now)
	if len(n.recent) < often || now.Sub(n.recent[0]) > within {
		return nil, false
	}
	if r.tracker.Disable && (r.disabled.IsZero() || now.Sub(r.disabled) >= within) {
		r.disabled, disable = now, true
	}
	if !disable && !n.reported.IsZero() && now.Sub(n.reported) < within {
		return nil, false
	}
	n.reported = now
	e = &berth.NodeEvent{
		Subsystem: "Scheduler", Timestamp: now, Details: map[string]string{},
		Message: fmt.Sprintf("%d placements were refused in %v, the last because %s", often, now.Sub(n.recent[0]).Round(time.Second), x.Reason),
	}
	for k, count := range n.kinds {
		e.Details[string(k)] = strconv.Itoa(count)
	}
	return e, disable
}

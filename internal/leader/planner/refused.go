package planner

import (
	"fmt"
	"strconv"
	"time"

	"berth"
)

// A node that refuses placements now and then had other plans in between. If it
// keeps refusing them, schedulers see it differently from what it is. Something
// is wrong with it or with us, and an operator should look.
const (
	refusedOften  = 100
	refusedWithin = 5 * time.Minute
)

// refusals counts the placements that nodes refused.
type refusals map[berth.NodeID]*nodeRefusals

type nodeRefusals struct {
	kinds    map[berth.RefusalKind]int
	recent   []time.Time // the newest, at most refusedOften
	reported time.Time
}

// note counts a refusal. It returns an event for the node if there were too
// many, or nil.
func (r refusals) note(x *berth.Refusal, now time.Time) *berth.NodeEvent {
	n := r[x.NodeID]
	if n == nil {
		n = &nodeRefusals{kinds: map[berth.RefusalKind]int{}}
		r[x.NodeID] = n
	}
	n.kinds[x.Kind]++
	if len(n.recent) == refusedOften {
		n.recent = append(n.recent[:0], n.recent[1:]...)
	}
	n.recent = append(n.recent, now)
	if len(n.recent) < refusedOften || now.Sub(n.recent[0]) > refusedWithin || !n.reported.IsZero() && now.Sub(n.reported) < refusedWithin {
		return nil
	}
	n.reported = now
	e := &berth.NodeEvent{
		Subsystem: "Scheduler", Timestamp: now, Details: map[string]string{},
		Message: fmt.Sprintf("%d placements were refused in %v, the last because %s", refusedOften, now.Sub(n.recent[0]).Round(time.Second), x.Reason),
	}
	for k, count := range n.kinds {
		e.Details[string(k)] = strconv.Itoa(count)
	}
	return e
}

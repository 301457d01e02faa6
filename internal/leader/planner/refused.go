package planner

import (
	"fmt"
	"strconv"
	"strings"
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
	kinds    map[string]int
	recent   []time.Time // the newest, at most refusedOften
	reported time.Time
}

// note counts a refusal. It returns an event for the node if there were too
// many, or nil.
func (r refusals) note(x *berth.Refusal, now time.Time) *berth.NodeEvent {
	n := r[x.NodeID]
	if n == nil {
		n = &nodeRefusals{kinds: map[string]int{}}
		r[x.NodeID] = n
	}
	n.kinds[kind(x.Reason)]++
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
		e.Details[k] = strconv.Itoa(count)
	}
	return e
}

// kind sorts the reasons of refused placements: a dimension, the node itself,
// or the instance.
func kind(reason string) string {
	dimension, _, short := strings.Cut(reason, ": ")
	switch {
	case strings.HasPrefix(reason, "port "):
		return "port"
	case short:
		return dimension
	case strings.HasPrefix(reason, "the node "):
		return "node"
	}
	return "instance"
}

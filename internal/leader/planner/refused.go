package planner

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"berth"
)

// A node of which placements are refused now and then met others on their way.
// One of which they are refused again and again is seen by schedulers as it is
// not: something is wrong with it, or with us, and somebody should look.
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

// note counts a refusal. It returns what to tell of the node if that was one
// too many, else nil.
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

// kind sorts the reasons for which the state refuses placements: a dimension,
// the node itself, or the instance.
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

package planner

import (
	"testing"
	"time"

	"berth"
)

// Refusals are counted by kind, whatever their reasons say, and a node that
// refuses too many gets an event.
func TestRefusalsAreCountedByKind(t *testing.T) {
	r, now := refusals{tracker: DefaultTracker, nodes: map[berth.NodeID]*nodeRefusals{}}, time.Unix(1e9, 0)
	for i := range DefaultTracker.Threshold {
		x := berth.Refuse(berth.RefusedNode, "memory: this text decides nothing")
		if i%4 == 0 {
			x = berth.Refuse(berth.RefusedMemory, "the node is full")
		}
		e, disable := r.note(x, now.Add(time.Duration(i)*time.Second))
		switch {
		case disable:
			t.Fatal("a node is taken out, which nobody asked for")
		case i < DefaultTracker.Threshold-1 && e != nil:
			t.Fatalf("an event after %d refusals", i+1)
		case i == DefaultTracker.Threshold-1 && (e == nil || len(e.Details) != 2 || e.Details["memory"] != "25" || e.Details["node"] != "75"):
			t.Errorf("%+v", e)
		}
	}
}

// A node that refuses too much is taken out if the operator asked for it; others
// that do so at the same time follow later, one in each window.
func TestNodesThatRefuseAreTakenOutOneByOne(t *testing.T) {
	r := refusals{tracker: Tracker{Threshold: 3, Window: time.Minute, Disable: true}, nodes: map[berth.NodeID]*nodeRefusals{}}
	one, two := berth.NodeID{1}, berth.NodeID{2}
	for _, x := range []struct {
		node    berth.NodeID
		seconds int
		disable bool
		event   bool
	}{
		{one, 0, false, false}, {one, 30, false, false},
		{one, 61, false, false}, // the first was too long ago
		{one, 62, true, true},
		{two, 63, false, false}, {two, 64, false, false},
		{two, 65, false, true}, // another was just taken out
		{two, 120, false, false},
		{two, 121, false, false},
		{two, 122, true, true},
	} {
		refusal := berth.Refuse(berth.RefusedMemory, "the node is full")
		refusal.NodeID = x.node
		e, disable := r.note(refusal, time.Unix(1e9+int64(x.seconds), 0))
		if disable != x.disable || (e != nil) != x.event {
			t.Errorf("after %d s: disable %v, event %v", x.seconds, disable, e)
		}
	}
}

package planner

import (
	"testing"
	"time"

	"berth"
)

// Refusals are counted by kind, whatever their reasons say, and a node that
// refuses too many gets an event.
func TestRefusalsAreCountedByKind(t *testing.T) {
	r, now := refusals{}, time.Unix(1e9, 0)
	for i := range refusedOften {
		x := berth.Refuse(berth.RefusedNode, "memory: this text decides nothing")
		if i%4 == 0 {
			x = berth.Refuse(berth.RefusedMemory, "the node is full")
		}
		e := r.note(x, now.Add(time.Duration(i)*time.Second))
		switch {
		case i < refusedOften-1 && e != nil:
			t.Fatalf("an event after %d refusals", i+1)
		case i == refusedOften-1 && (e == nil || len(e.Details) != 2 || e.Details["memory"] != "25" || e.Details["node"] != "75"):
			t.Errorf("%+v", e)
		}
	}
}

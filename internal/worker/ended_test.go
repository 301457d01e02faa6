package worker_test

import (
	"testing"

	"berth"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// An instance that should run and does not any more is placed again, whatever
// its agent calls its end; but a batch instance that is done is done.
func TestEndedIsPlacedAgain(t *testing.T) {
	for _, x := range []struct {
		typ   string
		end   berth.ClientStatus
		again int
	}{
		{berth.TypeService, berth.ClientLost, 1}, {berth.TypeService, berth.ClientComplete, 1},
		{berth.TypeBatch, berth.ClientLost, 1}, {berth.TypeBatch, berth.ClientComplete, 0},
	} {
		inCluster(t, func(c *cluster) {
			job := statetest.Job(t, `{"ID":"web","Type":"`+x.typ+`","TaskGroups":[{"Name":"g","Count":1}]}`)
			s := c.do(statetest.AddNode(1, 4000, 4000), statetest.Register(job, 1))
			first := live(s, "web")[0]
			s = c.do(&state.ReportAllocs{Node: first.NodeID, Updates: []state.AllocUpdate{{ID: first.ID, Client: x.end}}})
			if got := live(s, "web"); len(got) != x.again {
				t.Errorf("%s %s: %d run, want %d", x.typ, x.end, len(got), x.again)
			}
		})
	}
}

package schedule_test

import (
	"fmt"
	"testing"

	"berth"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// inRack is a node with a rack.
func inRack(n int, rack string) *state.RegisterNode {
	r := statetest.AddNode(n, 2000, 4000)
	r.Node.Meta = map[string]string{"rack": rack}
	return r
}

// eachItsRack is a job with one instance in a rack. It is waited for when its
// node is disconnected, with a stand-in or without.
func eachItsRack(count int, standIn bool) string {
	return fmt.Sprintf(`{"ID":"web","TaskGroups":[{"Name":"g","Count":%d,"Disconnect":{"LostAfter":3600000000000,"Replace":%v},
		"Constraints":[{"Operand":"distinct_property","LTarget":"${meta.rack}"}],"Resources":{"CPU":400,"MemoryMB":100}}]}`, count, standIn)
}

// away is a cluster with one instance of that job, in rack r1, on a node that
// has just been disconnected.
func away(t *testing.T, standIn bool, others ...*state.RegisterNode) *rollout {
	t.Helper()
	r := newRollout(t, inRack(1, "r1"))
	r.register(eachItsRack(1, standIn))
	r.report()
	r.log.Must(t, &state.SetNodeStatus{ID: statetest.ID[berth.Node](1), Status: berth.NodeDisconnected, Now: 3})
	for _, n := range others {
		r.log.Must(t, n)
	}
	return r
}

// An allocation that becomes unknown may come back, so its rack is taken: in the
// decision that marks it, and later.
func TestTheRackOfAnUnknownAllocationIsTaken(t *testing.T) {
	r := away(t, false, inRack(2, "r1"))
	d := r.register(eachItsRack(2, false))
	if len(d.Plan.Place) != 0 || d.Plan.End.Queued["g"] != 1 {
		t.Errorf("places %+v, ends %+v", d.Plan.Place, d.Plan.End)
	}
	if d = r.again(); len(d.Plan.Place) != 0 {
		t.Errorf("places later %+v", d.Plan.Place)
	}
	r.log.Must(t, inRack(3, "r2"))
	if d = r.again(); len(d.Plan.Place) != 1 || d.Plan.Place[0].NodeID != statetest.ID[berth.Node](3) {
		t.Errorf("places in the other rack %+v", d.Plan.Place)
	}
}

// A stand-in may have the rack of the allocation for which it stands in, whether
// it is placed at once or waits for a node first. Other instances may not.
func TestAStandInMayHaveTheRackOfWhatIsUnknown(t *testing.T) {
	r := away(t, true, inRack(2, "r1"))
	if d := r.register(eachItsRack(2, true)); len(d.Plan.Place) != 1 || d.Plan.Place[0].Index != 0 || d.Plan.End.Queued["g"] != 1 {
		t.Errorf("at once: places %+v, ends %+v", d.Plan.Place, d.Plan.End)
	}
	r = away(t, true)
	if d := r.register(eachItsRack(2, true)); len(d.Plan.Place) != 0 || d.Plan.End.Queued["g"] != 2 {
		t.Errorf("without a node: places %+v, ends %+v", d.Plan.Place, d.Plan.End)
	}
	r.log.Must(t, inRack(2, "r1"))
	if d := r.again(); len(d.Plan.Place) != 1 || d.Plan.Place[0].Index != 0 || d.Plan.End.Queued["g"] != 1 {
		t.Errorf("with a node: places %+v, ends %+v", d.Plan.Place, d.Plan.End)
	}
}

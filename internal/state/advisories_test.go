package state_test

import (
	"testing"

	"berth"
	"berth/internal/quota"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// C50: what an allocation used is given back once, however often and in whatever
// order it is stopped, reported as ended, lost and deleted. It is also a row of
// docs/advisories.md. After each step used compares what is counted with what a
// count of all allocations gives.
func TestAdvisory_C50_QuotasAreCreditedOnce(t *testing.T) {
	store, log := statetest.New(t, &state.BeginTerm{Term: 1}, statetest.AddNode(1, 10000, 10000), quotaOf("q", berth.QuotaResources{CPU: amount(300)}), limited("q"))
	log.Must(t, statetest.Register(statetest.Job(t, `{"ID":"web","TaskGroups":[{"Name":"g","Count":3,"Resources":{"CPU":100,"MemoryMB":10}}]}`), 1))
	place := func(eval, n int) *state.ApplyPlan {
		p := &state.ApplyPlan{Eval: statetest.ID[berth.Eval](eval), Now: 100, End: &state.EvalEnd{Status: berth.EvalComplete}}
		for i := range n {
			p.Place = append(p.Place, berth.Placement{NodeID: node(1), Index: uint32(i)})
		}
		return p
	}
	log.Must(t, place(1, 3))
	is := func(what string, want int64) {
		t.Helper()
		if got := used(t, store.Snapshot(), "q", quota.CPU); got != want {
			t.Errorf("%s: %d MHz are used, not %d", what, got, want)
		}
	}
	is("placed", 300)
	var ids []berth.AllocID
	for a := range store.Snapshot().Allocs() {
		ids = append(ids, a.ID)
	}
	report := func(id berth.AllocID, status berth.ClientStatus) {
		log.Must(t, &state.ReportAllocs{Node: node(1), Updates: []state.AllocUpdate{{ID: id, Client: status}}, Now: 300})
	}
	log.Must(t, &state.StopAlloc{ID: ids[0], Eval: byUser(7, berth.TriggerAllocStop), Now: 200})
	is("stopping", 300)
	for range 3 {
		report(ids[0], berth.ClientComplete)
		is("ended", 200)
	}
	report(ids[0], berth.ClientFailed)
	is("ended, and then said to have failed", 200)
	report(ids[0], berth.ClientRunning)
	if got := used(t, store.Snapshot(), "q", quota.CPU); got != 200 && got != 300 {
		t.Errorf("said to run again: %d MHz are used", got)
	}
	report(ids[0], berth.ClientComplete)
	is("ended again", 200)
	report(ids[1], berth.ClientFailed)
	is("another has failed", 100)
	log.Must(t, &state.SetNodeStatus{ID: node(1), Status: berth.NodeDown, Now: 400})
	used(t, store.Snapshot(), "q", quota.CPU)
	for _, id := range ids {
		report(id, berth.ClientComplete)
	}
	is("all have ended", 0)
}

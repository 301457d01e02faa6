package explain_test

import (
	"testing"

	"berth"
	"berth/internal/schedule/explain"
	"berth/internal/state"
	"berth/internal/state/statetest"
	"berth/op"
)

// A group that waits for another one says for which and how far that is, and a
// task that waits for its inputs says for which of them, as data and as text.
func TestWaitingForGroupsAndInputs(t *testing.T) {
	j := statetest.Job(t, `{"ID":"web","TaskGroups":[
		{"Name":"front","DependsOn":["group.db"],"Tasks":[{"Name":"t","Driver":"mock_driver","Resources":{"CPU":100,"MemoryMB":100}}]},
		{"Name":"db","Count":2,"Tasks":[{"Name":"t","Driver":"mock_driver","Resources":{"CPU":100,"MemoryMB":100}}]}]}`)
	c := newCluster(t, statetest.AddNode(1, 4000, 1000), statetest.Register(j, 1))
	c.decide()
	job := func(verdict string, parts ...string) *op.Explanation {
		t.Helper()
		x := explain.Job(c.snap(), key("web"), nowhere, c.now)
		said(t, x, verdict, parts)
		return x
	}
	x := job(op.WhyOrder, `group "front" waits for group "db" (0 of 2 are `)
	if w := x.Groups[0].WaitsFor; len(w) != 1 || w[0].Group != "db" || w[0].Wanted != 2 || w[0].Failed {
		t.Errorf("it waits for %+v", w)
	}
	a := c.alloc("web.db[0]")
	c.Must(t, &state.ReportAllocs{Node: a.NodeID, Now: c.now.UnixNano(), Updates: []state.AllocUpdate{{
		ID: a.ID, Client: berth.ClientPending, Tasks: state.PackTaskStates(map[string]*berth.TaskState{"t": {State: berth.TaskPending, Events: []berth.TaskEvent{
			{Type: berth.EventTemplate, Time: c.now.UnixNano(), Details: map[string]string{berth.DetailWaitsFor: "variable nomad/jobs/web\n"}},
		}}}),
	}}})
	x = job(op.WhyOrder)
	if in := x.Groups[1].Inputs; len(in) != 1 || in[0].AllocID != a.ID || in[0].Task != "t" || in[0].TaskWait != (berth.TaskWait{Kind: berth.WaitVariable, Name: "nomad/jobs/web"}) {
		t.Errorf("its tasks wait for %+v", in)
	}
}

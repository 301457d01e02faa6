package api_test

import (
	"context"
	"testing"

	"berth"
	"berth/internal/api"
	"berth/internal/state"
	"berth/internal/state/statetest"
	"berth/op"
)

// oneAgent answers with what it was asked.
type oneAgent struct {
	silent
	node berth.NodeID
	in   *op.AgentDisk
}

// Agent implements api.Agents.
func (a *oneAgent) Agent(node berth.NodeID) op.Caller { a.node = node; return a }

// Call implements op.Caller.
func (a *oneAgent) Call(_ context.Context, _ string, in, out any) error {
	a.in = in.(*op.AgentDisk)
	*out.(*op.DiskAnswer) = op.DiskAnswer{State: op.DiskReady, Data: []byte("d")}
	return nil
}

// A node gets the data of the allocation that one of its own replaces, once that
// has ended, while its node is ready; and nothing else of it.
func TestDataIsForTheReplacement(t *testing.T) {
	agent := &oneAgent{}
	node := statetest.ID[berth.Node]
	add := func(i int) *state.RegisterNode {
		return statetest.AddNode(i, 4000, 4000, func(n *berth.Node) { n.SecretID = "secret-" + n.Name })
	}
	job := func(id, disk string, eval int) state.Command {
		return statetest.Register(statetest.Job(t, `{"ID":"`+id+`","TaskGroups":[{"Name":"g","Count":2,"EphemeralDisk":{"SizeMB":300`+disk+`},"Tasks":[{"Name":"app","Driver":"mock_driver"}]}]}`), eval)
	}
	plan := func(eval int, p berth.Placement) state.Command {
		return &state.ApplyPlan{Eval: statetest.ID[berth.Eval](eval), Place: []berth.Placement{p}, End: &state.EvalEnd{Status: berth.EvalComplete}}
	}
	s, log := withKeys(t, func(c *api.Config) { c.Agents = agent }, add(1), add(2), add(3),
		job("db", `,"Sticky":true,"Migrate":true`, 1), plan(1, berth.Placement{NodeID: node(1)}),
		job("other", ``, 2), plan(2, berth.Placement{NodeID: node(2)}))
	allocOn := func(n int, job berth.JobID) *berth.Alloc {
		t.Helper()
		for a := range log.Store.Snapshot().AllocsOn(node(n)) {
			if a.Job.ID == job {
				return a
			}
		}
		t.Fatalf("%s is not on node %d", job, n)
		return nil
	}
	old, stranger := allocOn(1, "db"), allocOn(2, "other")
	secret := func(n int) string { return log.Store.Snapshot().Node(node(n)).SecretID }
	ask := func(n int, a berth.AllocID, path string) (*op.DiskAnswer, error) {
		agent.in = nil
		return call(t, s, op.GetDisk, op.ReadDisk{NodeID: node(n), AllocID: a, Part: op.DiskPart{Path: path, Offset: 7}, Query: op.Query{AuthToken: secret(n)}})
	}
	if out, err := ask(1, old.ID, "alloc/data/x"); err != nil || out.State != op.DiskMissing {
		t.Errorf("it replaces none: %+v, %v", out, err)
	}
	log.Must(t, job("db", `,"Sticky":true,"Migrate":true`, 3))
	log.Must(t, &state.ApplyPlan{
		Eval: statetest.ID[berth.Eval](3), Stop: []berth.AllocStop{{ID: old.ID, StopReason: berth.StopReplaced}},
		Place: []berth.Placement{{NodeID: node(2), Previous: old.ID}}, End: &state.EvalEnd{Status: berth.EvalComplete},
	})
	mine := allocOn(2, "db")
	if out, err := ask(2, mine.ID, "alloc/data/x"); err != nil || out.State != op.DiskInUse || agent.in != nil {
		t.Errorf("while it runs: %+v, %v", out, err)
	}
	log.Must(t, &state.ReportAllocs{Node: node(1), Now: 8, Updates: []state.AllocUpdate{{ID: old.ID, Client: berth.ClientComplete}}})
	out, err := ask(2, mine.ID, "alloc/data/x")
	if err != nil || string(out.Data) != "d" || agent.node != node(1) || agent.in.AllocID != old.ID.String() || agent.in.Part.Offset != 7 {
		t.Errorf("%+v, %v; asked %+v", out, err, agent.in)
	}
	for name, x := range map[string]struct {
		node int
		id   berth.AllocID
		path string
	}{
		"another node":          {3, mine.ID, "alloc/data"},
		"the old allocation":    {1, old.ID, "alloc/data"},
		"without migrate":       {2, stranger.ID, "alloc/data"},
		"no allocation":         {2, berth.AllocID{9}, "alloc/data"},
		"secrets":               {2, mine.ID, "app/secrets"},
		"logs":                  {2, mine.ID, "alloc/logs"},
		"all":                   {2, mine.ID, "."},
		"a name that begins so": {2, mine.ID, "alloc/data2"},
	} {
		if out, err := ask(x.node, x.id, x.path); berth.KindOf(err) != berth.Denied || agent.in != nil {
			t.Errorf("%s: %+v, %v", name, out, err)
		}
	}
	log.Must(t, &state.SetNodeStatus{ID: node(1), Status: berth.NodeDown, Now: 9})
	if out, err := ask(2, mine.ID, "alloc/data"); err != nil || out.State != op.DiskMissing || agent.in != nil {
		t.Errorf("its node is down: %+v, %v", out, err)
	}
}

package server_test

import (
	"strings"
	"testing"

	"berth"

	nomad "github.com/hashicorp/nomad/api"
)

// A system job with Nomad's Go client: it runs once on every node, on those
// that join later, waits node by node for room, and goes on with an update by
// evaluations that come of each other.
func TestSystemJobs(t *testing.T) {
	r := start(t, t.TempDir())
	r.node(1)
	r.node(2)
	system := func(id string, cpu int) *nomad.Job {
		j := takes(id, 1, cpu)
		typ := nomad.JobTypeSystem
		j.Type = &typ
		return j
	}
	r.becomes(r.register(system("log", 100)), "complete")
	r.runsOn("log", 2)
	r.node(3)
	joined := r.becomes(r.eval("log", "node-update").ID, "complete")
	r.runsOn("log", 3)
	if joined.NodeID == "" || joined.Type != nomad.JobTypeSystem {
		t.Errorf("%+v", joined)
	}
	status := must[*nomad.Job, *nomad.QueryMeta](t)(r.api.Jobs().Info("log", nil))
	if *status.Status != "running" || *status.Type != nomad.JobTypeSystem || *status.Update.MaxParallel != 1 {
		t.Errorf("%s, %+v", *status.Status, status.Update)
	}
	// An update replaces one node's at a time; the next is due in half a minute.
	first := r.becomes(r.register(system("log", 200)), "complete")
	next := r.eval("log", "rolling-update")
	if first.NextEval != next.ID || next.PreviousEval != first.ID || next.Status != "pending" || next.WaitUntil.IsZero() {
		t.Errorf("%+v and then %+v", first, next)
	}
	// Each node without room is waited for on its own.
	big := r.becomes(r.register(system("big", 5000)), "complete")
	list := must[[]*nomad.Evaluation, *nomad.QueryMeta](t)(r.api.Evaluations().List(&nomad.QueryOptions{Filter: `JobID == "big" and Status == "blocked"`}))
	nodes, pointed := map[string]bool{}, false
	for _, e := range list {
		nodes[e.NodeID] = true
		pointed = pointed || e.ID == big.BlockedEval
		if e.PreviousEval != big.ID || e.TriggeredBy != "queued-allocs" {
			t.Errorf("%+v", e)
		}
	}
	if len(list) != 3 || len(nodes) != 3 || !pointed || len(big.FailedTGAllocs) != 1 {
		t.Errorf("%d evaluations wait for %d nodes; %+v", len(list), len(nodes), big)
	}
	// What a system job cannot say is refused by name.
	bad := system("bad", 100)
	two, kind := 2, nomad.JobTypeSystem
	bad.Type, bad.TaskGroups[0].Count = &kind, &two
	bad.Affinities = []*nomad.Affinity{nomad.NewAffinity("${node.datacenter}", "=", "dc1", 50)}
	if _, _, err := r.api.Jobs().Register(bad, nil); err == nil {
		t.Error("a system job with a count of 2 and an affinity was accepted")
	} else {
		contains(t, err.Error(), "count: must be 0 or 1 for jobs of type system", "affinity: is not for jobs of type system")
	}
}

// A sysbatch job runs once on every node, and on one that joins when the others
// are done.
func TestSysbatchJobs(t *testing.T) {
	r := start(t, t.TempDir())
	nodes := []*node{r.node(1), r.node(2)}
	j := takes("fix", 1, 100)
	typ := nomad.JobTypeSysbatch
	j.Type = &typ
	r.becomes(r.register(j), "complete")
	r.runsOn("fix", 2)
	for _, n := range nodes {
		n.says(berth.ClientComplete)
	}
	r.until("the job is dead", func() bool { return r.jobStatus("fix") == "dead" })
	late := r.node(3)
	r.becomes(r.eval("fix", "node-update").ID, "complete")
	r.runsOn("fix", 3)
	if s := r.jobStatus("fix"); s != "running" {
		t.Errorf("it is %s while it runs on a third node", s)
	}
	late.says(berth.ClientComplete)
	r.until("the job is dead", func() bool { return r.jobStatus("fix") == "dead" })
	// Nothing runs a second time.
	r.becomes(r.register(j), "complete")
	r.runsOn("fix", 3)
}

func (r *running) jobStatus(id string) string {
	r.t.Helper()
	j := must[*nomad.Job, *nomad.QueryMeta](r.t)(r.api.Jobs().Info(id, nil))
	return *j.Status
}

// runsOn checks that a job has so many allocations, each on a node of its own
// and of the name that all of them have.
func (r *running) runsOn(job string, count int) {
	r.t.Helper()
	list := must[[]*nomad.AllocationListStub, *nomad.QueryMeta](r.t)(r.api.Jobs().Allocations(job, false, nil))
	nodes, names := map[string]bool{}, map[string]bool{}
	for _, a := range list {
		nodes[a.NodeID], names[a.Name] = true, true
	}
	if len(list) != count || len(nodes) != count || len(names) != 1 {
		r.t.Fatalf("%d allocations on %d nodes, named %v; want %d", len(list), len(nodes), names, count)
	}
}

func contains(t testing.TB, text string, all ...string) {
	t.Helper()
	for _, s := range all {
		if !strings.Contains(text, s) {
			t.Errorf("%q does not say %q", text, s)
		}
	}
}

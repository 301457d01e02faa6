package server_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"berth"
	"berth/internal/invariant"
	"berth/internal/leader/collector"
	"berth/internal/schedule"
	"berth/internal/server"
	"berth/internal/state"
	"berth/op"

	nomad "github.com/hashicorp/nomad/api"
)

// says lets a node say of all its allocations how they fare.
func (x *node) says(status berth.ClientStatus) {
	x.t.Helper()
	var pulled op.NodeAllocIndexesAnswer
	x.call("Node.GetClientAllocs", &op.NodeAllocIndexes{NodeID: x.ID, SecretID: x.SecretID}, &pulled)
	report := &op.ReportAllocs{Write: op.Write{AuthToken: x.SecretID}}
	for id := range pulled.Allocs {
		full, _ := berth.ParseID[berth.Alloc](id)
		report.Alloc = append(report.Alloc, &op.AllocReport{ID: full, NodeID: x.ID, ClientStatus: status})
	}
	x.call("Node.UpdateAlloc", report, &op.WriteAnswer{})
}

// rows counts what there is, without core evaluations.
func (r *running) rows() (jobs, evals, allocs int) {
	r.t.Helper()
	s := r.server.Store().Snapshot()
	for _, v := range invariant.Check(s) {
		r.t.Error(v)
	}
	for e := range s.Evals() {
		if e.Type != berth.TypeCore {
			evals++
		}
	}
	return s.Count(state.Jobs), evals, s.Count(state.Allocs)
}

// A collection that a user forces with Nomad's Go client deletes a stopped job
// with all that belonged to it, and nothing of one that runs. The node hears
// that its allocations are gone.
func TestForcedCollection(t *testing.T) {
	dir := t.TempDir()
	r := start(t, dir)
	n := r.node(1)
	reg := must[*nomad.JobRegisterResponse, *nomad.WriteMeta](t)
	for _, job := range []*nomad.Job{atOnce(sleeper("web", 2)), atOnce(sleeper("db", 1))} {
		r.settled(reg(r.api.Jobs().Register(job, nil)).EvalID)
	}
	n.says(berth.ClientRunning)
	stop := must[string, *nomad.WriteMeta](t)
	r.settled(stop(r.api.Jobs().Deregister("web", false, nil)))
	if err := r.api.System().GarbageCollect(); err != nil {
		t.Fatal(err)
	}
	r.collected(1)
	if jobs, _, allocs := r.rows(); jobs != 2 || allocs != 3 {
		t.Errorf("while tasks run: %d jobs, %d allocations", jobs, allocs)
	}
	var pulled op.NodeAllocIndexesAnswer
	n.call("Node.GetClientAllocs", &op.NodeAllocIndexes{NodeID: n.ID, SecretID: n.SecretID}, &pulled)
	report := &op.ReportAllocs{Write: op.Write{AuthToken: n.SecretID}}
	for a := range r.server.Store().Snapshot().Allocs() {
		if a.Job.ID == "web" {
			report.Alloc = append(report.Alloc, &op.AllocReport{ID: a.ID, NodeID: n.ID, ClientStatus: berth.ClientComplete})
		}
	}
	n.call("Node.UpdateAlloc", report, &op.WriteAnswer{})

	// The node waits for news, and hears of what is gone.
	heard := make(chan op.NodeAllocIndexesAnswer, 1)
	go func() {
		var next op.NodeAllocIndexesAnswer
		if err := n.session.Call(t.Context(), "Node.GetClientAllocs", &op.NodeAllocIndexes{
			NodeID: n.ID, SecretID: n.SecretID, Query: op.Query{MinQueryIndex: pulled.Index, MaxQueryTime: op.MaxWait},
		}, &next); err != nil {
			t.Error(err)
		}
		heard <- next
	}()
	if err := r.api.System().GarbageCollect(); err != nil {
		t.Fatal(err)
	}
	e := r.collected(2)
	if e.StatusDescription != "deleted 1 job, 2 allocations, 1 evaluation" || e.Cause.Kind != berth.CauseUser || e.TriggeredBy != "scheduled" {
		t.Errorf("the core evaluation is %+v", e)
	}
	if jobs, evals, allocs := r.rows(); jobs != 1 || evals != 1 || allocs != 1 {
		t.Errorf("%d jobs, %d evaluations, %d allocations are left", jobs, evals, allocs)
	}
	if next := <-heard; len(next.Allocs) != 1 || next.Index <= pulled.Index {
		t.Errorf("the node hears %+v after %d", next, pulled.Index)
	}
	_, _, err := r.api.Jobs().Info("web", nil)
	refused(t, "the job that went", err, http.StatusNotFound, "")
	// The collector's own evaluations are in nobody's namespace.
	list, _, err := r.api.Evaluations().List(nil)
	if err != nil || len(list) != 1 {
		t.Errorf("the list of evaluations is %v, %v", list, err)
	}
	list, _, err = r.api.Evaluations().List(&nomad.QueryOptions{Namespace: "*"})
	if err != nil || len(list) != 3 {
		t.Errorf("across namespaces there are %d evaluations, %v", len(list), err)
	}
	r.stop()
	again := start(t, dir)
	if jobs, evals, allocs := again.rows(); jobs != 1 || evals != 1 || allocs != 1 {
		t.Errorf("after a restart: %d jobs, %d evaluations, %d allocations", jobs, evals, allocs)
	}
}

// collected waits until n forced collections have ended and returns the last.
func (r *running) collected(n int) (last *berth.Eval) {
	r.t.Helper()
	r.until("the collection has ended", func() bool {
		ended := 0
		for e := range r.server.Store().Snapshot().EvalsOf(berth.CoreKey(true)) {
			if !e.Terminal() {
				return false
			}
			if ended++; last == nil || e.CreateIndex > last.CreateIndex {
				last = e
			}
		}
		return ended == n
	})
	return last
}

// With short ages a server tidies up by itself.
func TestCollectionByTime(t *testing.T) {
	r := startWith(t, t.TempDir(), func(c *server.Config) {
		age := 10 * time.Millisecond
		c.Collect = collector.Options{Interval: 20 * time.Millisecond, Ages: schedule.Ages{Evals: age, BatchEvals: age, Jobs: age, Nodes: age, Deployments: age}}
	})
	n := r.node(1)
	reg := must[*nomad.JobRegisterResponse, *nomad.WriteMeta](t)
	job := sleeper("sum", 3)
	job.Type = new("batch")
	reg(r.api.Jobs().Register(job, nil))
	r.until("it is placed", func() bool { _, _, allocs := r.rows(); return allocs == 3 })
	n.says(berth.ClientComplete)
	r.until("the batch job that is done is gone", func() bool {
		jobs, evals, allocs := r.rows()
		return jobs+evals+allocs == 0
	})
}

// Evaluations that ended and that nothing needs are deleted by ID, or by a
// filter; what is needed is refused with the reason, or left out.
func TestDeleteEvals(t *testing.T) {
	r := start(t, t.TempDir())
	r.node(1)
	reg := must[*nomad.JobRegisterResponse, *nomad.WriteMeta](t)
	web := r.settled(reg(r.api.Jobs().Register(sleeper("web", 1), nil)).EvalID)
	var idle []string
	for range 3 {
		idle = append(idle, r.settled(reg(r.api.Jobs().Register(sleeper("web", 1), nil)).EvalID).ID)
	}
	big := sleeper("big", 1)
	big.TaskGroups[0].Tasks[0].Resources = &nomad.Resources{CPU: new(100_000)}
	blocked := r.settled(reg(r.api.Jobs().Register(big, nil)).EvalID)
	evals := r.api.Evaluations()

	for what, c := range map[string]struct {
		in   *nomad.EvalDeleteRequest
		code int
		text string
	}{
		"one that placed what runs":       {&nomad.EvalDeleteRequest{EvalIDs: []string{idle[0], web.ID}}, http.StatusConflict, "belongs to it"},
		"one that leads to a blocked one": {&nomad.EvalDeleteRequest{EvalIDs: []string{blocked.ID}}, http.StatusConflict, "to which it leads, is blocked"},
		"an open one":                     {&nomad.EvalDeleteRequest{EvalIDs: []string{blocked.BlockedEval}}, http.StatusConflict, "it is blocked"},
		"none":                            {&nomad.EvalDeleteRequest{}, http.StatusBadRequest, "one of them"},
		"both ways":                       {&nomad.EvalDeleteRequest{EvalIDs: idle, Filter: `Status == "complete"`}, http.StatusBadRequest, "one of them"},
		"one that is not there":           {&nomad.EvalDeleteRequest{EvalIDs: []string{strings.Repeat("0", 8) + web.ID[8:]}}, http.StatusNotFound, "eval not found"},
		"what is no ID":                   {&nomad.EvalDeleteRequest{EvalIDs: []string{"x"}}, http.StatusBadRequest, "x"},
		"a filter that cannot be read":    {&nomad.EvalDeleteRequest{Filter: `Status ==`}, http.StatusBadRequest, "filter"},
	} {
		_, _, err := evals.DeleteOpts(c.in, nil)
		refused(t, what, err, c.code, c.text)
	}
	if _, n, _ := r.rows(); n != 6 {
		t.Fatalf("refused deletions left %d evaluations", n)
	}
	if _, err := evals.Delete(idle[:1], nil); err != nil {
		t.Fatal(err)
	}
	_, _, err := evals.Info(idle[0], nil)
	refused(t, "one that was deleted", err, http.StatusNotFound, "eval not found")
	out, _, err := evals.DeleteOpts(&nomad.EvalDeleteRequest{Filter: `JobID == "web"`}, nil)
	if err != nil || out.Count != 2 {
		t.Errorf("by a filter: %+v, %v", out, err)
	}
	if _, n, _ := r.rows(); n != 3 {
		t.Errorf("%d evaluations are left", n)
	}
}

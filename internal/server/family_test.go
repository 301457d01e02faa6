package server_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"berth/internal/invariant"
	"berth/op"

	nomad "github.com/hashicorp/nomad/api"
)

func batch(id string) *nomad.Job {
	task := nomad.NewTask("app", "raw_exec").SetConfig("command", "/bin/true")
	return nomad.NewBatchJob(id, id, "global", 50).AddTaskGroup(nomad.NewTaskGroup("g", 1).AddTask(task))
}

func ptr[T any](v T) *T { return &v }

// A job that is due every second is launched by the leader, and when the server
// was away it goes on.
func TestPeriodicJob(t *testing.T) {
	dir := t.TempDir()
	r := start(t, dir)
	r.node(1)
	job := batch("tick").AddPeriodicConfig(&nomad.PeriodicConfig{Spec: ptr("* * * * * * *"), SpecType: ptr("cron"), ProhibitOverlap: ptr(true)})
	reg, _, err := r.api.Jobs().Register(job, nil)
	if err != nil || reg.EvalID != "" {
		t.Fatal(reg, err)
	}
	before := time.Now()
	plan, _, err := r.api.Jobs().Plan(job, true, nil)
	earliest, _ := job.Periodic.Next(before.Add(-time.Second))
	latest, _ := job.Periodic.Next(time.Now())
	if err != nil || plan.NextPeriodicLaunch.Before(earliest) || plan.NextPeriodicLaunch.After(latest) {
		t.Errorf("the next launch is %v, %v", plan, err)
	}
	children := func(r *running) *nomad.JobChildrenSummary {
		sum, _, err := r.api.Jobs().Summary("tick", nil)
		if err != nil {
			t.Fatal(err)
		}
		return sum.Children
	}
	r.until("a child runs", func() bool { return children(r).Running == 1 })
	list, _, err := r.api.Jobs().PrefixList("tick/periodic-")
	if err != nil || len(list) != 1 || list[0].ParentID != "tick" || list[0].Status != "running" || list[0].Periodic {
		t.Errorf("the children are %+v, %v", list, err)
	}
	evals, _, err := r.api.Jobs().Evaluations(list[0].ID, nil)
	if err != nil || len(evals) == 0 || evals[0].TriggeredBy != "periodic-job" {
		t.Errorf("the evaluations are %+v, %v", evals, err)
	}

	// By force there is another, though the first is not over.
	r.until("another is launched by force", func() bool {
		_, _, err := r.api.Jobs().PeriodicForce("tick", nil)
		return err == nil
	})
	if n := children(r); n.Sum() != 2 {
		t.Errorf("the children are %+v", n)
	}
	parent, _, err := r.api.Jobs().Info("tick", nil)
	if err != nil || *parent.Status != "running" || *parent.Periodic.Spec != "* * * * * * *" {
		t.Errorf("the parent is %+v, %v", parent, err)
	}
	r.stop()

	again := start(t, dir)
	if n := children(again); n.Sum() != 2 {
		t.Errorf("after a restart the children are %+v", n)
	}
	if _, _, err := again.api.Jobs().Deregister(list[0].ID, false, nil); err != nil {
		t.Fatal(err)
	}
	if _, _, err := again.api.Jobs().Deregister("tick", false, nil); err != nil {
		t.Fatal(err)
	}
	if _, _, err := again.api.Jobs().PeriodicForce("tick", nil); err == nil || !strings.Contains(err.Error(), "was stopped, so it launches nothing") {
		t.Error(err)
	}
	if _, _, err := again.api.Jobs().PeriodicForce("nope", nil); err == nil || !strings.Contains(err.Error(), "404") {
		t.Error(err)
	}
	for _, v := range invariant.Check(again.server.Store().Snapshot()) {
		t.Error(v)
	}
}

// A child has what it was dispatched with, also on its node; many dispatches of
// one token at a time are one.
func TestDispatchedJob(t *testing.T) {
	r := start(t, t.TempDir())
	n := r.node(1)
	job := batch("encode")
	job.ParameterizedJob = &nomad.ParameterizedJobConfig{Payload: "required", MetaRequired: []string{"day"}}
	job.TaskGroups[0].Tasks[0].DispatchPayload = &nomad.DispatchPayloadConfig{File: "film"}
	if reg, _, err := r.api.Jobs().Register(job, nil); err != nil || reg.EvalID != "" {
		t.Fatal(reg, err)
	}
	out, _, err := r.api.Jobs().Dispatch("encode", map[string]string{"day": "1"}, []byte("a train"), "eu", nil)
	if err != nil || !strings.HasPrefix(out.DispatchedJobID, "encode/dispatch-eu-") || out.EvalID == "" || out.EvalCreateIndex != out.JobCreateIndex {
		t.Fatalf("%+v, %v", out, err)
	}
	r.settled(out.EvalID)
	child, _, err := r.api.Jobs().Info(out.DispatchedJobID, nil)
	if err != nil || string(child.Payload) != "a train" || !child.Dispatched || child.Meta["day"] != "1" || *child.ParentID != "encode" || *child.Status != "running" {
		t.Errorf("the child is %+v, %v", child, err)
	}
	var pulled op.NodeAllocIndexesAnswer
	n.call("Node.GetClientAllocs", &op.NodeAllocIndexes{NodeID: n.ID, SecretID: n.SecretID}, &pulled)
	var ids []string
	for id := range pulled.Allocs {
		ids = append(ids, id)
	}
	var fetched op.GetAllocsAnswer
	n.call("Alloc.GetAllocs", &op.GetAllocs{AllocIDs: ids, Query: op.Query{AuthToken: n.SecretID, MinQueryIndex: pulled.Index}}, &fetched)
	if len(fetched.Allocs) != 1 || string(fetched.Allocs[0].Job.Payload) != "a train" || fetched.Allocs[0].Job.TaskGroups[0].Tasks[0].DispatchPayload.File != "film" {
		t.Errorf("the node fetched %+v", fetched.Allocs)
	}

	var all sync.WaitGroup
	answers := make([]*nomad.JobDispatchResponse, 20)
	for i := range answers {
		all.Go(func() {
			out, _, err := r.api.Jobs().Dispatch("encode", map[string]string{"day": "2"}, []byte("x"), "", &nomad.WriteOptions{IdempotencyToken: "once"})
			if err != nil {
				t.Error(err)
				return
			}
			answers[i] = out
		})
	}
	all.Wait()
	for _, a := range answers {
		if a == nil || a.DispatchedJobID != answers[0].DispatchedJobID || a.EvalID != answers[0].EvalID || a.EvalID == "" || a.JobCreateIndex != answers[0].JobCreateIndex {
			t.Errorf("%+v is not %+v", a, answers[0])
		}
	}
	if sum, _, err := r.api.Jobs().Summary("encode", nil); err != nil || sum.Children.Sum() != 2 {
		t.Errorf("the children are %+v, %v", sum, err)
	}
	for _, c := range []struct {
		payload, prefix, want string
		meta                  map[string]string
		priority              int
	}{
		{"", "", "Payload: is missing; the job requires one", map[string]string{"day": "1"}, 0},
		{"x", "", "Meta: the job requires day", nil, 0},
		{"x", "", "Meta: unknown keys hour: want day", map[string]string{"day": "1", "hour": "2"}, 0},
		{strings.Repeat("x", 16385), "", "Payload: must be at most 16384 bytes, got 16385", map[string]string{"day": "1"}, 0},
		{"x", "a b", `IdPrefixTemplate: "a b" contains a space or a non-printable character`, map[string]string{"day": "1"}, 0},
		{"x", "", "Priority: must be from 1 to 100, got 101", map[string]string{"day": "1"}, 101},
	} {
		_, _, err := r.api.Jobs().DispatchOpts(&nomad.DispatchOptions{JobID: "encode", Meta: c.meta, Payload: []byte(c.payload), IdPrefixTemplate: c.prefix, Priority: c.priority}, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "400") {
			t.Errorf("%v, want %q", err, c.want)
		}
	}

	// Nobody makes a child by hand.
	job.Dispatched, job.Payload, job.ParentID, job.ID = true, []byte("x"), ptr("encode"), ptr("fake")
	if reg, _, err := r.api.Jobs().Register(job, nil); err != nil || reg.EvalID != "" {
		t.Errorf("%+v, %v", reg, err)
	}
	if fake, _, err := r.api.Jobs().Info("fake", nil); err != nil || fake.Dispatched || fake.Payload != nil || *fake.ParentID != "" {
		t.Errorf("by hand: %+v, %v", fake, err)
	}
	for _, v := range invariant.Check(r.server.Store().Snapshot()) {
		t.Error(v)
	}
}

package server_test

import (
	"strings"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
)

// Namespaces through Nomad's Go client: made, shown, restricting jobs, deleted;
// and what one of them has is not seen in another.
func TestNamespacesThroughTheGoClient(t *testing.T) {
	r := start(t, t.TempDir())
	spaces := r.api.Namespaces()
	in := &nomad.Namespace{
		Name: "team-a", Description: "Team A", Meta: map[string]string{"owner": "ann"},
		Capabilities: &nomad.NamespaceCapabilities{DisabledTaskDrivers: []string{"docker"}},
	}
	if wm, err := spaces.Register(in, nil); err != nil || wm.LastIndex == 0 {
		t.Fatal(wm, err)
	}
	if _, err := r.api.NodePools().Register(&nomad.NodePool{Name: "gpu"}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := spaces.Register(&nomad.Namespace{Name: "team-b", NodePoolConfiguration: &nomad.NamespaceNodePoolConfiguration{Default: "gpu"}}, nil); err != nil {
		t.Fatal(err)
	}
	a, meta, err := spaces.Info("team-a", nil)
	if err != nil || a.Description != "Team A" || a.Meta["owner"] != "ann" || a.Capabilities.DisabledTaskDrivers[0] != "docker" || meta.LastIndex != a.ModifyIndex {
		t.Fatalf("the namespace is %+v (%v)", a, err)
	}
	all, _, err := spaces.List(nil)
	if err != nil || len(all) != 3 {
		t.Fatalf("there are %d (%v)", len(all), err)
	}
	for _, n := range all {
		if n.Name != "default" && n.Name != "team-a" && n.Name != "team-b" {
			t.Errorf("there is %q", n.Name)
		}
	}

	// The same ID in two namespaces: two jobs, which share nothing.
	job := func(driver string) *nomad.Job {
		task := nomad.NewTask("t", driver)
		g := nomad.NewTaskGroup("g", 1).AddTask(task)
		id := "web"
		return &nomad.Job{ID: &id, Name: &id, TaskGroups: []*nomad.TaskGroup{g}}
	}
	in1, in2 := &nomad.WriteOptions{Namespace: "team-a"}, &nomad.WriteOptions{Namespace: "team-b"}
	q1, q2 := &nomad.QueryOptions{Namespace: "team-a"}, &nomad.QueryOptions{Namespace: "team-b"}
	for range 2 {
		if _, _, err := r.api.Jobs().Register(job("mock_driver"), in1); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := r.api.Jobs().Register(job("mock_driver"), in2); err != nil {
		t.Fatal(err)
	}
	one, _, err := r.api.Jobs().Info("web", q1)
	if err != nil || *one.Namespace != "team-a" || *one.NodePool != "default" {
		t.Fatalf("%+v (%v)", one, err)
	}
	two, _, err := r.api.Jobs().Info("web", q2)
	if err != nil || *two.Namespace != "team-b" || *two.NodePool != "gpu" || *two.CreateIndex == *one.CreateIndex {
		t.Fatalf("%+v (%v)", two, err)
	}
	if _, _, err := r.api.Jobs().Info("web", nil); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("a job of other namespaces is in the default one: %v", err)
	}
	evals := func(q *nomad.QueryOptions) (n int) {
		list, _, err := r.api.Jobs().Evaluations("web", q)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			if e.Namespace != q.Namespace {
				t.Errorf("an evaluation of %s is listed in %s", e.Namespace, q.Namespace)
			}
		}
		return len(list)
	}
	if n1, n2 := evals(q1), evals(q2); n1 == 0 || n2 == 0 {
		t.Errorf("%d and %d evaluations", n1, n2)
	}
	if list, _, err := r.api.Jobs().List(&nomad.QueryOptions{Namespace: "*"}); err != nil || len(list) != 2 {
		t.Errorf("in all namespaces there are %d jobs (%v)", len(list), err)
	}
	if list, _, err := r.api.Jobs().List(nil); err != nil || len(list) != 0 {
		t.Errorf("in the default namespace there are %d jobs (%v)", len(list), err)
	}

	// What is not allowed is refused, and so is the deletion of what is used.
	in.Capabilities.DisabledTaskDrivers = []string{"mock_driver"}
	if _, err := spaces.Register(in, nil); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.api.Jobs().Register(job("mock_driver"), in1); err == nil || !strings.Contains(err.Error(), `does not allow driver "mock_driver"`) {
		t.Errorf("a driver that team-a may not use: %v", err)
	}
	if _, err := spaces.Delete("team-a", nil); err == nil || !strings.Contains(err.Error(), "it has 1 job (web)") {
		t.Errorf("a namespace that is used was deleted: %v", err)
	}
	if _, _, err := r.api.Jobs().Deregister("web", true, in1); err != nil {
		t.Fatal(err)
	}
	if _, err := spaces.Delete("team-a", nil); err != nil {
		t.Error(err)
	}
	if _, _, err := r.api.Jobs().Info("web", q2); err != nil {
		t.Errorf("the job of the other namespace: %v", err)
	}
	if _, err := spaces.Delete("default", nil); err == nil {
		t.Error("the default namespace was deleted")
	}
}

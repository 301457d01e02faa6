package server_test

import (
	"encoding/json"
	"slices"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
)

// Fields that clients read are not empty where the state knows what they should be.
func TestFieldsThatClientsRead(t *testing.T) {
	r := start(t, t.TempDir())
	r.node(1)
	reg, _, err := r.api.Jobs().Register(sleeper("web", 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.settled(reg.EvalID)
	get := func(path string) (out map[string]any) {
		t.Helper()
		if _, err := r.api.Raw().Query(path, &out, nil); err != nil {
			t.Fatal(path, err)
		}
		return out
	}
	allocs, _, err := r.api.Jobs().Allocations("web", false, nil)
	if err != nil || len(allocs) != 1 {
		t.Fatal(allocs, err)
	}
	if shared, _ := get("/v1/allocation/" + allocs[0].ID)["SharedResources"].(map[string]any); shared["DiskMB"] != 300.0 {
		t.Errorf("SharedResources: %v", shared)
	}
	if class, _ := get("/v1/node/" + allocs[0].NodeID)["ComputedClass"].(string); class == "" {
		t.Error("a node has no ComputedClass")
	}
	if queued, ok := get("/v1/evaluation/" + reg.EvalID)["QueuedAllocations"].(map[string]any); !ok || len(queued) != 0 {
		t.Errorf("QueuedAllocations: %v, want an empty map", queued)
	}
	nodes, _, err := r.api.Nodes().List(&nomad.QueryOptions{Filter: "ComputedClass != \"\""})
	if err != nil || len(nodes) != 1 {
		t.Errorf("filter by ComputedClass: %v, %v", nodes, err)
	}

	// With resources, a list says what each allocation was given.
	stubs, _, err := r.api.Allocations().List(&nomad.QueryOptions{Params: map[string]string{"resources": "true"}})
	if err != nil || len(stubs) != 1 || stubs[0].AllocatedResources == nil || stubs[0].AllocatedResources.Shared.DiskMB != 300 {
		t.Errorf("%+v, %v", stubs, err)
	}
	// An allocation that a user stops is to move.
	a, _, err := r.api.Allocations().Info(allocs[0].ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.api.Allocations().Stop(a, nil); err != nil {
		t.Fatal(err)
	}
	if a, _, err = r.api.Allocations().Info(allocs[0].ID, nil); err != nil || !a.DesiredTransition.ShouldMigrate() {
		t.Errorf("after alloc stop: %+v, %v", a.DesiredTransition, err)
	}
}

// The types of workers are those that clients know, unless one alone is asked for.
func TestWorkersHaveTypesThatClientsKnow(t *testing.T) {
	r := start(t, t.TempDir())
	args, err := r.api.Agent().GetSchedulerWorkerConfig(nil)
	if err != nil || slices.Contains(args.EnabledSchedulers, "stream") || len(args.EnabledSchedulers) != 5 {
		t.Errorf("%+v, %v", args, err)
	}
	// A server leads a moment before its workers are there.
	var info *nomad.AgentSchedulerWorkersInfo
	r.until("there are workers", func() bool {
		info, err = r.api.Agent().GetSchedulerWorkersInfo(nil)
		return err != nil || len(info.Schedulers) > 0
	})
	if err != nil || slices.Contains(info.Schedulers[0].EnabledSchedulers, "stream") {
		t.Fatalf("%+v, %v", info, err)
	}
	args.EnabledSchedulers = []string{"stream"}
	if args, err = r.api.Agent().SetSchedulerWorkerConfig(*args, nil); err != nil || !slices.Contains(args.EnabledSchedulers, "stream") {
		t.Errorf("%+v, %v", args, err)
	}
}

// A job is parsed also without groups, but not registered.
func TestAJobWithoutGroupsIsParsed(t *testing.T) {
	r := start(t, t.TempDir())
	j, err := r.api.Jobs().ParseHCL(`job "bare" { priority = 70 }`, true)
	if err != nil || *j.ID != "bare" || *j.Priority != 70 {
		b, _ := json.Marshal(j)
		t.Fatalf("%s, %v", b, err)
	}
	if _, _, err := r.api.Jobs().Register(j, nil); err == nil {
		t.Error("a job without groups was registered")
	}
	if _, err := r.api.Jobs().ParseHCL(`job "bare" { priority = 0.5 }`, true); err == nil {
		t.Error("a job that is wrong otherwise was parsed")
	}
}

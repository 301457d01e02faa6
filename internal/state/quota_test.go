package state_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"berth"
	"berth/internal/invariant"
	"berth/internal/quota"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// quotaOf returns the command that makes a quota for this region.
func quotaOf(name string, r berth.QuotaResources) *state.UpsertQuotas {
	return &state.UpsertQuotas{Region: "global", Quotas: []*berth.Quota{{Name: name, Limits: []*berth.QuotaLimit{{Region: "global", RegionLimit: &r}}}}}
}

func limited(quota string) *state.UpsertNamespaces {
	return &state.UpsertNamespaces{Namespaces: []*berth.Namespace{{Name: berth.DefaultNamespace, Quota: quota}}}
}

func amount(x int) *int { return &x }

// used returns what is used of a quota, of all of a kind in the region.
func used(t *testing.T, s *state.Snapshot, name string, kind quota.Kind) int64 {
	t.Helper()
	for _, v := range invariant.Check(s) {
		t.Error(v)
	}
	u := s.QuotaUsage(name)
	i := slices.IndexFunc(u.Lines, func(l quota.Line) bool { return l.Kind == kind && l.Pool == "" })
	return u.Used[i]
}

// A quota is checked where a plan is applied, whoever made the plan: of three
// placements two are committed, and the room of what has ended is given again.
func TestPlansKeepToQuotas(t *testing.T) {
	store, log := statetest.New(t, &state.BeginTerm{Term: 1}, statetest.AddNode(1, 10000, 10000), quotaOf("q", berth.QuotaResources{CPU: amount(250)}), limited("q"))
	job := statetest.Job(t, `{"ID":"web","TaskGroups":[{"Name":"g","Count":3,"Resources":{"CPU":100,"MemoryMB":10}}]}`)
	log.Must(t, statetest.Register(job, 1))
	plan := &state.ApplyPlan{Eval: statetest.ID[berth.Eval](1), Now: 100, End: &state.EvalEnd{Status: berth.EvalComplete}}
	for i := range uint32(3) {
		plan.Place = append(plan.Place, berth.Placement{NodeID: node(1), Index: i})
	}
	log.Must(t, plan)
	if len(plan.Refused) != 1 || plan.Refused[0].Kind != berth.RefusedQuota || plan.Refused[0].Reason != "quota q: cpu: 100 MHz asked, 50 of 250 MHz left" {
		t.Fatalf("refused: %+v", plan.Refused)
	}
	if got := used(t, store.Snapshot(), "q", quota.CPU); got != 200 {
		t.Errorf("%d MHz are used", got)
	}
	var a *berth.Alloc
	for a = range store.Snapshot().Allocs() {
	}
	// What is stopped counts until it has ended.
	log.Must(t, &state.StopAlloc{ID: a.ID, Eval: byUser(7, berth.TriggerAllocStop), Now: 200})
	if got := used(t, store.Snapshot(), "q", quota.CPU); got != 200 {
		t.Errorf("stopping: %d MHz are used", got)
	}
	log.Must(t, &state.ReportAllocs{Node: a.NodeID, Updates: []state.AllocUpdate{{ID: a.ID, Client: berth.ClientComplete}}, Now: 300})
	if got := used(t, store.Snapshot(), "q", quota.CPU); got != 100 {
		t.Errorf("after one has ended, %d MHz are used", got)
	}
	// Saved and loaded, nothing is different.
	var saved bytes.Buffer
	if err := store.Snapshot().Save(&saved); err != nil {
		t.Fatal(err)
	}
	loaded, err := state.Load(&saved)
	if err != nil || loaded.Hash() != store.Snapshot().Hash() || used(t, loaded, "q", quota.CPU) != 100 || loaded.QuotaUsage("q").Index != store.Snapshot().QuotaUsage("q").Index {
		t.Errorf("loaded: %v", err)
	}
}

// Quotas limit jobs and variables when they are written.
func TestQuotasOfJobsAndVariables(t *testing.T) {
	store, log := statetest.New(t, &state.BeginTerm{Term: 1}, &state.AddRootKey{Key: rootKey(1, berth.KeyActive), First: true},
		quotaOf("q", berth.QuotaResources{Jobs: amount(1), Storage: &berth.QuotaStorage{VariablesMB: 1}}), limited("q"))
	register := func(id string, eval int) *state.RegisterJob {
		return statetest.Register(statetest.Job(t, `{"ID":"`+id+`","TaskGroups":[{"Name":"g","Count":1}]}`), eval)
	}
	log.Must(t, register("a", 1))
	log.Must(t, register("a", 2)) // it counts already
	if _, err := log.Propose(t.Context(), register("b", 3)); berth.KindOf(err) != berth.Denied || !strings.Contains(err.Error(), `quota "q" leaves no room: jobs: 1 asked, 0 of 1 left`) {
		t.Errorf("a second job: %v", err)
	}
	log.Must(t, &state.StopJob{Key: berth.JobKey{Namespace: "default", ID: "a"}, Eval: byUser(8, berth.TriggerJobDeregister), Now: 1})
	log.Must(t, register("b", 4))
	if refusal(t, log, register("a", 5)) != berth.Denied {
		t.Error("a stopped job starts again without room")
	}
	if got := used(t, store.Snapshot(), "q", quota.Jobs); got != 1 {
		t.Errorf("%d jobs are counted", got)
	}
	write := func(path string, bytes int) *state.PutVariable {
		p := put(path, 1)
		p.Data = make([]byte, bytes)
		return p
	}
	for i := range 4 {
		log.Must(t, write(string(rune('a'+i)), 250<<10))
	}
	if refusal(t, log, write("e", 25<<10)) != berth.Denied || refusal(t, log, write("a", 300<<10)) != berth.Denied {
		t.Error("variables take more than the quota has")
	}
	log.Must(t, write("a", 10))
	log.Must(t, &state.DeleteVariable{Namespace: "default", Path: "b"})
	log.Must(t, write("e", 250<<10))
	if got := used(t, store.Snapshot(), "q", quota.Variables); got != 3*250<<10+10 {
		t.Errorf("%d bytes are counted", got)
	}
}

// What is used follows when a namespace names another quota, or none, and a quota
// that is named stays.
func TestQuotasOfNamespaces(t *testing.T) {
	store, log := statetest.New(t, &state.BeginTerm{Term: 1}, quotaOf("q", berth.QuotaResources{}), quotaOf("p", berth.QuotaResources{Jobs: amount(5)}), limited("q"))
	log.Must(t, statetest.Register(statetest.Job(t, `{"ID":"a","TaskGroups":[{"Name":"g","Count":1}]}`), 1))
	for _, x := range []struct {
		quota string
		q, p  int64
	}{{"q", 1, 0}, {"p", 0, 1}, {"", 0, 0}, {"p", 0, 1}} {
		log.Must(t, limited(x.quota))
		if s := store.Snapshot(); used(t, s, "q", quota.Jobs) != x.q || used(t, s, "p", quota.Jobs) != x.p {
			t.Errorf("named %q: %+v %+v", x.quota, s.QuotaUsage("q"), s.QuotaUsage("p"))
		}
	}
	if refusal(t, log, &state.DeleteQuotas{Names: []string{"p"}}) != berth.Conflict || refusal(t, log, limited("none")) != berth.Invalid {
		t.Error("a quota that is named is deleted, or one that is not there is named")
	}
	log.Must(t, &state.DeleteQuotas{Names: []string{"q"}})
	bad := quotaOf("q", berth.QuotaResources{SecretsMB: amount(3), NodePools: []*berth.QuotaResources{{NodePool: "a"}, {NodePool: "a"}}, Devices: []*berth.RequestedDevice{{Name: "a b"}}})
	_, err := log.Propose(t.Context(), bad)
	for _, want := range []string{"RegionLimit.SecretsMB: is not supported", `NodePools[1].NodePool: node pool "a" has two limits`, "Devices[0].Name: must be type, vendor/type or vendor/type/name"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

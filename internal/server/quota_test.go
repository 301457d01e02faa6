package server_test

import (
	"strings"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
)

// Quotas through Nomad's Go client: made, named by a namespace, enforced on what
// is placed, shown with what is used, and waited for.
func TestQuotasThroughTheGoClient(t *testing.T) {
	r := start(t, t.TempDir())
	r.node(1)
	quotas := r.api.Quotas()
	number := func(n int) *int { return &n }
	spec := &nomad.QuotaSpec{Name: "team", Description: "the team's", Limits: []*nomad.QuotaLimit{{
		Region: "global", RegionLimit: &nomad.QuotaResources{CPU: number(250), MemoryMB: number(2000), Storage: &nomad.QuotaStorageResources{VariablesMB: 1}},
	}}}
	if wm, err := quotas.Register(spec, nil); err != nil || wm.LastIndex == 0 {
		t.Fatal(wm, err)
	}
	if _, err := r.api.Namespaces().Register(&nomad.Namespace{Name: "default", Quota: "nope"}, nil); err == nil || !strings.Contains(err.Error(), `Quota: quota "nope" not found`) {
		t.Errorf("a namespace names a quota that is not there: %v", err)
	}
	if _, err := r.api.Namespaces().Register(&nomad.Namespace{Name: "default", Quota: "team"}, nil); err != nil {
		t.Fatal(err)
	}
	got, _, err := quotas.Info("team", nil)
	if err != nil || got.Description != "the team's" || *got.Limits[0].RegionLimit.CPU != 250 || len(got.Limits[0].Hash) == 0 {
		t.Fatalf("%+v, %v", got, err)
	}
	// Two of three instances are placed; the third waits, and says for what.
	plan, _, err := r.api.Jobs().Plan(takes("web", 3, 100), false, nil)
	if why := plan.FailedTGAllocs["g"]; err != nil || why == nil || len(why.QuotaExhausted) != 1 || why.QuotaExhausted[0] != "cpu: 100 MHz asked, 50 of 250 MHz left" {
		t.Fatalf("planned: %+v, %v", plan.FailedTGAllocs, err)
	}
	first := r.becomes(r.register(takes("web", 3, 100)), "complete")
	waits := r.eval("web", "queued-allocs")
	if waits.QuotaLimitReached != "team" || first.QuotaLimitReached != "team" || waits.Status != "blocked" || first.BlockedEval != waits.ID {
		t.Errorf("%+v and %+v", first, waits)
	}
	u, meta, err := quotas.Usage("team", nil)
	if err != nil || len(u.Used) != 1 || meta.LastIndex == 0 {
		t.Fatalf("%+v, %v", u, err)
	}
	for _, l := range u.Used {
		if *l.RegionLimit.CPU != 200 || l.Region != "global" {
			t.Errorf("%d MHz are used in %s", *l.RegionLimit.CPU, l.Region)
		}
	}
	// A larger limit wakes it.
	spec.Limits[0].RegionLimit.CPU = number(300)
	if _, err := quotas.Register(spec, nil); err != nil {
		t.Fatal(err)
	}
	r.becomes(waits.ID, "complete")
	if _, err := quotas.Delete("team", nil); err == nil || !strings.Contains(err.Error(), "it limits 1 namespace (default)") {
		t.Errorf("a quota that is named is deleted: %v", err)
	}
	if _, err := r.api.Namespaces().Register(&nomad.Namespace{Name: "default"}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := quotas.Delete("team", nil); err != nil {
		t.Error(err)
	}
	if all, _, err := quotas.List(nil); err != nil || len(all) != 0 {
		t.Errorf("%d are left, %v", len(all), err)
	}
}

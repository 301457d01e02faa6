package server_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
)

// A plan as Nomad's Go client sees it: what differs, what would be done, what
// would find no place, and that nothing is written.
func TestPlanThroughTheClient(t *testing.T) {
	r := start(t, t.TempDir())
	jobs := r.api.Jobs()
	plan := func(j *nomad.Job) *nomad.JobPlanResponse {
		t.Helper()
		out, _, err := jobs.PlanOpts(j, &nomad.PlanOptions{Diff: true}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}

	// Without a node nothing has a place, and what waits is told.
	p := plan(sleeper("web", 2))
	if p.JobModifyIndex != 0 || p.Diff.Type != "Added" || p.Diff.ID != "web" || p.FailedTGAllocs["g"].CoalescedFailures != 1 {
		t.Errorf("without a node: %+v", p)
	}
	if len(p.CreatedEvals) != 1 || p.CreatedEvals[0].Status != "blocked" || p.CreatedEvals[0].TriggeredBy != "queued-allocs" || p.CreatedEvals[0].JobID != "web" {
		t.Errorf("what waits is %+v", p.CreatedEvals)
	}

	r.node(1)
	p = plan(sleeper("web", 2))
	g := p.Diff.TaskGroups[0]
	if *p.Annotations.DesiredTGUpdates["g"] != (nomad.DesiredUpdates{Place: 2}) || len(p.FailedTGAllocs) != 0 || len(p.CreatedEvals) != 0 {
		t.Errorf("a new job: %+v %+v", p, p.Annotations.DesiredTGUpdates["g"])
	}
	if g.Type != "Added" || g.Name != "g" || g.Updates["create"] != 2 || g.Tasks[0].Name != "app" || fmt.Sprint(g.Tasks[0].Annotations) != "[forces create]" {
		t.Errorf("the group is %+v", g)
	}
	if list, _, err := jobs.List(nil); err != nil || len(list) != 0 {
		t.Fatalf("a plan made %d jobs, %v", len(list), err)
	}
	if evals, _, err := r.api.Evaluations().List(nil); err != nil || len(evals) != 0 {
		t.Fatalf("a plan made %d evaluations, %v", len(evals), err)
	}

	// The index that it tells is the one to register with.
	reg, _, err := jobs.EnforceRegister(atOnce(sleeper("web", 2)), p.JobModifyIndex, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.settled(reg.EvalID)
	p = plan(atOnce(sleeper("web", 2)))
	if p.JobModifyIndex != reg.JobModifyIndex || p.Diff.Type != "None" || *p.Annotations.DesiredTGUpdates["g"] != (nomad.DesiredUpdates{Ignore: 2}) {
		t.Errorf("the same job: %+v %+v", p, p.Annotations.DesiredTGUpdates["g"])
	}

	// A change, field by field.
	other := atOnce(sleeper("web", 3))
	other.TaskGroups[0].Tasks[0].SetConfig("args", []string{"90"})
	p = plan(other)
	g = p.Diff.TaskGroups[0]
	if p.Diff.Type != "Edited" || g.Fields[0].Name != "Count" || g.Fields[0].Old != "2" || g.Fields[0].New != "3" || fmt.Sprint(g.Fields[0].Annotations) != "[forces create]" {
		t.Errorf("the difference is %+v", g.Fields[0])
	}
	config := g.Tasks[0].Objects[0]
	if config.Name != "Config" || config.Type != "Edited" || fmt.Sprint(*config.Fields[0]) != "{Edited args[0] 60 90 []}" {
		t.Errorf("the config is %+v, %+v", config, config.Fields[0])
	}
	if *p.Annotations.DesiredTGUpdates["g"] != (nomad.DesiredUpdates{Place: 1, DestructiveUpdate: 2}) {
		t.Errorf("what is to be done: %+v", p.Annotations.DesiredTGUpdates["g"])
	}
	if short, _, err := jobs.Plan(other, false, nil); err != nil || short.Diff != nil {
		t.Errorf("nobody asked what differs: %+v, %v", short.Diff, err)
	}

	// A stopped job starts again.
	if _, _, err := jobs.Deregister("web", false, nil); err != nil {
		t.Fatal(err)
	}
	r.until("it is stopped", func() bool {
		list, _, err := jobs.Allocations("web", false, nil)
		return err == nil && !slices.ContainsFunc(list, func(a *nomad.AllocationListStub) bool { return a.DesiredStatus == "run" })
	})
	p = plan(sleeper("web", 1))
	if p.Diff.Type != "Edited" || p.Diff.Fields[0].Name != "Stop" || p.Annotations.DesiredTGUpdates["g"].Place != 1 {
		t.Errorf("a stopped job: %+v", p.Diff)
	}
}

// What a registration refuses, a plan refuses, in the same words.
func TestPlanRefusesWhatRegistrationRefuses(t *testing.T) {
	r := start(t, t.TempDir())
	jobs := r.api.Jobs()
	region, space := "elsewhere", "nowhere"
	for name, change := range map[string]func(*nomad.Job){
		"no driver":       func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].Driver = "" },
		"count below 0":   func(j *nomad.Job) { n := -1; j.TaskGroups[0].Count = &n },
		"region":          func(j *nomad.Job) { j.Region = &region },
		"namespace":       func(j *nomad.Job) { j.Namespace = &space },
		"what is unbuilt": func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].Vault = &nomad.Vault{Role: "x"} },
	} {
		j := sleeper("web", 1)
		change(j)
		_, _, planned := jobs.Plan(j, true, nil)
		_, _, registered := jobs.Register(j, nil)
		if planned == nil || fmt.Sprint(planned) != fmt.Sprint(registered) {
			t.Errorf("%s: the plan says %v, the registration %v", name, planned, registered)
		}
	}
	if code, _, body := r.send("PUT", "/v1/job/other/plan", strings.NewReader(`{"Job":{"ID":"web","TaskGroups":[{"Name":"g","Tasks":[{"Name":"t","Driver":"mock_driver"}]}]}}`)); code != http.StatusBadRequest || !strings.Contains(body, "Job ID does not match") {
		t.Errorf("another ID in the path: %d %s", code, body)
	}
	conf, _, err := r.api.Operator().SchedulerGetConfiguration(nil)
	if err != nil {
		t.Fatal(err)
	}
	conf.SchedulerConfig.RejectJobRegistration = true
	if _, _, err := r.api.Operator().SchedulerSetConfiguration(conf.SchedulerConfig, nil); err != nil {
		t.Fatal(err)
	}
	_, _, err = jobs.Plan(sleeper("web", 1), true, nil)
	refused(t, "while registrations are rejected", err, http.StatusForbidden, "disabled by the scheduler configuration")
}

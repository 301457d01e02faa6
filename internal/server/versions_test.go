package server_test

import (
	"fmt"
	"strings"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
)

// counts returns the versions of a job that are kept, with the count of the
// first group of each, newest first.
func (r *running) counts(job string) string {
	r.t.Helper()
	list, _, _, err := r.api.Jobs().Versions(job, false, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	var out []string
	for _, v := range list {
		out = append(out, fmt.Sprintf("%d:%d", *v.Version, *v.TaskGroups[0].Count))
	}
	return strings.Join(out, " ")
}

func wantError(t testing.TB, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("%v; wanted is %q", err, text)
	}
}

// The history of a job, through Nomad's Go client: versions and what differs,
// going back, marking and naming.
func TestVersionsOfAJob(t *testing.T) {
	r := start(t, t.TempDir())
	r.node(1)
	jobs := r.api.Jobs()
	first := takes("web", 1, 100)
	_, _, err := jobs.RegisterOpts(first, &nomad.RegisterOptions{Submission: &nomad.JobSubmission{Source: "job {}", Format: "hcl2"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.register(takes("web", 2, 100))
	if got := r.counts("web"); got != "1:2 0:1" {
		t.Errorf("the versions are %s", got)
	}
	_, diffs, _, err := jobs.Versions("web", true, nil)
	if err != nil || len(diffs) != 1 || diffs[0].Type != "Edited" || diffs[0].TaskGroups[0].Fields[0].Name != "Count" {
		t.Errorf("%v, %v", diffs, err)
	}
	base := uint64(0)
	_, diffs, _, err = jobs.VersionsOpts("web", &nomad.VersionsOptions{Diffs: true, DiffVersion: &base}, nil)
	if err != nil || len(diffs) != 2 || diffs[0].Type != "Edited" || diffs[1].Type != "None" {
		t.Errorf("%v, %v", diffs, err)
	}
	_, _, _, err = jobs.VersionsOpts("web", &nomad.VersionsOptions{Diffs: true, DiffTag: "none"}, nil)
	wantError(t, err, `has the tag "none"`)
	if sub, _, err := jobs.Submission("web", 0, nil); err != nil || sub.Source != "job {}" {
		t.Errorf("%+v, %v", sub, err)
	}
	_, _, err = jobs.Submission("web", 1, nil)
	wantError(t, err, "job source not found")

	// Going back.
	_, _, err = jobs.Revert("web", 1, nil, nil, "", "")
	wantError(t, err, "is already at version 1")
	seven, one := uint64(7), uint64(1)
	_, _, err = jobs.Revert("web", 0, &seven, nil, "", "")
	wantError(t, err, "Current job has version 1; enforcing version 7")
	out, _, err := jobs.Revert("web", 0, &one, nil, "", "")
	if err != nil {
		t.Fatal(err)
	}
	if e := r.becomes(out.EvalID, "complete"); e.TriggeredBy != "job-register" || out.EvalCreateIndex == 0 || out.JobModifyIndex != out.EvalCreateIndex {
		t.Errorf("%+v, %+v", out, e)
	}
	if got := r.counts("web"); got != "2:1 1:2 0:1" {
		t.Errorf("the versions are %s", got)
	}

	// Marking and naming.
	if _, _, err := jobs.Stable("web", 0, true, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := jobs.TagVersion("web", 0, "good", "as it was", nil); err != nil {
		t.Fatal(err)
	}
	v, _, err := jobs.VersionByTag("web", "good", nil)
	if err != nil || *v.Version != 0 || !*v.Stable || v.VersionTag.Description != "as it was" || v.VersionTag.TaggedTime == 0 {
		t.Errorf("%+v, %v", v, err)
	}
	_, err = jobs.TagVersion("web", 1, "good", "", nil)
	wantError(t, err, "version 0 of job")
	if _, err := jobs.UntagVersion("web", "good", nil); err != nil {
		t.Fatal(err)
	}
	_, _, err = jobs.VersionByTag("web", "good", nil)
	wantError(t, err, "not found")
	var old nomad.Job
	if _, err := r.api.Raw().Query("/v1/job/web?version=1", &old, nil); err != nil || *old.Version != 1 || *old.TaskGroups[0].Count != 2 {
		t.Errorf("%+v, %v", old, err)
	}
}

// Scaling, through Nomad's Go client: counts within the policy, events, and
// the policies themselves.
func TestScalingOfAJob(t *testing.T) {
	r := start(t, t.TempDir())
	r.node(1)
	jobs := r.api.Jobs()
	job := atOnce(takes("web", 2, 100))
	low, high := int64(1), int64(3)
	job.TaskGroups[0].Scaling = &nomad.ScalingPolicy{Min: &low, Max: &high, Policy: map[string]any{"cooldown": "1m"}}
	r.becomes(r.register(job), "complete")
	group := *job.TaskGroups[0].Name

	four, three := 4, 3
	_, _, err := jobs.Scale("web", group, &four, "", false, nil, nil)
	wantError(t, err, "4 is above what the scaling policy")
	_, _, err = jobs.Scale("web", "none", &three, "", false, nil, nil)
	wantError(t, err, `task group "none" specified for scaling does not exist in job "web"`)
	_, _, err = jobs.Scale("web", group, &three, "", true, nil, nil)
	wantError(t, err, "must not be set together with Error")
	out, _, err := jobs.Scale("web", group, &three, "busy", false, map[string]any{"load": 7.5}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if e := r.becomes(out.EvalID, "complete"); e.TriggeredBy != "job-scaling" {
		t.Errorf("%+v", e)
	}
	if failed, _, err := jobs.Scale("web", group, nil, "no metrics", true, nil, nil); err != nil || failed.EvalID != "" {
		t.Errorf("%+v, %v", failed, err)
	}
	status, meta, err := jobs.ScaleStatus("web", nil)
	if err != nil || meta.LastIndex == 0 {
		t.Fatal(err)
	}
	g := status.TaskGroups[group]
	if g.Desired != 3 || g.Placed != 3 || len(g.Events) != 2 || g.Events[0].Message != "no metrics" || !g.Events[0].Error || g.Events[0].EvalID != nil ||
		g.Events[1].PreviousCount != 2 || *g.Events[1].Count != 3 || *g.Events[1].EvalID != out.EvalID || g.Events[1].Meta["load"] != 7.5 {
		t.Errorf("%+v", status)
	}

	list, _, err := r.api.Scaling().ListPolicies(nil)
	if err != nil || len(list) != 1 || list[0].Target["Job"] != "web" || list[0].Target["Group"] != group || list[0].Type != "horizontal" || !list[0].Enabled {
		t.Fatalf("%+v, %v", list, err)
	}
	p, _, err := r.api.Scaling().GetPolicy(list[0].ID, nil)
	if err != nil || *p.Min != 1 || *p.Max != 3 || p.Policy["cooldown"] != "1m" || p.Namespace != "default" {
		t.Errorf("%+v, %v", p, err)
	}
	_, _, err = r.api.Scaling().GetPolicy("4b9a5a5c-0000-0000-0000-000000000000", nil)
	wantError(t, err, "policy not found")

	// Registered again with the counts preserved.
	if _, _, err := jobs.RegisterOpts(job, &nomad.RegisterOptions{PreserveCounts: true}, nil); err != nil {
		t.Fatal(err)
	}
	if j, _, _ := jobs.Info("web", nil); *j.TaskGroups[0].Count != 3 {
		t.Errorf("the count is %d", *j.TaskGroups[0].Count)
	}
	if _, _, err := jobs.Deregister("web", true, nil); err != nil {
		t.Fatal(err)
	}
	if list, _, err := r.api.Scaling().ListPolicies(nil); err != nil || len(list) != 0 {
		t.Errorf("policies outlive their job: %+v, %v", list, err)
	}
}

// An allocation that a user stops is placed anew, once.
func TestStoppingAnAllocation(t *testing.T) {
	r := start(t, t.TempDir())
	r.node(1)
	r.becomes(r.register(takes("web", 2, 100)), "complete")
	list, _, err := r.api.Jobs().Allocations("web", false, nil)
	if err != nil || len(list) != 2 {
		t.Fatal(list, err)
	}
	old, _, err := r.api.Allocations().Info(list[0].ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	out, err := r.api.Allocations().Stop(old, nil)
	if err != nil {
		t.Fatal(err)
	}
	if e := r.becomes(out.EvalID, "complete"); e.TriggeredBy != "alloc-stop" {
		t.Errorf("%+v", e)
	}
	old, _, _ = r.api.Allocations().Info(old.ID, nil)
	if old.DesiredStatus != "stop" || old.NextAllocation == "" || old.DesiredTransition.Migrate == nil || !*old.DesiredTransition.Migrate {
		t.Errorf("%+v", old)
	}
	next, _, err := r.api.Allocations().Info(old.NextAllocation, nil)
	if err != nil || next.Name != old.Name || next.DesiredStatus != "run" || next.PreviousAllocation != old.ID {
		t.Errorf("%+v, %v", next, err)
	}
	// Stopped once more, nothing is left to do.
	out, err = r.api.Allocations().Stop(old, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.becomes(out.EvalID, "complete")
	if list, _, _ = r.api.Jobs().Allocations("web", false, nil); len(list) != 3 {
		t.Errorf("there are %d allocations", len(list))
	}
	_, err = r.api.Allocations().Stop(&nomad.Allocation{ID: "4b9a5a5c-0000-0000-0000-000000000000"}, nil)
	wantError(t, err, "alloc not found")
	// The call reaches its agent, which answers to nobody in this test.
	wantError(t, r.api.Allocations().Restart(next, "", nil), "can't find method")
}

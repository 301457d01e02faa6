package server_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"berth"
	"berth/internal/invariant"
	"berth/op"

	nomad "github.com/hashicorp/nomad/api"
)

// proves lets the node's agent say what it has: that it runs and is healthy or
// not, or has ended because it should.
func (x *node) proves(r *running, healthy bool) {
	x.t.Helper()
	report := &op.ReportAllocs{Write: op.Write{AuthToken: x.SecretID}}
	for a := range r.server.Store().Snapshot().AllocsOn(x.ID) {
		s := a.Rest().DeploymentStatus
		switch {
		case a.Ended() || a.Wanted() && s != nil && s.Healthy != nil:
		case a.Wanted():
			report.Alloc = append(report.Alloc, &op.AllocReport{
				ID: a.ID, NodeID: x.ID, ClientStatus: berth.ClientRunning,
				DeploymentStatus: &berth.AllocDeploymentStatus{Healthy: &healthy, Timestamp: time.Now()},
			})
		default:
			report.Alloc = append(report.Alloc, &op.AllocReport{ID: a.ID, NodeID: x.ID, ClientStatus: berth.ClientComplete})
		}
	}
	if len(report.Alloc) > 0 {
		x.call("Node.UpdateAlloc", report, &op.WriteAnswer{})
	}
}

func (r *running) latest(job string) *nomad.Deployment {
	r.t.Helper()
	return must[*nomad.Deployment, *nomad.QueryMeta](r.t)(r.api.Jobs().LatestDeployment(job, nil))
}

// deployed waits until the newest deployment of a job has a status, while its
// agents find what they are given healthy or not.
func (r *running) deployed(job string, version uint64, status string, healthy bool, nodes ...*node) (d *nomad.Deployment) {
	r.t.Helper()
	r.until("the deployment is "+status, func() bool {
		for _, n := range nodes {
			n.proves(r, healthy)
		}
		for _, v := range invariant.Check(r.server.Store().Snapshot()) {
			r.t.Fatal(v)
		}
		d = r.latest(job)
		return d != nil && d.JobVersion == version && d.Status == status
	})
	return d
}

func rolling(id string, count, parallel int) *nomad.Job {
	j := sleeper(id, count)
	j.Update = nomad.DefaultUpdateStrategy()
	j.Update.MaxParallel = &parallel
	return j
}

func changed(j *nomad.Job) *nomad.Job {
	j.TaskGroups[0].Tasks[0].SetConfig("args", []string{"61"})
	return j
}

// A rolling update goes two at a time, as Nomad's Go client sees it; it is
// paused, goes on, and survives a restart of the server with its deadlines.
func TestRollingUpdateThroughTheDoors(t *testing.T) {
	dir := t.TempDir()
	r := start(t, dir)
	n := r.node(1)
	n.beats()
	r.becomes(r.register(rolling("web", 5, 2)), "complete")
	first := r.deployed("web", 0, "successful", true, n)
	if s := first.TaskGroups["g"]; s.DesiredTotal != 5 || s.HealthyAllocs != 5 || s.PlacedAllocs != 5 {
		t.Errorf("%+v", s)
	}
	versions, _, _, err := r.api.Jobs().Versions("web", false, nil)
	if err != nil || !*versions[0].Stable {
		t.Errorf("the first version is not stable: %v", err)
	}

	r.becomes(r.register(changed(rolling("web", 5, 2))), "complete")
	d := r.latest("web")
	if s := d.TaskGroups["g"]; d.Status != "running" || s.PlacedAllocs != 2 || s.ProgressDeadline != 10*time.Minute {
		t.Fatalf("%+v %+v", d, s)
	}
	up := must[*nomad.DeploymentUpdateResponse, *nomad.WriteMeta](t)
	up(r.api.Deployments().Pause(d.ID, true, nil))
	n.proves(r, true)
	if d = r.latest("web"); d.Status != "paused" || d.TaskGroups["g"].HealthyAllocs != 2 || d.TaskGroups["g"].PlacedAllocs != 2 {
		t.Errorf("%+v %+v", d, d.TaskGroups["g"])
	}
	by := d.TaskGroups["g"].RequireProgressBy
	r.stop()
	r = start(t, dir)
	n = r.node(1)
	n.beats()
	if d = r.latest("web"); !d.TaskGroups["g"].RequireProgressBy.Equal(by) || d.Status != "paused" {
		t.Errorf("after a restart: %+v %+v, not %v", d, d.TaskGroups["g"], by)
	}
	if out := must[*nomad.DeploymentUpdateResponse, *nomad.WriteMeta](t)(r.api.Deployments().Pause(d.ID, false, nil)); out.EvalID == "" {
		t.Errorf("%+v", out)
	}
	d = r.deployed("web", 1, "successful", true, n)
	allocs := must[[]*nomad.AllocationListStub, *nomad.QueryMeta](t)(r.api.Deployments().Allocations(d.ID, nil))
	if len(allocs) != 5 || slices.ContainsFunc(allocs, func(a *nomad.AllocationListStub) bool {
		return a.DeploymentStatus == nil || !*a.DeploymentStatus.Healthy
	}) {
		t.Errorf("%d allocations of the deployment", len(allocs))
	}
	all := must[[]*nomad.Deployment, *nomad.QueryMeta](t)(r.api.Deployments().List(nil))
	of := must[[]*nomad.Deployment, *nomad.QueryMeta](t)(r.api.Jobs().Deployments("web", true, nil))
	begun := must[[]*nomad.Deployment, *nomad.QueryMeta](t)(r.api.Deployments().PrefixList(d.ID[:8]))
	if len(all) != 2 || len(of) != 2 || of[0].ID != d.ID || len(begun) != 1 {
		t.Errorf("%d deployments, %d of the job, %d of the prefix", len(all), len(of), len(begun))
	}
	if e := r.eval("web", "deployment-watcher"); e.DeploymentID == "" || e.PreviousEval != "" {
		t.Errorf("%+v", e)
	}
}

// Canaries are promoted by Nomad's Go client once they are healthy.
func TestCanaryThroughTheDoors(t *testing.T) {
	r := start(t, t.TempDir())
	n := r.node(1)
	n.beats()
	canary := func() *nomad.Job {
		j := rolling("web", 3, 3)
		j.Update.Canary = new(1)
		return j
	}
	r.becomes(r.register(canary()), "complete")
	r.deployed("web", 0, "successful", true, n)
	r.becomes(r.register(changed(canary())), "complete")
	d := r.latest("web")
	if _, _, err := r.api.Deployments().PromoteAll(d.ID, nil); err == nil || !strings.Contains(err.Error(), "0 of 1 canaries healthy") {
		t.Errorf("%v", err)
	}
	n.proves(r, true)
	list := must[[]*nomad.AllocationListStub, *nomad.QueryMeta](t)(r.api.Deployments().Allocations(d.ID, nil))
	if len(list) != 1 || !list[0].DeploymentStatus.Canary || list[0].Name != "web.g[0]" {
		t.Errorf("%d allocations: %+v", len(list), list[0])
	}
	if out := must[*nomad.DeploymentUpdateResponse, *nomad.WriteMeta](t)(r.api.Deployments().PromoteGroups(d.ID, []string{"g"}, nil)); out.EvalID == "" || out.DeploymentModifyIndex == 0 {
		t.Errorf("%+v", out)
	}
	r.deployed("web", 1, "successful", true, n)
	if _, _, err := r.api.Deployments().Unblock(d.ID, nil); err == nil || !strings.Contains(err.Error(), "multiregion") {
		t.Errorf("%v", err)
	}
}

// A version whose allocations are not healthy goes back to the one before, once,
// as a new version.
func TestBadVersionRevertsItself(t *testing.T) {
	r := start(t, t.TempDir())
	n := r.node(1)
	n.beats()
	strict := func() *nomad.Job {
		j := rolling("web", 2, 1)
		j.Update.AutoRevert = new(true)
		j.Update.ProgressDeadline = new(time.Duration(0))
		return j
	}
	r.becomes(r.register(strict()), "complete")
	r.deployed("web", 0, "successful", true, n)
	r.becomes(r.register(changed(strict())), "complete")
	n.proves(r, false)
	r.deployed("web", 2, "successful", true, n)
	of := must[[]*nomad.Deployment, *nomad.QueryMeta](t)(r.api.Jobs().Deployments("web", true, nil))
	if len(of) != 3 || of[1].Status != "failed" || !strings.HasSuffix(of[1].StatusDescription, " - rolling back to job version 0") {
		t.Errorf("%d deployments: %+v", len(of), of[1])
	}
	job := must[*nomad.Job, *nomad.QueryMeta](t)(r.api.Jobs().Info("web", nil))
	if *job.Version != 2 || !*job.Stable || job.TaskGroups[0].Tasks[0].Config["args"].([]any)[0] != "60" {
		t.Errorf("version %d, stable %v, %v", *job.Version, *job.Stable, job.TaskGroups[0].Tasks[0].Config)
	}
	// What was purged leaves no deployment behind.
	if _, _, err := r.api.Jobs().Deregister("web", true, nil); err != nil {
		t.Fatal(err)
	}
	if all := must[[]*nomad.Deployment, *nomad.QueryMeta](t)(r.api.Deployments().List(nil)); len(all) != 0 {
		t.Errorf("%d deployments outlive their job", len(all))
	}
}

// Health is said by hand, and a deployment is failed by hand.
func TestHealthByHand(t *testing.T) {
	r := start(t, t.TempDir())
	n := r.node(1)
	n.beats()
	j := rolling("web", 2, 2)
	j.Update.HealthCheck = new("manual")
	r.becomes(r.register(j), "complete")
	d := r.latest("web")
	list := must[[]*nomad.AllocationListStub, *nomad.QueryMeta](t)(r.api.Deployments().Allocations(d.ID, nil))
	up := must[*nomad.DeploymentUpdateResponse, *nomad.WriteMeta](t)
	up(r.api.Deployments().SetAllocHealth(d.ID, []string{list[0].ID}, nil, nil))
	up(r.api.Deployments().SetAllocHealth(d.ID, []string{list[1].ID}, nil, nil))
	r.until("the deployment is successful", func() bool { return r.latest("web").Status == "successful" })
	j.TaskGroups[0].Tasks[0].SetConfig("args", []string{"62"})
	r.becomes(r.register(j), "complete")
	d = r.latest("web")
	up(r.api.Deployments().Fail(d.ID, nil))
	if got := r.latest("web"); got.ID != d.ID || got.Status != "failed" || got.StatusDescription != "Deployment marked as failed" {
		t.Errorf("%+v", got)
	}
	if _, _, err := r.api.Deployments().Fail(d.ID, nil); err == nil || !strings.Contains(err.Error(), "has ended with status failed") {
		t.Errorf("%v", err)
	}
}

// A client waits for an evaluation and then for the deployment that it names,
// as Nomad's command line, levant and Terraform's provider do: after a
// registration, after a request to look again, and after a stopped allocation.
func TestClientsFollowAnEvaluationToItsDeployment(t *testing.T) {
	r := start(t, t.TempDir())
	n := r.node(1)
	n.beats()
	follow := func(eval string) *nomad.Deployment {
		t.Helper()
		e := r.becomes(eval, "complete")
		if e.DeploymentID == "" {
			t.Fatalf("evaluation %s (%s) names no deployment", eval, e.TriggeredBy)
		}
		d := must[*nomad.Deployment, *nomad.QueryMeta](t)(r.api.Deployments().Info(e.DeploymentID, nil))
		r.until("deployment "+d.ID+" ends", func() bool {
			n.proves(r, true)
			d = must[*nomad.Deployment, *nomad.QueryMeta](t)(r.api.Deployments().Info(e.DeploymentID, nil))
			return d.Status != "running"
		})
		if d.Status != "successful" {
			t.Errorf("deployment %s is %s", d.ID, d.Status)
		}
		return d
	}
	first := follow(r.register(rolling("web", 2, 1)))
	second := follow(r.register(changed(rolling("web", 2, 1))))
	if first.JobVersion != 0 || second.JobVersion != 1 {
		t.Errorf("versions %d and %d", first.JobVersion, second.JobVersion)
	}
	if d := follow(r.evaluates("web", false).ID); d.ID != second.ID {
		t.Errorf("evaluated again it names %s", d.ID)
	}
	allocs := must[[]*nomad.AllocationListStub, *nomad.QueryMeta](t)(r.api.Deployments().Allocations(second.ID, nil))
	out, err := r.api.Allocations().Stop(&nomad.Allocation{ID: allocs[0].ID}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if d := follow(out.EvalID); d.ID != second.ID {
		t.Errorf("with an allocation stopped it names %s", d.ID)
	}
}

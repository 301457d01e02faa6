package schedule_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"berth"
	"berth/internal/leader/deploy"
	"berth/internal/schedule"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// ordered is a cluster in which nothing happens but what an open evaluation, a
// controller or a report leads to: what waits goes on by itself, or never.
type ordered struct {
	gradual
	deploys *deploy.Controller
	log     []string // what was placed, in order
}

func newOrdered(t *testing.T, job string) *ordered {
	t.Helper()
	w := &ordered{gradual: gradual{t: t, snap: state.New().Snapshot()}, deploys: deploy.New()}
	w.apply(statetest.AddNode(1, 4000, 4000))
	w.apply(statetest.Register(statetest.Job(t, job), 1))
	return w
}

// settle decides what is open and takes the steps of deployments until nothing
// is to be done.
func (w *ordered) settle() {
	w.t.Helper()
	for {
		w.evals++
		now := w.now()
		do, _ := w.deploys.Step(w.snap, now)
		for _, c := range do {
			w.apply(c)
		}
		var open *berth.Eval
		for e := range w.snap.Evals() {
			if e.Status == berth.EvalPending && e.WaitUntil == 0 {
				open = e
			}
		}
		if open == nil {
			if len(do) == 0 {
				return
			}
			continue
		}
		d := schedule.Decide(w.snap, open, 0, now)
		w.apply(d.Plan)
		for _, p := range d.Plan.Place {
			w.log = append(w.log, fmt.Sprintf("%s[%d] v%d", w.snap.Job(open.Key()).TaskGroups[p.Group].Name, p.Index, d.Plan.JobVersion))
		}
	}
}

func (w *ordered) now() time.Time { return time.Unix(1000+int64(w.evals), 0) }

// report reports the allocations of a group that should run and have not ended.
func (w *ordered) report(group string, s berth.ClientStatus, healthy bool) {
	w.t.Helper()
	for n := range w.snap.Nodes() {
		r := &state.ReportAllocs{Node: n.ID, Now: w.now().UnixNano()}
		for a := range w.snap.AllocsOn(n.ID) {
			switch {
			case a.Ended():
			case !a.Wanted():
				r.Updates = append(r.Updates, state.AllocUpdate{ID: a.ID, Client: berth.ClientComplete})
			case a.Group.Name == group:
				u := state.AllocUpdate{ID: a.ID, Client: s}
				if healthy {
					u.Deployment = &berth.AllocDeploymentStatus{Healthy: new(true)}
				}
				r.Updates = append(r.Updates, u)
			}
		}
		w.apply(r)
	}
	w.settle()
}

func (w *ordered) wants(when string, log ...string) {
	w.t.Helper()
	if slices.Sort(w.log); strings.Join(w.log, ", ") != strings.Join(log, ", ") {
		w.t.Fatalf("%s, it placed %v, want %v", when, w.log, log)
	}
	w.log = nil
}

const orderedJob = `{"ID":"shop","Update":{"MaxParallel":1,"MinHealthyTime":0,"AutoRevert":%s},"TaskGroups":[
	{"Name":"web","Count":2,"DependsOn":["group.cache"],"Tasks":[{"Name":"t","Driver":"mock_driver","Env":{"A":"%s"}}]},
	{"Name":"cache","Update":{"MaxParallel":0},"Tasks":[{"Name":"t","Driver":"mock_driver"}]},
	{"Name":"migrate","Once":"deployment","DependsOn":["group.db"],"ReschedulePolicy":{"Attempts":0,"Unlimited":false},"Tasks":[{"Name":"t","Driver":"mock_driver","Env":{"A":"%s"}}]},
	{"Name":"db","Tasks":[{"Name":"t","Driver":"mock_driver"}]}]}`

// Groups come one after another, each when a report says that it may: no
// evaluation asks again and again. The migration runs once in each version.
func TestGroupsComeInOrder(t *testing.T) {
	w := newOrdered(t, fmt.Sprintf(orderedJob, "false", "1", "1"))
	w.settle()
	w.wants("at first", "db[0] v0")
	w.report("db", berth.ClientRunning, false)
	w.wants("while the database is not healthy")
	w.report("db", berth.ClientRunning, true)
	w.wants("with a healthy database", "migrate[0] v0")
	w.report("migrate", berth.ClientRunning, false)
	w.wants("while it migrates")
	w.report("migrate", berth.ClientComplete, false)
	w.wants("after the migration", "cache[0] v0")
	w.report("cache", berth.ClientRunning, false)
	w.wants("with a cache", "web[0] v0", "web[1] v0")
	w.report("web", berth.ClientRunning, true)
	w.wants("with all")
	j := w.snap.Job(berth.JobKey{Namespace: berth.DefaultNamespace, ID: "shop"})
	if d := w.deployment(j); d.Status != berth.DeploymentSuccessful {
		t.Fatalf("the deployment is %s", d.Status)
	}
	// The next version begins with the group that all others wait for.
	w.apply(statetest.Register(statetest.Job(t, fmt.Sprintf(orderedJob, "false", "2", "2")), 100))
	w.settle()
	w.report("db", berth.ClientRunning, true)
	w.wants("in the next version", "migrate[0] v1")
	w.report("migrate", berth.ClientComplete, false)
	w.wants("with the cache updated in place", "web[0] v1")
	w.report("web", berth.ClientRunning, true)
	w.wants("in the last step", "web[1] v1")
}

// A migration that fails for good fails the deployment, and the job goes back to
// the version that worked; the others were never touched.
func TestAFailedMigrationRevertsTheJob(t *testing.T) {
	w := newOrdered(t, fmt.Sprintf(orderedJob, "true", "1", "1"))
	w.settle()
	w.report("db", berth.ClientRunning, true)
	w.report("migrate", berth.ClientComplete, false)
	w.report("cache", berth.ClientRunning, false)
	w.report("web", berth.ClientRunning, true)
	w.log = nil
	w.apply(statetest.Register(statetest.Job(t, fmt.Sprintf(orderedJob, "true", "2", "2")), 100))
	w.settle()
	w.report("db", berth.ClientRunning, true)
	w.wants("in the next version", "migrate[0] v1")
	w.report("migrate", berth.ClientFailed, false)
	j := w.snap.Job(berth.JobKey{Namespace: berth.DefaultNamespace, ID: "shop"})
	if j.Version != 2 || j.Group("web").Tasks[0].Env["A"] != "1" {
		t.Fatalf("the job is at version %d with A=%s", j.Version, j.Group("web").Tasks[0].Env["A"])
	}
	w.report("db", berth.ClientRunning, true)
	for a := range w.snap.AllocsOf(j.Key()) {
		if a.Group.Name == "web" && !a.Live() {
			t.Errorf("allocation %s of web does not run any more", a.ID)
		}
	}
	var failed *berth.Deployment
	for d := range w.snap.DeploymentsOf(j.Key()) {
		if d.JobVersion == 1 {
			failed = d
		}
	}
	if failed == nil || failed.Status != berth.DeploymentFailed || !strings.HasPrefix(failed.StatusDescription, berth.DeploymentFirst) {
		t.Errorf("the deployment of version 1: %+v", failed)
	}
}

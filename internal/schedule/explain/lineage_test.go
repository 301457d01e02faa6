package explain_test

import (
	"testing"

	"berth"
	"berth/internal/schedule/explain"
	"berth/internal/state"
	"berth/internal/state/codec"
	"berth/internal/state/statetest"
)

// deployed returns a job that is deployed one instance at a time, and goes back
// to its last stable version if that fails.
func deployed(t *testing.T, memory int) *berth.Job {
	return statetest.Job(t, `{"ID":"web","Update":{"MaxParallel":1,"AutoRevert":true},"TaskGroups":[{"Name":"g","Count":2,
		"Resources":{"CPU":100,"MemoryMB":`+string(rune('0'+memory))+`00}}]}`)
}

// rollOut makes the agents report what runs as healthy, and lets the active
// deployment go on, until it ends.
func (c *cluster) rollOut() {
	c.t.Helper()
	for steps := 0; c.snap().CountActiveDeployments() > 0; steps++ {
		if steps == 10 {
			c.t.Fatal("the deployment does not end")
		}
		var d *berth.Deployment
		for d = range c.snap().ActiveDeployments(0) {
		}
		for a := range c.snap().Allocs() {
			if a.Rest().DeploymentID == d.ID && a.Live() {
				health := &berth.AllocDeploymentStatus{Healthy: new(true), Timestamp: c.now}
				c.Must(c.t, &state.ReportAllocs{Node: a.NodeID, Now: c.now.UnixNano(), Updates: []state.AllocUpdate{{ID: a.ID, Client: berth.ClientRunning, Deployment: health}}})
			}
		}
		c.Must(c.t, &state.StepDeployments{IDs: []berth.DeploymentID{d.ID}, Now: c.now.UnixNano()})
		c.decide()
	}
}

// A deployment names the evaluation that began it, and what its steps raise
// descends from that one; after a revert, too, whose own deployment descends
// from the failure of the other.
func TestLineageGoesThroughDeployments(t *testing.T) {
	c := newCluster(t, &state.RaiseLogVersion{To: codec.LogVersion}, statetest.AddNode(1, 4000, 8000), statetest.Register(deployed(t, 1), 1))
	c.decide()
	c.rollOut()
	c.Must(t, statetest.Register(deployed(t, 2), 2))
	c.decide()
	by := &berth.Request{Op: "deployment.fail", Remote: "10.0.0.7"}
	for d := range c.snap().ActiveDeployments(0) {
		c.Must(t, &state.FailDeployment{ID: d.ID, Description: "by hand", Request: by, Now: c.now.UnixNano()})
	}
	c.decide()
	c.rollOut()
	want := `job-register complete; placed web.g[0] web.g[1]
  deployment-watcher complete by deployment
job-register complete; placed web.g[0]; stopped web.g[0]
  deployment-watcher complete by deployment; updated web.g[1]
    deployment-watcher complete by deployment; placed web.g[0]; stopped web.g[0]
    deployment-watcher complete by deployment
`
	steps := explain.Trace(c.snap(), key("web"), nil)
	if got := drawn(steps); got != want {
		t.Errorf("the lineage is\n%s\nit should be\n%s", got, want)
	}
	made := map[berth.EvalID]bool{}
	for d := range c.snap().DeploymentsOf(key("web")) {
		if e := c.snap().Eval(d.EvalID); e == nil || made[e.ID] || e.ModifyIndex != d.CreateIndex {
			t.Errorf("deployment of version %d: created at %d by %+v", d.JobVersion, d.CreateIndex, e)
		}
		made[d.EvalID] = true
	}
	asked := 0
	for _, s := range steps {
		if r := s.Eval.Cause.Request; r != nil {
			if asked++; *r != *by || s.Eval.Cause.String() != "deployment "+s.Eval.Cause.ID+": deployment.fail from 10.0.0.7" {
				t.Errorf("%s", s.Eval.Cause)
			}
		}
	}
	if asked != 1 {
		t.Errorf("%d evaluations were asked for by a user", asked)
	}
}

package state

import (
	"bytes"
	"slices"
	"testing"

	"berth"
)

// A deployment is found by its ID and by its job, keeps when it was made, and
// is saved; older snapshots keep what it was.
func TestDeployments(t *testing.T) {
	web := berth.JobKey{Namespace: "default", ID: "web"}
	made := &berth.Deployment{ID: berth.DeploymentID{1}, Namespace: "default", JobID: "web", Status: berth.DeploymentRunning}
	other := &berth.Deployment{ID: berth.DeploymentID{1, 15: 1}, Namespace: "default", JobID: "other", Status: berth.DeploymentRunning}
	before := New().Snapshot()
	tx := Begin(before)
	tx.Index = 7
	tx.putDeployment(nil, made)
	tx.putDeployment(nil, other)
	first := tx.Seal()

	done := *made
	done.Status = berth.DeploymentSuccessful
	tx = Begin(first)
	tx.Index = 8
	tx.putDeployment(made, &done)
	last := tx.Seal()

	var saved bytes.Buffer
	if err := last.Save(&saved); err != nil {
		t.Fatal(err)
	}
	loaded, err := Load(&saved)
	if err != nil {
		t.Fatal(err)
	}
	for name, at := range map[string]struct {
		snap   *Snapshot
		count  int
		status string
	}{"before": {before, 0, ""}, "first": {first, 2, berth.DeploymentRunning}, "last": {last, 2, berth.DeploymentSuccessful}, "loaded": {loaded, 2, berth.DeploymentSuccessful}} {
		d := at.snap.Deployment(made.ID)
		if at.snap.Count(Deployments) != at.count || (d != nil) != (at.count > 0) || d != nil && d.Status != at.status {
			t.Errorf("%s: %d deployments, %+v", name, at.snap.Count(Deployments), d)
		}
		of := slices.Collect(at.snap.DeploymentsOf(web))
		if len(of) > 1 || len(of) == 1 && of[0] != d || len(of) == 0 && at.count > 0 {
			t.Errorf("%s: of the job web there are %v", name, of)
		}
	}
	if d := last.Deployment(made.ID); d.CreateIndex != 7 || d.ModifyIndex != 8 {
		t.Errorf("made at %d, changed at %d", d.CreateIndex, d.ModifyIndex)
	}
}

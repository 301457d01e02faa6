package invariant_test

import (
	"testing"

	"berth"
	"berth/internal/invariant"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// A second deployment of a job that goes on, and a second one of a version, are
// found.
func TestFindsSecondDeployments(t *testing.T) {
	tx := state.Begin(cluster(t))
	for n, status := range []string{berth.DeploymentCancelled, berth.DeploymentSuccessful} {
		j := *tx.Job(berth.JobKey{Namespace: berth.DefaultNamespace, ID: "web"})
		j.Priority = 60 + n
		d := &berth.Deployment{
			ID: statetest.ID[berth.Deployment](n + 1), Namespace: j.Namespace, JobID: j.ID, JobUID: j.UID, JobVersion: uint64(n + 1),
			Status: berth.DeploymentRunning, TaskGroups: map[string]*berth.DeploymentState{"g": {DesiredTotal: 2}},
		}
		for _, c := range []state.Command{
			statetest.Register(&j, 30+n),
			&state.ApplyPlan{Eval: statetest.ID[berth.Eval](30 + n), JobVersion: uint64(n + 1), Deploy: d},
			&state.ApplyPlan{Eval: statetest.ID[berth.Eval](30 + n), Deployed: &state.DeploymentChange{ID: d.ID, Status: status}},
		} {
			if r := tx.Apply(c); r.Err != nil {
				t.Fatalf("%d: %v", n, r.Err)
			}
		}
	}
	s := tx.Seal()
	if v := invariant.Check(s); v != nil {
		t.Fatal(v)
	}
	first, second := s.Deployment(statetest.ID[berth.Deployment](1)), s.Deployment(statetest.ID[berth.Deployment](2))
	first.Status = berth.DeploymentRunning
	second.Status = berth.DeploymentPaused
	expect(t, "two that go on", "I-25", invariant.Check(s))
	second.Status, second.JobVersion = berth.DeploymentFailed, 1
	expect(t, "two of a version", "I-25", invariant.Check(s))
}

package state_test

import (
	"fmt"
	"testing"

	"berth"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// forgotten is a recording of what log version 10 makes of the history of a job
// and of a deletion by force: the newest six versions are kept, stable or not, so
// that a failed deployment may find no stable version.
var forgotten = recording{"logversion10more", 10, 1, func(t *testing.T) [][]byte {
	start := *state.New().Snapshot()
	start.LogVersion = 10
	r := &script{T: t, s: &start}
	r.does(&state.BeginTerm{Term: 2, Cluster: state.ClusterID{1}}, statetest.AddNode(1, 4000, 4000))
	r.forgetsStable()
	r.forcesChildren()
	return r.cmds
}}

// forgetsStable scales a job in the middle of a deployment until the stable
// version is forgotten, and lets the deployment fail. Then the same with a stable
// version that is tagged, and with a history of one version.
func (r *script) forgetsStable() {
	r.Helper()
	register := func(cpu, eval int) {
		r.does(statetest.Register(costing(r.T, cpu), eval))
	}
	scale := func(times, eval int) {
		for i := range times {
			r.does(&state.ScaleJob{Key: webKey, Group: "g", Count: int64(2 + i), Change: true, Now: at(eval + i), Eval: byUser(eval+i, berth.TriggerJobScaling)})
		}
	}
	fails := func(deployment int) *state.FailDeployment {
		return &state.FailDeployment{ID: statetest.ID[berth.Deployment](deployment), Description: berth.DeploymentUserFailed, Now: at(99)}
	}
	register(100, 1)
	r.does(&state.SetJobStability{Key: webKey, Version: 0, Stable: true})
	register(200, 2)
	r.does(deploys(r.s, 2, 1))
	scale(7, 10)
	r.does(fails(1))
	// The stable version is gone back to.
	r.does(&state.SetJobStability{Key: webKey, Version: 8, Stable: true}, &state.TagVersion{Key: webKey, Name: "good", Version: 8, Now: at(21)})
	register(300, 21)
	r.does(deploys(r.s, 21, 2))
	scale(7, 30)
	r.does(fails(2), &state.TagVersion{Key: webKey, Name: "good", Remove: true, Now: at(40)})
	// One version is kept.
	register(400, 41)
	r.does(&state.SetTrackedVersions{Number: 1}, &state.SetJobStability{Key: webKey, Version: r.s.Job(webKey).Version, Stable: true})
	register(500, 42)
	r.does(deploys(r.s, 42, 3))
	scale(2, 50)
	r.does(fails(3))
}

// costing returns the job "web" with an amount of CPU.
func costing(t *testing.T, cpu int) *berth.Job {
	return statetest.Job(t, fmt.Sprintf(`{"ID": "web", "TaskGroups": [{"Name": "g", "Count": 1, "Resources": {"CPU": %d, "MemoryMB": 100}}]}`, cpu))
}

// deploys returns a plan that begins a deployment of the job "web", which reverts
// the job if it fails.
func deploys(s *state.Snapshot, eval, deployment int) *state.ApplyPlan {
	j := s.Job(webKey)
	return &state.ApplyPlan{
		Eval: statetest.ID[berth.Eval](eval), JobVersion: j.Version, Now: at(eval), End: &state.EvalEnd{Status: berth.EvalComplete},
		Deploy: &berth.Deployment{
			ID: statetest.ID[berth.Deployment](deployment), Namespace: j.Namespace, JobID: j.ID, JobUID: j.UID, JobVersion: j.Version,
			Status: berth.DeploymentRunning, TaskGroups: map[string]*berth.DeploymentState{"g": {DesiredTotal: 1, AutoRevert: true}},
		},
	}
}

// forcesChildren deletes a periodic job by force, with a child.
func (r *script) forcesChildren() {
	r.Helper()
	key := berth.JobKey{Namespace: berth.DefaultNamespace, ID: "nightly"}
	r.does(registerParent(parent(r.T, "nightly", `"Periodic": {"Spec": "* * * * *"}`), 50), launch("nightly", 60, 60, 61))
	c := &state.DeleteJob{Key: key, Policy: berth.Foreground, Intent: berth.IntentUser, Force: true, Now: at(52)}
	nightly := r.s.Job(key)
	r.does(c)
	r.refuses(berth.Conflict, finalizes(nightly), c)
	for j := range r.s.ChildrenOf(key) {
		r.does(&state.DeleteJob{Key: j.Key(), Policy: berth.Foreground, Intent: berth.IntentUser, Force: true, Now: at(53)}, finalizes(j))
	}
	r.does(finalizes(nightly))
}

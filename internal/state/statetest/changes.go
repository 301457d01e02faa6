package statetest

import (
	"fmt"
	"slices"
	"time"

	"berth"
	"berth/internal/state"

	"pgregory.net/rapid"
)

// update draws how a new version of a group replaces the old one, nil for all
// at once.
func update(t *rapid.T) *berth.UpdateStrategy {
	if rapid.Bool().Draw(t, "updates at once") {
		return nil
	}
	return &berth.UpdateStrategy{
		MaxParallel: rapid.IntRange(1, 2).Draw(t, "parallel"), HealthCheck: berth.HealthTaskStates, HealthyDeadline: time.Minute,
		ProgressDeadline: rapid.SampledFrom([]time.Duration{0, 2 * time.Minute}).Draw(t, "progress"),
		Canary:           rapid.IntRange(0, 2).Draw(t, "canary"), AutoRevert: rapid.Bool().Draw(t, "reverts"),
		AutoPromote: rapid.Bool().Draw(t, "promotes"),
	}
}

// deploys draws the deployment part of a service's plan: the end of the newest
// deployment, or a new one for a version that has none.
func (r *Random) deploys(t *rapid.T, s *state.Snapshot, j *berth.Job, c *state.ApplyPlan) {
	var newest *berth.Deployment
	for d := range s.DeploymentsOf(j.Key()) {
		if d.JobUID == j.UID && (newest == nil || d.CreateIndex > newest.CreateIndex) {
			newest = d
		}
	}
	// A plan may end the deployment of an older version, or complete its own.
	if newest != nil && newest.Active() && (newest.JobVersion != j.Version || rapid.IntRange(0, 3).Draw(t, "deployed") == 0) {
		c.Deployed = &state.DeploymentChange{ID: newest.ID, Status: berth.DeploymentCancelled, Description: berth.DeploymentJobReplaced}
		if newest.JobVersion == j.Version {
			c.Deployed.Status, c.Deployed.Description = berth.DeploymentSuccessful, berth.DeploymentDone
		}
	}
	if newest != nil && newest.JobVersion == j.Version && rapid.IntRange(0, 9).Draw(t, "another") > 0 {
		return // a second one for a version is refused
	}
	d := &berth.Deployment{
		ID: berth.DeploymentID(r.id()), Namespace: j.Namespace, JobID: j.ID, JobUID: j.UID, JobVersion: j.Version, JobModifyIndex: j.ModifyIndex,
		JobSpecModifyIndex: j.JobModifyIndex, JobCreateIndex: j.CreateIndex, Status: berth.DeploymentRunning,
		TaskGroups: map[string]*berth.DeploymentState{},
	}
	for _, g := range j.TaskGroups {
		if g.Update != nil && g.Count > 0 {
			d.TaskGroups[g.Name] = &berth.DeploymentState{
				AutoRevert: g.Update.AutoRevert, AutoPromote: g.Update.AutoPromote, ProgressDeadline: g.Update.ProgressDeadline,
				DesiredCanaries: min(g.Update.Canary, g.Count), DesiredTotal: g.Count,
			}
		}
	}
	if len(d.TaskGroups) > 0 {
		d.StatusDescription = d.Runs()
		c.Deploy = d
	}
}

// deployment draws a command about a deployment, usually an active one.
func (r *Random) deployment(t *rapid.T, s *state.Snapshot) state.Command {
	// Mostly active ones: changes of the others are refused.
	all := slices.Collect(s.ActiveDeployments(0))
	if len(all) == 0 || rapid.IntRange(0, 5).Draw(t, "any") == 0 {
		all = slices.AppendSeq(all, s.Deployments())
	}
	if len(all) == 0 {
		return &state.FailDeployment{ID: ID[berth.Deployment](1), Now: r.now}
	}
	d := rapid.SampledFrom(all).Draw(t, "deployment")
	switch rapid.IntRange(0, 6).Draw(t, "about it") {
	case 0, 1:
		status := rapid.SampledFrom([]string{berth.DeploymentPaused, berth.DeploymentRunning, berth.DeploymentCancelled, "odd"}).Draw(t, "deployment status")
		return &state.SetDeploymentStatus{ID: d.ID, Status: status, Now: r.now}
	case 2, 3:
		c := &state.PromoteDeployment{ID: d.ID, Now: r.now}
		if rapid.IntRange(0, 3).Draw(t, "one group") == 0 {
			c.Groups = []string{rapid.SampledFrom([]string{"g0", "g1", "g9"}).Draw(t, "group")}
		}
		return c
	case 4:
		return &state.FailDeployment{ID: d.ID, Description: "drawn", Now: r.now}
	case 5:
		return &state.StepDeployments{IDs: []berth.DeploymentID{d.ID, ID[berth.Deployment](1)}, Now: r.now}
	}
	c := &state.SetAllocHealth{ID: d.ID, Silent: rapid.IntRange(0, 3).Draw(t, "silent") == 0, Fail: rapid.IntRange(0, 3).Draw(t, "fail") == 0, Now: r.now}
	for a := range s.AllocsOf(d.Key()) {
		if a.Rest().DeploymentID != d.ID {
			continue
		}
		switch rapid.IntRange(0, 3).Draw(t, "health") {
		case 0, 1:
			c.Healthy = append(c.Healthy, a.ID)
		case 2:
			c.Unhealthy = append(c.Unhealthy, a.ID)
		}
	}
	return c
}

// family draws a command about a periodic or parameterized job or its children.
func (r *Random) family(t *rapid.T, s *state.Snapshot) state.Command {
	name := rapid.SampledFrom([]berth.JobID{"cron", "call"}).Draw(t, "parent")
	k := berth.JobKey{Namespace: berth.DefaultNamespace, ID: name}
	j := s.Job(k)
	switch kind := rapid.IntRange(0, 5).Draw(t, "of the family"); {
	case j == nil || kind == 0:
		return r.parent(t, name)
	case kind == 1 && rapid.IntRange(0, 2).Draw(t, "stop it") == 0:
		return &state.StopJob{Key: k, Purge: rapid.Bool().Draw(t, "purge"), Now: r.now}
	case name == "cron":
		c := &state.LaunchPeriodic{
			Key: k, UID: j.UID, Due: r.now - r.now%int64(20*time.Second), Force: rapid.IntRange(0, 3).Draw(t, "force") == 0, Now: r.now,
			Eval: state.EvalSeed{ID: r.id(), TriggeredBy: berth.TriggerPeriodicJob, Cause: berth.Cause{Kind: berth.CausePeriodic, ID: "drawn"}},
		}
		if rapid.IntRange(0, 5).Draw(t, "early") == 0 { // refused
			c.Due = r.now + 1
		}
		c.Stamp(s.Term)
		return c
	}
	seed := state.EvalSeed{ID: r.id(), TriggeredBy: berth.TriggerJobRegister, Cause: berth.Cause{Kind: berth.CauseUser}}
	return &state.DispatchJob{
		Key: k, Child: name + berth.JobID(fmt.Sprint(berth.DispatchInfix, rapid.IntRange(0, 9).Draw(t, "child"))), Payload: []byte("drawn"),
		Token: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "token"), Priority: rapid.SampledFrom([]int{0, 70}).Draw(t, "its priority"),
		Eval: seed, Now: r.now,
	}
}

// parent draws a registration of a periodic or parameterized job.
func (r *Random) parent(t *rapid.T, name berth.JobID) state.Command {
	restart := berth.RestartPolicy{Attempts: 2, Interval: time.Minute, Mode: berth.RestartFail}
	j := &berth.Job{
		Region: berth.DefaultRegion, Namespace: berth.DefaultNamespace, ID: name, Name: string(name), Type: berth.TypeBatch,
		Priority: rapid.IntRange(1, 100).Draw(t, "priority"), Datacenters: []string{"*"}, NodePool: berth.DefaultNodePool,
		TaskGroups: []*berth.TaskGroup{{
			Name: "g0", Count: 1, RestartPolicy: &restart, EphemeralDisk: &berth.EphemeralDisk{SizeMB: 100},
			Tasks: []*berth.Task{{
				Name: "task", Driver: "mock_driver", RestartPolicy: &restart, LogConfig: &berth.LogConfig{MaxFiles: 1, MaxFileSizeMB: 1},
				Resources: &berth.Resources{CPU: 100, MemoryMB: 100},
			}},
		}},
	}
	if name == "call" {
		j.ParameterizedJob = &berth.ParameterizedConfig{Payload: berth.PayloadOptional}
	} else {
		j.Periodic = &berth.PeriodicConfig{
			Enabled: rapid.IntRange(0, 3).Draw(t, "enabled") > 0, Spec: "*/20 * * * * * *", SpecType: "cron", TimeZone: "UTC",
			ProhibitOverlap: rapid.Bool().Draw(t, "no overlap"),
		}
	}
	return &state.RegisterJob{Job: j, Now: r.now}
}

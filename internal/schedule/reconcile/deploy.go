package reconcile

import (
	"slices"

	"berth"
)

// rollout describes how a group moves to the job's newest version.
type rollout struct {
	// stepwise reports that a deployment controls the update. Otherwise
	// everything is replaced at once.
	stepwise bool
	// canaries is how many must run beside the old instances before any of
	// these is replaced; 0 if there are none, or if they were promoted.
	canaries int
	held     bool               // the deployment is paused or has failed: the new version is not placed
	broken   bool               // the deployment has failed
	id       berth.DeploymentID // zero if it is created with this plan
	state    *berth.DeploymentState
}

// keepsOld reports whether the old version stays for now.
func (o *rollout) keepsOld() bool { return o.held || o.canaries > 0 }

// failedWith reports whether an allocation belongs to a failed deployment.
// Another one like it would fail, too.
func (o *rollout) failedWith(a *berth.Alloc) bool { return o.broken && a.Rest().DeploymentID == o.id }

// rolloutOf returns the rollout of a group that follows a deployment; zero if
// the deployment does not include the group.
func rolloutOf(d *berth.Deployment, group string) rollout {
	s := d.TaskGroups[group]
	if s == nil {
		return rollout{}
	}
	o := rollout{id: d.ID, state: s}
	if d.Active() || d.Status == berth.DeploymentFailed {
		o.stepwise = true
		o.broken = d.Status == berth.DeploymentFailed
		o.held = o.broken || d.Status == berth.DeploymentPaused
		if !s.Promoted {
			o.canaries = s.DesiredCanaries
		}
	}
	return o
}

// member reports whether an allocation belongs to the deployment.
func (o *rollout) member(a *berth.Alloc) bool {
	return !o.id.IsZero() && a.Rest().DeploymentID == o.id
}

// healthy reports whether an allocation became healthy in the deployment.
func (o *rollout) healthy(a *berth.Alloc) bool {
	s := a.Rest().DeploymentStatus
	return o.member(a) && s != nil && s.Healthy != nil && *s.Healthy
}

// keepsVersion reports whether the replacement of an allocation keeps its
// version, because the newest is not promoted, must not be placed or must wait.
func (g *group) keepsVersion(a *berth.Alloc) bool {
	return (g.roll.keepsOld() || len(g.waits) > 0) && g.outdated(a)
}

// deployments finds out which deployment each group follows. A deployment of
// another version, or of a stopped job, is cancelled. One is created when a
// service job with an update block has something to do for a version that has
// no deployment yet.
func (r *reconciler) deployments(groups []*group) {
	r.cancelStale()
	d := r.Deployment
	switch {
	case r.Job == nil || r.Job.Stop || r.Job.Type != berth.TypeService:
	case d != nil && d.JobUID == r.Job.UID && d.JobVersion == r.Job.Version:
		for _, g := range groups {
			g.roll = rolloutOf(d, g.spec.Name)
		}
	default:
		r.deploy(groups)
	}
}

// cancelStale cancels a deployment of a stopped job or an older version.
func (r *reconciler) cancelStale() {
	d := r.Deployment
	if d != nil && d.Active() {
		switch {
		case r.Job == nil || r.Job.Stop || r.Job.UID != d.JobUID:
			r.Deployed = &DeploymentChange{ID: d.ID, Status: berth.DeploymentCancelled, Description: berth.DeploymentJobStopped}
		case r.Job.Version != d.JobVersion:
			r.Deployed = &DeploymentChange{ID: d.ID, Status: berth.DeploymentCancelled, Description: berth.DeploymentJobReplaced}
		}
	}
}

// deploy creates a deployment if any group has something to do for the version.
func (r *reconciler) deploy(groups []*group) {
	begins := false
	for _, g := range groups {
		begins = begins || g.gradual() && g.startsVersion()
	}
	if !begins {
		return
	}
	// It covers every gradual group, also those with nothing to do.
	d := r.newDeployment()
	for _, g := range groups {
		if !g.gradual() {
			continue
		}
		s := g.deploymentState()
		d.TaskGroups[g.spec.Name] = s
		g.roll = rollout{stepwise: true, canaries: s.DesiredCanaries, state: s}
		if s.DesiredCanaries > 0 && !s.AutoPromote {
			d.StatusDescription = berth.DeploymentWaits
		}
	}
	r.Deploy = d
}

// newDeployment returns a deployment of the job's newest version without
// groups.
func (r *reconciler) newDeployment() *berth.Deployment {
	j := r.Job
	return &berth.Deployment{
		Namespace: j.Namespace, JobID: j.ID, JobUID: j.UID, JobVersion: j.Version, JobModifyIndex: j.ModifyIndex,
		JobSpecModifyIndex: j.JobModifyIndex, JobCreateIndex: j.CreateIndex, EvalPriority: j.Priority,
		Status: berth.DeploymentRunning, StatusDescription: berth.DeploymentRuns, TaskGroups: map[string]*berth.DeploymentState{},
	}
}

// gradual reports whether a deployment controls the group's updates.
func (g *group) gradual() bool { return gradual(g.spec) }

// gradual reports whether the group is updated by a deployment, a few instances
// at a time.
func gradual(g *berth.TaskGroup) bool {
	return g.Update != nil && g.Update.MaxParallel > 0 && g.Count > 0
}

// startsVersion reports whether the newest version has something to do for the
// group: its first instances, or others to replace or update in place. What the
// version placed since then needs no other deployment, also if it has ended.
func (g *group) startsVersion() bool {
	first := true
	for _, a := range g.allocs {
		if a.Job.Version == g.Job.Version {
			first = false
		} else if a.Wanted() {
			return true
		}
	}
	return first
}

// deploymentState returns the initial state of the group's deployment. There
// are canaries only if something must be replaced, and at most as many as the
// count: each has a name of the group.
func (g *group) deploymentState() *berth.DeploymentState {
	u, s := g.spec.Update, g.newDeploymentState(g.spec, g.spec.Count)
	for _, a := range g.allocs {
		if u.Canary > 0 && a.Wanted() && !isCanary(a) && a.Client != berth.ClientComplete && g.outdated(a) {
			s.DesiredCanaries = min(u.Canary, g.spec.Count)
			break
		}
	}
	return s
}

// newDeploymentState returns the initial state of a group's deployment with
// that many instances.
func (r *reconciler) newDeploymentState(g *berth.TaskGroup, total int) *berth.DeploymentState {
	u := g.Update
	s := &berth.DeploymentState{
		AutoRevert: u.AutoRevert, AutoPromote: u.AutoPromote && u.Canary > 0, ProgressDeadline: u.ProgressDeadline, DesiredTotal: total,
	}
	if u.ProgressDeadline > 0 {
		s.RequireProgressBy = r.Now.Add(u.ProgressDeadline)
	}
	return s
}

// isCanary reports whether an allocation was placed as a canary and has not
// been promoted since.
func isCanary(a *berth.Alloc) bool {
	s := a.Rest().DeploymentStatus
	return s != nil && s.Canary
}

// splitCanaries separates the canaries of the group's current deployment from
// the allocations that hold the names. Canaries of another or a failed
// deployment are stopped.
func (g *group) splitCanaries() (plain, canaries []*berth.Alloc) {
	if !slices.ContainsFunc(g.allocs, isCanary) {
		return g.allocs, nil
	}
	for _, a := range g.allocs {
		if !isCanary(a) {
			plain = append(plain, a)
			continue
		}
		ours := g.member(a)
		// A promoted canary is an instance like any other. One of another
		// deployment has no use any more.
		switch {
		case ours && g.roll.state.Promoted:
			plain = append(plain, a)
		case ours && g.roll.stepwise && !g.roll.broken:
			canaries = append(canaries, a)
		case a.Live():
			g.stopOrLose(a, berth.StopCanary)
		case !a.Ended() && g.lost(a):
			g.stop(a, g.lostReason(a), berth.ClientLost)
		}
	}
	return plain, canaries
}

// succeeded ends the deployment as successful if every name of every group in
// it is held by a healthy allocation of it. An allocation that leaves its node
// once its replacement is up counts as well.
func (r *reconciler) succeeded(groups []*group) {
	d := r.Deployment
	if d == nil || d.Status != berth.DeploymentRunning || r.Deployed != nil || r.Job == nil {
		return
	}
	for _, g := range groups {
		if g.roll.stepwise && !g.complete() {
			return
		}
	}
	r.Deployed = &DeploymentChange{ID: d.ID, Status: berth.DeploymentSuccessful, Description: berth.DeploymentDone}
}

// complete reports whether every instance runs the newest version and is
// healthy, which ends the group's part of the deployment.
func (g *group) complete() bool {
	if g.roll.canaries > 0 {
		return false
	}
	for i := range g.slots {
		s := &g.slots[i]
		a := s.keep
		if a == nil {
			a = s.outgoing
		}
		if a == nil || s.update || s.delayed || !g.healthy(a) {
			return false
		}
	}
	return true
}

// member reports whether an allocation belongs to the deployment that the group
// follows.
func (g *group) member(a *berth.Alloc) bool { return g.roll.member(a) }

// healthy reports whether an allocation became healthy in the group's
// deployment.
func (g *group) healthy(a *berth.Alloc) bool { return g.roll.healthy(a) }

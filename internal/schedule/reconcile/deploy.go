package reconcile

import (
	"slices"

	"berth"
)

// rollout is how a group goes to the job's newest version.
type rollout struct {
	// stepwise: by a deployment. Without, everything is replaced at once.
	stepwise bool
	// canaries is how many are to run beside the old ones before any of these
	// is replaced; 0 if none, or if they were promoted.
	canaries int
	held     bool               // the deployment is paused or has failed: nothing new is placed
	broken   bool               // it has failed
	id       berth.DeploymentID // zero if it is made with this plan
	state    *berth.DeploymentState
}

// keepsOld says whether the old version stays for now.
func (o *rollout) keepsOld() bool { return o.held || o.canaries > 0 }

// failedWith says whether an allocation is of a deployment that failed: another
// like it would fail, too.
func (o *rollout) failedWith(a *berth.Alloc) bool { return o.broken && a.Rest().DeploymentID == o.id }

// rolloutOf is how a group goes on that follows a deployment, if it has a part in
// that.
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

// member says whether an allocation is of the deployment.
func (o *rollout) member(a *berth.Alloc) bool {
	return !o.id.IsZero() && a.Rest().DeploymentID == o.id
}

// healthy says whether an allocation proved itself in the deployment.
func (o *rollout) healthy(a *berth.Alloc) bool {
	s := a.Rest().DeploymentStatus
	return o.member(a) && s != nil && s.Healthy != nil && *s.Healthy
}

// keepsVersion says whether what replaces an allocation is to be of its own version:
// the newest is not promoted, or not to be placed.
func (g *group) keepsVersion(a *berth.Alloc) bool { return g.roll.keepsOld() && g.outdated(a) }

// deployments finds out which deployment each group follows. One for another
// version of the job, or for a job that was stopped, is cancelled; one is made
// when a service job with an update block has something to do for a version
// that had none.
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

// cancelStale cancels a deployment that its job left behind.
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

// deploy makes a deployment if any group has something to do for the version.
func (r *reconciler) deploy(groups []*group) {
	begins := false
	for _, g := range groups {
		begins = begins || g.gradual() && g.startsVersion()
	}
	if !begins {
		return
	}
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

// newDeployment is one for the job's newest version, without groups.
func (r *reconciler) newDeployment() *berth.Deployment {
	j := r.Job
	return &berth.Deployment{
		Namespace: j.Namespace, JobID: j.ID, JobUID: j.UID, JobVersion: j.Version, JobModifyIndex: j.ModifyIndex,
		JobSpecModifyIndex: j.JobModifyIndex, JobCreateIndex: j.CreateIndex, EvalPriority: j.Priority,
		Status: berth.DeploymentRunning, StatusDescription: berth.DeploymentRuns, TaskGroups: map[string]*berth.DeploymentState{},
	}
}

// gradual says whether the group's changes go by a deployment.
func (g *group) gradual() bool { return gradual(g.spec) }

func gradual(g *berth.TaskGroup) bool {
	return g.Update != nil && g.Update.MaxParallel > 0 && g.Count > 0
}

// startsVersion says whether a new version has something to do for the group: its
// first instances, or others to replace or carry over.
func (g *group) startsVersion() bool {
	for _, a := range g.allocs {
		if a.Wanted() && a.Job.Version != g.Job.Version {
			return true
		}
	}
	return len(g.allocs) == 0
}

// deploymentState is where the group's deployment begins. There are canaries
// only where something is to be replaced, and no more than instances: each
// bears a name of the group.
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

// newDeploymentState is where the deployment of so many instances of a group begins.
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

// isCanary says whether an allocation was placed as a canary and not promoted
// since.
func isCanary(a *berth.Alloc) bool {
	s := a.Rest().DeploymentStatus
	return s != nil && s.Canary
}

// splitCanaries parts the canaries of the deployment that the group follows from what
// has the names. Those of another deployment, or of one that failed, stop.
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

// succeeded ends the deployment as successful if every name of every group
// that follows it is held by a healthy allocation of it. One that is to leave its
// node when what replaces it is up proved itself all the same.
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

// member says whether an allocation is of the deployment that the group
// follows.
func (g *group) member(a *berth.Alloc) bool { return g.roll.member(a) }

// healthy says whether an allocation proved itself in the group's deployment.
func (g *group) healthy(a *berth.Alloc) bool { return g.roll.healthy(a) }

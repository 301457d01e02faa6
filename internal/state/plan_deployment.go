package state

import (
	"slices"

	"berth"
)

// checkDeployment refuses a deployment that is for another version than the one
// placed, that would be the job's second, or whose status only others may set.
func (c *ApplyPlan) checkDeployment(tx *Tx, job *berth.Job, eval *berth.Eval) error {
	if e := c.Deployed; e != nil {
		if err := e.check(tx.Deployment(e.ID), eval.Key()); err != nil {
			return err
		}
	}
	d := c.Deploy
	if d == nil {
		return nil
	}
	switch {
	case d.ID.IsZero() || tx.Deployment(d.ID) != nil:
		return berth.Errorf(berth.Invalid, "plan: deployment %s needs an ID of its own", d.ID)
	case d.Key() != eval.Key() || d.JobUID != job.UID || d.JobVersion != job.Version:
		return berth.Errorf(berth.Invalid, "plan: deployment %s is not for version %d of job %q", d.ID, job.Version, eval.Key())
	case d.Status != berth.DeploymentRunning || len(d.TaskGroups) == 0:
		return berth.Errorf(berth.Invalid, "plan: deployment %s has status %q and %d groups", d.ID, d.Status, len(d.TaskGroups))
	}
	// A job has one active deployment, and each version at most one.
	for other := range tx.DeploymentsOf(d.Key()) {
		ends := c.Deployed != nil && c.Deployed.ID == other.ID
		if other.JobUID == job.UID && (other.Active() && !ends || other.JobVersion == d.JobVersion) {
			return berth.Errorf(berth.Conflict, "superseded: job %q has deployment %s of version %d, which is %s", d.Key(), other.ID, other.JobVersion, other.Status)
		}
	}
	return nil
}

// check refuses a change that no scheduler may make to a deployment.
func (e *DeploymentChange) check(d *berth.Deployment, job berth.JobKey) error {
	switch {
	case d != nil && d.Key() != job:
		return berth.Errorf(berth.Invalid, "plan: deployment %s belongs to job %q, not to %q", e.ID, d.Key(), job)
	case e.Status == "" && len(e.Sizes) == 0, e.Status != "" && e.Status != berth.DeploymentCancelled && e.Status != berth.DeploymentSuccessful:
		return berth.Errorf(berth.Invalid, "plan: a scheduler cannot set a deployment to %q: want cancelled or successful", e.Status)
	}
	for name, size := range e.Sizes {
		if size.Canaries < 0 || size.Canaries > size.Total {
			return berth.Errorf(berth.Invalid, "plan: group %q of deployment %s cannot have %d canaries among %d instances", name, e.ID, size.Canaries, size.Total)
		}
	}
	return nil
}

// resize sets the sizes of a deployment's groups. d is a copy that it may
// change.
func (e *DeploymentChange) resize(d *berth.Deployment) {
	for name, size := range e.Sizes {
		if s := d.TaskGroups[name]; s != nil {
			s.DesiredTotal, s.DesiredCanaries = size.Total, size.Canaries
		}
	}
	if d.Status == berth.DeploymentRunning {
		d.StatusDescription = d.Runs()
	}
}

// enrol changes deployments as the plan says, and returns the one that its
// placements belong to.
func (c *ApplyPlan) enrol(tx *Tx, job *berth.Job) *enrolment {
	// What the plan changes of an existing deployment.
	if e := c.Deployed; e != nil {
		if old := tx.Deployment(e.ID); old != nil && old.Active() {
			d := *old
			if len(e.Sizes) > 0 {
				e.resize(newEnrolment(old, &d).d)
			}
			if e.Status != "" {
				d.Status, d.StatusDescription = e.Status, e.Description
			}
			d.ModifyTime = c.Now
			tx.putDeployment(old, &d)
			if d.Status == berth.DeploymentSuccessful {
				tx.succeed(&d)
			}
		}
	}
	// Its placements join the deployment that it creates, or else the active
	// one of the version.
	if c.Deploy != nil {
		d := *c.Deploy
		d.CreateTime, d.ModifyTime = c.Now, c.Now
		if tx.KeepsLineage() {
			d.EvalID = c.Eval
		}
		return newEnrolment(nil, &d)
	}
	if len(c.Place)+len(c.Update) == 0 || job.Type != berth.TypeService && job.Type != berth.TypeSystem {
		return nil
	}
	for d := range tx.DeploymentsOf(job.Key()) {
		if d.Active() && d.JobUID == job.UID && d.JobVersion == job.Version {
			fresh := *d
			return newEnrolment(d, &fresh)
		}
	}
	return nil
}

// newEnrolment gives a copy of a deployment its own groups to change.
func newEnrolment(old, d *berth.Deployment) *enrolment {
	groups := make(map[string]*berth.DeploymentState, len(d.TaskGroups))
	for name, s := range d.TaskGroups {
		own := *s
		own.PlacedCanaries = slices.Clone(s.PlacedCanaries)
		groups[name] = &own
	}
	d.TaskGroups = groups
	return &enrolment{old: old, d: d}
}

// refuses returns why a placement cannot be a canary of the group, or "" if it
// can: meanwhile the deployment may have been promoted or have ended.
func (e *enrolment) refuses(group string) string {
	switch {
	case e == nil || e.d.TaskGroups[group] == nil:
		return "no deployment wants a canary"
	case e.d.TaskGroups[group].Past():
		return "the deployment already has its canaries"
	}
	return ""
}

// add makes an allocation that is about to be stored part of the deployment.
// Its health is open.
func (e *enrolment) add(a *berth.Alloc, canary bool, now int64) {
	if e == nil || a.Job.Version != e.d.JobVersion {
		return
	}
	s := e.d.TaskGroups[a.Group.Name]
	if s == nil {
		return
	}
	if a.Rest().DeploymentID == e.d.ID { // carried over to a version that continues the deployment
		if ok := verdict(a); ok != nil && *ok {
			e.carriedHealthy = true
		}
		return
	}
	more := *a.Rest()
	a.More = &more
	more.DeploymentID, more.DeploymentStatus = e.d.ID, nil
	if s.PlacedAllocs == 0 { // before that nothing could become healthy
		s.Extend(now)
	}
	s.PlacedAllocs++
	if canary {
		more.DeploymentStatus = &berth.AllocDeploymentStatus{Canary: true}
		s.PlacedCanaries = append(s.PlacedCanaries, a.ID)
	}
}

// store stores the deployment with its additions.
func (e *enrolment) store(tx *Tx, now int64) {
	if e == nil {
		return
	}
	e.d.ModifyTime = now
	if e.carriedHealthy {
		e.d.HealthIndex = tx.Index
	}
	tx.putDeployment(e.old, e.d)
}

// versionFor returns which version and group a placement belongs to: the job's
// newest version, or that of the allocation it replaces.
func (tx *Tx) versionFor(p *berth.Placement, job *berth.Job) version {
	if p.Before {
		if prev := tx.Alloc(p.Previous); prev != nil {
			return version{prev.Job, prev.Group}
		}
	}
	return version{job, job.TaskGroups[p.Group]}
}

// mergeIntoDeployment lets an active deployment continue with the next version
// of its job if that only changes counts: scaling in the middle of an update
// neither ends the update nor waits for it.
func (tx *Tx) mergeIntoDeployment(old, j *berth.Job) {
	if old == nil || j.Stop || old.Stop || j.PerNode() || j.Version == old.Version || tx.deployments.active.Len() == 0 {
		return
	}
	was := tx.activeOf(j.Key(), j.UID)
	if was == nil || was.JobVersion != old.Version || !onlyCounts(old, j) {
		return
	}
	d := newEnrolment(was, new(*was)).d
	for i, g := range j.TaskGroups {
		s := d.TaskGroups[g.Name]
		if s == nil && g.Count > 0 && g.Update != nil && g.Update.MaxParallel > 0 {
			return // the group has no part in the deployment yet
		}
		if s != nil && g.Count != old.TaskGroups[i].Count {
			s.DesiredTotal = g.Count
			s.DesiredCanaries = min(s.DesiredCanaries, g.Count)
			s.Extend(j.SubmitTime)
		}
	}
	d.JobVersion, d.JobModifyIndex, d.JobSpecModifyIndex, d.ModifyTime = j.Version, j.ModifyIndex, j.JobModifyIndex, j.SubmitTime
	tx.putDeployment(was, d)
}

// onlyCounts reports whether two versions of a job differ only in the counts of
// their groups.
func onlyCounts(old, j *berth.Job) bool {
	if len(old.TaskGroups) != len(j.TaskGroups) {
		return false
	}
	same := *j
	same.TaskGroups = slices.Clone(j.TaskGroups)
	for i, g := range j.TaskGroups {
		n := *g
		n.Count = old.TaskGroups[i].Count
		same.TaskGroups[i] = &n
	}
	return sameSpec(old, &same)
}

// succeed marks the version of a successful deployment as stable.
func (tx *Tx) succeed(d *berth.Deployment) {
	cur, v := tx.Job(d.Key()), tx.JobVersion(d.Key(), d.JobVersion)
	if cur == nil || cur.UID != d.JobUID || v == nil || v.Stable {
		return
	}
	stable := *v
	stable.Stable = true
	tx.amend(cur, &stable)
}

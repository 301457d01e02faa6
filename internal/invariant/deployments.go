package invariant

import (
	"slices"

	"berth"
)

// promoted returns the deployment whose canary an allocation was before the
// promotion, zero if none exists.
func (c *checker) promoted(a *berth.Alloc) (id berth.DeploymentID) {
	if a.Rest().DeploymentID.IsZero() || canary(a) {
		return id
	}
	d := c.Deployment(a.Rest().DeploymentID)
	if d == nil || d.TaskGroups[a.Group.Name] == nil || !slices.Contains(d.TaskGroups[a.Group.Name].PlacedCanaries, a.ID) {
		return id
	}
	return d.ID
}

// lives reports whether an incarnation of a job exists. Its deployments are
// deleted with it, before the allocations that they placed.
func (c *checker) lives(k berth.JobKey, uid berth.UID) bool {
	j := c.Job(k)
	return j != nil && j.UID == uid
}

// member counts an allocation in its deployment.
func (c *checker) member(a *berth.Alloc) {
	id := a.Rest().DeploymentID
	if id.IsZero() {
		return
	}
	groups := c.members[id]
	if groups == nil {
		groups = map[string]*[3]int{}
		c.members[id] = groups
	}
	n := groups[a.Group.Name]
	if n == nil {
		n = new([3]int)
		groups[a.Group.Name] = n
	}
	n[0]++
	if s := a.Rest().DeploymentStatus; s != nil && s.Healthy != nil {
		if *s.Healthy {
			n[1]++
		} else {
			n[2]++
		}
	}
}

// recount checks I-26: the counts of a deployment match its allocations. After
// its end, allocations may have been deleted or moved to another deployment.
func (c *checker) recount(d *berth.Deployment) {
	counts := c.members[d.ID]
	for name, s := range d.TaskGroups {
		have, want := [3]int{s.PlacedAllocs, s.HealthyAllocs, s.UnhealthyAllocs}, [3]int{}
		if n := counts[name]; n != nil {
			want = *n
		}
		for i := range have {
			if have[i] < want[i] || d.Active() && have[i] != want[i] {
				c.addf("I-26", "deployment %s counts %v placed, healthy and unhealthy of group %q; recounted: %v", d.ID, have, name, want)
				break
			}
		}
		if have[1]+have[2] > have[0] {
			c.addf("I-26", "deployment %s counts more healthy and unhealthy than placed of group %q: %v", d.ID, name, have)
		}
		c.canaries(d, name, s)
	}
	for name := range counts {
		if d.TaskGroups[name] == nil {
			c.addf("I-26", "allocations of group %q belong to deployment %s, which does not have that group", name, d.ID)
		}
	}
}

// canaries checks that the canaries of a group are allocations of it, each
// listed once, and no longer canaries after the promotion.
func (c *checker) canaries(d *berth.Deployment, group string, s *berth.DeploymentState) {
	if s.DesiredCanaries > s.DesiredTotal {
		c.addf("I-26", "deployment %s wants %d canaries of group %q, but only %d instances", d.ID, s.DesiredCanaries, group, s.DesiredTotal)
	}
	for i, id := range s.PlacedCanaries {
		a := c.Alloc(id)
		switch {
		case slices.Contains(s.PlacedCanaries[:i], id):
			c.addf("I-26", "deployment %s lists the canary %s twice", d.ID, id)
		case a == nil || !d.Active(): // it was collected, or may belong to another deployment by now
		case a.Rest().DeploymentID != d.ID || a.Group.Name != group:
			c.addf("I-26", "deployment %s lists the canary %s of group %q, which does not belong to it", d.ID, id, group)
		case s.Promoted && canary(a) && !a.Ended():
			c.addf("I-25", "deployment %s is promoted, but %s of group %q is still a canary", d.ID, id, group)
		}
	}
}

// deployments checks I-25: a deployment has a known status and belongs to an
// existing version; a job has at most one active deployment, and none newer
// than that; a version has at most one. It also checks the counts, and that no
// deployment outlives its job (I-22).
func (c *checker) deployments() {
	of := map[version]berth.DeploymentID{}
	active, newest := map[berth.UID]*berth.Deployment{}, map[berth.UID]*berth.Deployment{}
	for d := range c.Deployments() {
		k := version{d.JobUID, d.JobVersion}
		if other, ok := of[k]; ok {
			c.addf("I-25", "version %d of job %s has the deployments %s and %s", d.JobVersion, d.Key(), other, d.ID)
		}
		of[k] = d.ID
		c.recount(d)
		if n := newest[d.JobUID]; n == nil || n.JobVersion < d.JobVersion {
			newest[d.JobUID] = d
		}
		switch j := c.Job(d.Key()); {
		case j == nil || j.UID != d.JobUID:
			c.addf("I-22", "deployment %s belongs to job %s, which does not exist", d.ID, d.Key())
		case d.JobVersion > j.Version:
			c.addf("I-25", "deployment %s is for version %d of job %s, which is at version %d", d.ID, d.JobVersion, d.Key(), j.Version)
		}
		// Only active deployments are compared further.
		switch d.Status {
		case berth.DeploymentRunning, berth.DeploymentPaused:
		case berth.DeploymentFailed, berth.DeploymentSuccessful, berth.DeploymentCancelled:
			continue
		default:
			c.addf("I-25", "deployment %s has the status %q", d.ID, d.Status)
			continue
		}
		if other, ok := active[d.JobUID]; ok {
			c.addf("I-25", "job %s has the active deployments %s and %s", d.Key(), other.ID, d.ID)
		}
		active[d.JobUID] = d
	}
	for uid, d := range active {
		if n := newest[uid]; n.JobVersion > d.JobVersion {
			c.addf("I-25", "deployment %s is active for version %d of job %s, though %s exists for version %d", d.ID, d.JobVersion, d.Key(), n.ID, n.JobVersion)
		}
	}
}

package invariant

import (
	"slices"

	"berth"
)

// promoted returns the deployment that an allocation was a canary of before it
// was promoted; zero if of none.
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

// lives says whether an incarnation of a job is there. Its deployments go with
// it, before what they placed.
func (c *checker) lives(k berth.JobKey, uid berth.UID) bool {
	j := c.Job(k)
	return j != nil && j.UID == uid
}

// member counts an allocation for its deployment.
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

// recount checks I-26: the counts of a deployment are those of its allocations.
// Of one that has ended, allocations can be gone, or of another by now.
func (c *checker) recount(d *berth.Deployment) {
	counts := c.members[d.ID]
	for name, s := range d.TaskGroups {
		have, want := [3]int{s.PlacedAllocs, s.HealthyAllocs, s.UnhealthyAllocs}, [3]int{}
		if n := counts[name]; n != nil {
			want = *n
		}
		for i := range have {
			if have[i] < want[i] || d.Active() && have[i] != want[i] {
				c.addf("I-26", "deployment %s counts %v placed, healthy and unhealthy of group %q; they are %v", d.ID, have, name, want)
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
			c.addf("I-26", "allocations of group %q are of deployment %s, which does not have it", name, d.ID)
		}
	}
}

// canaries checks that the canaries of a group are allocations of it, each
// once, and canaries no more once they were promoted.
func (c *checker) canaries(d *berth.Deployment, group string, s *berth.DeploymentState) {
	if s.DesiredCanaries > s.DesiredTotal {
		c.addf("I-26", "deployment %s wants %d canaries of group %q, and %d instances", d.ID, s.DesiredCanaries, group, s.DesiredTotal)
	}
	for i, id := range s.PlacedCanaries {
		a := c.Alloc(id)
		switch {
		case slices.Contains(s.PlacedCanaries[:i], id):
			c.addf("I-26", "deployment %s names the canary %s twice", d.ID, id)
		case a == nil || !d.Active(): // it was collected, or can be another's by now
		case a.Rest().DeploymentID != d.ID || a.Group.Name != group:
			c.addf("I-26", "deployment %s names the canary %s of group %q, which is not its own", d.ID, id, group)
		case s.Promoted && canary(a) && !a.Ended():
			c.addf("I-25", "deployment %s is promoted, and %s of group %q is a canary still", d.ID, id, group)
		}
	}
}

// deployments checks I-25: a deployment has a status that there is and is for a
// version that there was; a job has one that goes on at most, and none that is
// newer; none has two for one version. It checks the counts, and that none
// outlives its job (I-22).
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
			c.addf("I-22", "deployment %s is of job %s, which is not there", d.ID, d.Key())
		case d.JobVersion > j.Version:
			c.addf("I-25", "deployment %s is for version %d of job %s, which is at version %d", d.ID, d.JobVersion, d.Key(), j.Version)
		}
		switch d.Status {
		case berth.DeploymentRunning, berth.DeploymentPaused:
		case berth.DeploymentFailed, berth.DeploymentSuccessful, berth.DeploymentCancelled:
			continue
		default:
			c.addf("I-25", "deployment %s has the status %q", d.ID, d.Status)
			continue
		}
		if other, ok := active[d.JobUID]; ok {
			c.addf("I-25", "job %s has the deployments %s and %s", d.Key(), other.ID, d.ID)
		}
		active[d.JobUID] = d
	}
	for uid, d := range active {
		if n := newest[uid]; n.JobVersion > d.JobVersion {
			c.addf("I-25", "deployment %s goes on for version %d of job %s, and %s was made for version %d", d.ID, d.JobVersion, d.Key(), n.ID, n.JobVersion)
		}
	}
}

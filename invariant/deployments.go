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

// recount checks I-26: the counts of a deployment are those of its allocations.
// Of one that has ended, allocations can be gone, or of another by now.
func (c *checker) recount(d *berth.Deployment) {
	counts := map[string]*[3]int{}
	for a := range c.AllocsOf(d.Key()) {
		if a.Rest().DeploymentID != d.ID {
			continue
		}
		n := counts[a.Group.Name]
		if n == nil {
			n = new([3]int)
			counts[a.Group.Name] = n
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
	}
}

// deployments checks I-25: a job has one deployment that goes on at most, and
// that is for its newest version or one before; none has two for one version.
// It checks the counts, and that none outlives its job (I-22).
func (c *checker) deployments() {
	type version struct {
		uid     berth.UID
		version uint64
	}
	of := map[version]berth.DeploymentID{}
	active := map[berth.UID]berth.DeploymentID{}
	for d := range c.Deployments() {
		k := version{d.JobUID, d.JobVersion}
		if other, ok := of[k]; ok {
			c.addf("I-25", "version %d of job %s has the deployments %s and %s", d.JobVersion, d.Key(), other, d.ID)
		}
		of[k] = d.ID
		c.recount(d)
		if !c.lives(d.Key(), d.JobUID) {
			c.addf("I-22", "deployment %s is of job %s, which is not there", d.ID, d.Key())
		}
		if !d.Active() {
			continue
		}
		if other, ok := active[d.JobUID]; ok {
			c.addf("I-25", "job %s has the deployments %s and %s", d.Key(), other, d.ID)
		}
		active[d.JobUID] = d.ID
	}
}

package invariant

import (
	"slices"

	"berth"
)

// canary says whether an allocation was placed as a canary.
func (c *checker) canary(a *berth.Alloc) bool {
	id := a.Rest().DeploymentID
	if id.IsZero() {
		return false
	}
	if s := a.Rest().DeploymentStatus; s != nil && s.Canary {
		return true
	}
	d := c.Deployment(id)
	return d != nil && d.TaskGroups[a.Group.Name] != nil && slices.Contains(d.TaskGroups[a.Group.Name].PlacedCanaries, a.ID)
}

// deployments checks I-25: a job has one deployment that goes on at most, and
// that is for its newest version or one before; none has two for one version.
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
		if !d.Active() {
			continue
		}
		if other, ok := active[d.JobUID]; ok {
			c.addf("I-25", "job %s has the deployments %s and %s", d.Key(), other, d.ID)
		}
		active[d.JobUID] = d.ID
	}
}

package admit

import (
	"time"

	"berth"
)

// update checks how a new version of a service or of a system job, or of a group
// of it, replaces the old one.
func (c *checker) update(at string, j *berth.Job, u *berth.UpdateStrategy) {
	switch {
	case u == nil || j.Type == berth.TypeSysbatch:
		return
	case j.Type == berth.TypeBatch:
		if u.MaxParallel != 0 {
			c.addf(at, "is not for jobs of type batch: their instances end by themselves; allowed is max_parallel = 0")
		}
		return
	}
	c.between(at+".max_parallel", int64(u.MaxParallel), 0, berth.MaxCount)
	canaries := int64(berth.MaxCount)
	if j.PerNode() {
		canaries = 100 // percent of the nodes
	}
	c.between(at+".canary", int64(u.Canary), 0, canaries)
	c.oneOf(at+".health_check", u.HealthCheck, berth.HealthChecks, berth.HealthTaskStates, berth.HealthManual)
	c.duration(at+".stagger", u.Stagger, 0)
	c.duration(at+".min_healthy_time", u.MinHealthyTime, 0)
	c.duration(at+".healthy_deadline", u.HealthyDeadline, time.Millisecond)
	c.duration(at+".progress_deadline", u.ProgressDeadline, 0)
	if u.MinHealthyTime >= u.HealthyDeadline && u.HealthyDeadline > 0 {
		c.addf(at+".min_healthy_time", "%v is too long; allowed is less than healthy_deadline, %v", u.MinHealthyTime, u.HealthyDeadline)
	}
	if u.ProgressDeadline != 0 && u.HealthyDeadline >= u.ProgressDeadline {
		c.addf(at+".healthy_deadline", "%v is too long; allowed is less than progress_deadline, %v, or progress_deadline = 0, with which the first unhealthy allocation fails the deployment", u.HealthyDeadline, u.ProgressDeadline)
	}
	if u.AutoPromote && u.Canary == 0 {
		c.addf(at+".auto_promote", "needs canaries; allowed is false, or canary above 0")
	}
}

// migrate checks how allocations leave draining nodes. Jobs that run on every
// node, and stream jobs, are told elsewhere that it is not for them.
func (c *checker) migrate(at string, j *berth.Job, m *berth.MigrateStrategy) {
	switch {
	case m == nil, j.PerNode(), j.Type == berth.TypeStream:
	case j.Type != berth.TypeService:
		c.addf(at, "is not for jobs of type %s, which run on until the drain's deadline", j.Type)
	default:
		c.between(at+".max_parallel", int64(m.MaxParallel), 0, berth.MaxCount)
		c.oneOf(at+".health_check", m.HealthCheck, berth.HealthChecks, berth.HealthTaskStates)
		c.duration(at+".min_healthy_time", m.MinHealthyTime, 0)
		c.duration(at+".healthy_deadline", m.HealthyDeadline, 0)
		if m.MinHealthyTime >= m.HealthyDeadline {
			c.addf(at+".min_healthy_time", "%s is not below healthy_deadline, %s, so nothing would become healthy in time", m.MinHealthyTime, m.HealthyDeadline)
		}
	}
}

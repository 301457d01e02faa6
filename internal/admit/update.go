package admit

import (
	"time"

	"berth"
)

// update checks the update block of a job or group.
func (c *checker) update(at string, j *berth.Job, u *berth.UpdateStrategy) {
	switch {
	case u == nil || j.Type == berth.TypeSysbatch:
		return
	case j.Type == berth.TypeBatch:
		if u.MaxParallel != 0 {
			c.addf(at, "is not for jobs of type batch, whose instances end by themselves; only max_parallel = 0 is allowed")
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
		c.addf(at+".min_healthy_time", "must be below healthy_deadline, %v, got %v", u.HealthyDeadline, u.MinHealthyTime)
	}
	if u.ProgressDeadline != 0 && u.HealthyDeadline >= u.ProgressDeadline {
		c.addf(at+".healthy_deadline", "must be below progress_deadline, %v, got %v; progress_deadline = 0 lets the first unhealthy allocation fail the deployment", u.ProgressDeadline, u.HealthyDeadline)
	}
	if u.AutoPromote && u.Canary == 0 {
		c.addf(at+".auto_promote", "needs canary to be above 0")
	}
}

// migrate checks the migrate block. Jobs that run on every node, and stream
// jobs, are refused one elsewhere.
func (c *checker) migrate(at string, j *berth.Job, m *berth.MigrateStrategy) {
	switch {
	case m == nil, j.PerNode(), j.Type == berth.TypeStream:
	case !hasType(j, berth.TypeService):
		c.addf(at, "is not for jobs of type %s, which keep running until the drain's deadline", j.Type)
	default:
		c.between(at+".max_parallel", int64(m.MaxParallel), 0, berth.MaxCount)
		c.oneOf(at+".health_check", m.HealthCheck, berth.HealthChecks, berth.HealthTaskStates)
		c.duration(at+".min_healthy_time", m.MinHealthyTime, 0)
		c.duration(at+".healthy_deadline", m.HealthyDeadline, 0)
		if m.MinHealthyTime > m.HealthyDeadline {
			c.addf(at+".min_healthy_time", "must be at most healthy_deadline, %s, got %s", m.HealthyDeadline, m.MinHealthyTime)
		}
	}
}

package berth

import "time"

// The ways in which an allocation of a deployment becomes healthy.
const (
	HealthChecks     = "checks"      // its tasks run and all its checks pass; without checks its tasks alone count
	HealthTaskStates = "task_states" // its tasks run
	HealthManual     = "manual"      // somebody says so
)

// update checks how a new version of a service or of a system job, or of a group
// of it, replaces the old one.
func (c *checker) update(at string, j *Job, u *UpdateStrategy) {
	switch {
	case u == nil || j.Type == TypeSysbatch:
		return
	case j.Type == TypeBatch:
		if u.MaxParallel != 0 {
			c.addf(at, "is not for jobs of type batch: their instances end by themselves; allowed is max_parallel = 0")
		}
		return
	}
	c.between(at+".max_parallel", int64(u.MaxParallel), 0, MaxCount)
	canaries := int64(MaxCount)
	if j.PerNode() {
		canaries = 100 // percent of the nodes
	}
	c.between(at+".canary", int64(u.Canary), 0, canaries)
	c.oneOf(at+".health_check", u.HealthCheck, HealthChecks, HealthTaskStates, HealthManual)
	c.period(at+".stagger", u.Stagger, 0)
	c.period(at+".min_healthy_time", u.MinHealthyTime, 0)
	c.period(at+".healthy_deadline", u.HealthyDeadline, time.Millisecond)
	c.period(at+".progress_deadline", u.ProgressDeadline, 0)
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

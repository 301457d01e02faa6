package berth

// migrate checks how allocations leave draining nodes. Jobs that run on every
// node, and stream jobs, are told elsewhere that it is not for them.
func (c *checker) migrate(at string, j *Job, m *MigrateStrategy) {
	switch {
	case m == nil, j.PerNode(), j.Type == TypeStream:
	case j.Type != TypeService:
		c.addf(at, "is not for jobs of type %s, which run on until the drain's deadline", j.Type)
	default:
		c.between(at+".max_parallel", int64(m.MaxParallel), 0, MaxCount)
		c.oneOf(at+".health_check", m.HealthCheck, HealthChecks, HealthTaskStates)
		c.period(at+".min_healthy_time", m.MinHealthyTime, 0)
		c.period(at+".healthy_deadline", m.HealthyDeadline, 0)
		if m.MinHealthyTime >= m.HealthyDeadline {
			c.addf(at+".min_healthy_time", "%s is not below healthy_deadline, %s, so nothing would become healthy in time", m.MinHealthyTime, m.HealthyDeadline)
		}
	}
}

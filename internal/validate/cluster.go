package validate

import "berth"

// maxStartsPerNode bounds MaxStartsPerNode; a higher value is a typing error.
const maxStartsPerNode = 1_000_000

// SchedulerConfig fills in defaults and returns every problem of the settings.
func SchedulerConfig(c *berth.SchedulerConfig) error {
	var ps berth.Problems
	if c.SchedulerAlgorithm == "" {
		c.SchedulerAlgorithm = berth.AlgorithmBinpack
	}
	checkAlgorithm(&ps, "SchedulerAlgorithm", c.SchedulerAlgorithm)
	if c.MaxStartsPerNode > maxStartsPerNode {
		ps.Addf("MaxStartsPerNode", "must be 0 to %d, got %d", maxStartsPerNode, c.MaxStartsPerNode)
	}
	return ps.Err()
}

// checkAlgorithm notes a problem if the scheduler algorithm is unknown.
func checkAlgorithm(ps *berth.Problems, at, name string) {
	switch name {
	case berth.AlgorithmBinpack, berth.AlgorithmSpread, berth.AlgorithmBalanced:
	default:
		ps.Addf(at, "unknown algorithm %.40q: want %s, %s or %s", name, berth.AlgorithmBinpack, berth.AlgorithmSpread, berth.AlgorithmBalanced)
	}
}

// AutopilotConfig returns every problem of the settings.
func AutopilotConfig(c *berth.AutopilotConfig) error {
	var ps berth.Problems
	if c.LastContactThreshold <= 0 {
		ps.Addf("LastContactThreshold", "must be above 0s, got %v", c.LastContactThreshold)
	}
	if c.ServerStabilizationTime < 0 {
		ps.Addf("ServerStabilizationTime", "must be at least 0s, got %v", c.ServerStabilizationTime)
	}
	return ps.Err()
}

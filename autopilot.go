package berth

import "time"

// AutopilotConfig is how the cluster looks after its own servers.
type AutopilotConfig struct {
	CleanupDeadServers      bool          // servers that failed are removed, as long as most remain
	LastContactThreshold    time.Duration // a server that heard the leader longer ago is not healthy
	MaxTrailingLogs         uint64        // nor is one that is more entries behind
	MinQuorum               uint          // no server is removed if fewer voters would remain; 0: no more than the others can lose
	ServerStabilizationTime time.Duration // a new server is healthy for so long before it votes
	CreateIndex             uint64
	ModifyIndex             uint64
}

// DefaultAutopilotConfig is what holds until an operator says otherwise.
var DefaultAutopilotConfig = AutopilotConfig{
	CleanupDeadServers: true, LastContactThreshold: 200 * time.Millisecond, MaxTrailingLogs: 250, ServerStabilizationTime: 10 * time.Second,
}

// Validate returns all that is wrong.
func (c *AutopilotConfig) Validate() error {
	var ps Problems
	if c.LastContactThreshold <= 0 {
		ps.Addf("LastContactThreshold", "%v; it must be above 0", c.LastContactThreshold)
	}
	if c.ServerStabilizationTime < 0 {
		ps.Addf("ServerStabilizationTime", "%v is below 0", c.ServerStabilizationTime)
	}
	return ps.Err()
}

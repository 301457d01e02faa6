package berth

import "time"

// SchedulerConfig is how operators want the whole cluster scheduled.
type SchedulerConfig struct {
	SchedulerAlgorithm            string // binpack, spread or balanced
	PreemptionConfig              PreemptionConfig
	MemoryOversubscriptionEnabled bool
	RejectJobRegistration         bool // no job may be registered
	PauseEvalBroker               bool // no evaluation is given to a scheduler
	NodeLimitForFeasibilityChecks uint // kept for scripts that set it; every node is looked at
	MaxStartsPerNode              uint // of one plan on one node, while others can take them; 0: no cap
	CreateIndex                   uint64
	ModifyIndex                   uint64
}

// PreemptionConfig says jobs of which types may take the place of less urgent
// ones.
type PreemptionConfig struct {
	SystemSchedulerEnabled   bool
	SysBatchSchedulerEnabled bool
	BatchSchedulerEnabled    bool
	ServiceSchedulerEnabled  bool
}

// The algorithms.
const (
	AlgorithmBinpack  = "binpack"  // fills one node before it begins the next
	AlgorithmSpread   = "spread"   // prefers the node with the most room
	AlgorithmBalanced = "balanced" // fills nodes so that what is left of cpu and memory can be used together
)

// DefaultSchedulerConfig is what holds until an operator says otherwise: only
// system jobs may take the place of others.
var DefaultSchedulerConfig = SchedulerConfig{
	SchedulerAlgorithm: AlgorithmBinpack,
	PreemptionConfig:   PreemptionConfig{SystemSchedulerEnabled: true},
}

// maxStartsPerNode bounds MaxStartsPerNode; more than this is a slip.
const maxStartsPerNode = 1_000_000

// Validate fills in what is left out and returns all that is wrong.
func (c *SchedulerConfig) Validate() error {
	var ps Problems
	if c.SchedulerAlgorithm == "" {
		c.SchedulerAlgorithm = AlgorithmBinpack
	}
	checkAlgorithm(&ps, "SchedulerAlgorithm", c.SchedulerAlgorithm)
	if c.MaxStartsPerNode > maxStartsPerNode {
		ps.Addf("MaxStartsPerNode", "%d is out of range; allowed are 0 to %d", c.MaxStartsPerNode, maxStartsPerNode)
	}
	return ps.Err()
}

func checkAlgorithm(ps *Problems, at, name string) {
	switch name {
	case AlgorithmBinpack, AlgorithmSpread, AlgorithmBalanced:
	default:
		ps.Addf(at, "%.40q is not known; allowed are %s, %s and %s", name, AlgorithmBinpack, AlgorithmSpread, AlgorithmBalanced)
	}
}

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

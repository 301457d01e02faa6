package berth

import "time"

// SchedulerConfig holds the scheduling settings of the whole cluster.
type SchedulerConfig struct {
	SchedulerAlgorithm            string // binpack, spread or balanced
	PreemptionConfig              PreemptionConfig
	MemoryOversubscriptionEnabled bool
	RejectJobRegistration         bool // no job may be registered
	PauseEvalBroker               bool // evaluations are not handed to workers
	NodeLimitForFeasibilityChecks uint // kept for scripts that set it; every node is looked at
	MaxStartsPerNode              uint // per plan and node, while other nodes have capacity; 0: no limit
	CreateIndex                   uint64
	ModifyIndex                   uint64
}

// PreemptionConfig holds the job types that may preempt less urgent jobs.
type PreemptionConfig struct {
	SystemSchedulerEnabled   bool
	SysBatchSchedulerEnabled bool
	BatchSchedulerEnabled    bool
	ServiceSchedulerEnabled  bool
}

// The algorithms.
const (
	AlgorithmBinpack  = "binpack"  // fills one node before it begins the next
	AlgorithmSpread   = "spread"   // prefers the node with the most free capacity
	AlgorithmBalanced = "balanced" // fills nodes so that their free CPU and memory can be used together
)

// DefaultSchedulerConfig returns the settings of a new cluster: only system jobs
// may preempt others.
var DefaultSchedulerConfig = SchedulerConfig{
	SchedulerAlgorithm: AlgorithmBinpack,
	PreemptionConfig:   PreemptionConfig{SystemSchedulerEnabled: true},
}

// AutopilotConfig holds the settings for adding and removing servers.
type AutopilotConfig struct {
	CleanupDeadServers      bool          // servers that failed are removed, as long as most remain
	LastContactThreshold    time.Duration // a server that last heard from the leader longer ago is unhealthy
	MaxTrailingLogs         uint64        // a server that is more log entries behind is unhealthy
	MinQuorum               uint          // no server is removed if fewer voters would remain; 0: no more than the others can lose
	ServerStabilizationTime time.Duration // how long a new server must be healthy before it votes
	CreateIndex             uint64
	ModifyIndex             uint64
}

// DefaultAutopilotConfig returns the settings of a new cluster.
var DefaultAutopilotConfig = AutopilotConfig{
	CleanupDeadServers: true, LastContactThreshold: 200 * time.Millisecond, MaxTrailingLogs: 250, ServerStabilizationTime: 10 * time.Second,
}

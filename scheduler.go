package berth

// SchedulerConfig is how operators want the whole cluster scheduled.
type SchedulerConfig struct {
	SchedulerAlgorithm            string // binpack
	PreemptionConfig              PreemptionConfig
	MemoryOversubscriptionEnabled bool
	RejectJobRegistration         bool // no job may be registered
	PauseEvalBroker               bool // no evaluation is given to a scheduler
	NodeLimitForFeasibilityChecks uint // 0: every node is looked at
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

// AlgorithmBinpack fills one node before it begins the next.
const AlgorithmBinpack = "binpack"

// DefaultSchedulerConfig is what holds until an operator says otherwise.
var DefaultSchedulerConfig = SchedulerConfig{SchedulerAlgorithm: AlgorithmBinpack}

// Validate fills in what is left out and returns all that is wrong, and all
// that is not built yet.
func (c *SchedulerConfig) Validate() error {
	var ps Problems
	if c.SchedulerAlgorithm == "" {
		c.SchedulerAlgorithm = AlgorithmBinpack
	}
	if c.SchedulerAlgorithm != AlgorithmBinpack {
		ps.Addf("SchedulerAlgorithm", "%.40q is not built yet; allowed is %s", c.SchedulerAlgorithm, AlgorithmBinpack)
	}
	for _, p := range []struct {
		name string
		on   bool
	}{
		{"SystemSchedulerEnabled", c.PreemptionConfig.SystemSchedulerEnabled},
		{"SysBatchSchedulerEnabled", c.PreemptionConfig.SysBatchSchedulerEnabled},
		{"BatchSchedulerEnabled", c.PreemptionConfig.BatchSchedulerEnabled},
		{"ServiceSchedulerEnabled", c.PreemptionConfig.ServiceSchedulerEnabled},
	} {
		if p.on {
			ps.Addf("PreemptionConfig."+p.name, "preemption is not built yet; allowed is false")
		}
	}
	if c.MemoryOversubscriptionEnabled {
		ps.Addf("MemoryOversubscriptionEnabled", "memory oversubscription is not built yet; allowed is false")
	}
	if c.NodeLimitForFeasibilityChecks != 0 {
		ps.Addf("NodeLimitForFeasibilityChecks", "%d: every node is looked at, a limit is not built; allowed is 0", c.NodeLimitForFeasibilityChecks)
	}
	return ps.Err()
}

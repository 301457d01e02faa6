package validate

import (
	"testing"

	"berth"
)

// What operators get without asking is what Nomad documents: only system jobs
// may preempt others.
func TestTheSchedulerConfigurationThatHoldsByDefault(t *testing.T) {
	c := berth.DefaultSchedulerConfig
	if err := SchedulerConfig(&c); err != nil || c != berth.DefaultSchedulerConfig {
		t.Errorf("the default is not valid as it is: %v", err)
	}
	if c.SchedulerAlgorithm != "binpack" || c.PreemptionConfig != (berth.PreemptionConfig{SystemSchedulerEnabled: true}) ||
		c.MemoryOversubscriptionEnabled || c.RejectJobRegistration || c.PauseEvalBroker || c.MaxStartsPerNode != 0 {
		t.Errorf("the default is %+v", c)
	}
	for _, name := range []string{"", "binpack", "spread", "balanced"} {
		c := berth.SchedulerConfig{SchedulerAlgorithm: name, NodeLimitForFeasibilityChecks: 7, MaxStartsPerNode: 3}
		if err := SchedulerConfig(&c); err != nil || c.SchedulerAlgorithm == "" || c.NodeLimitForFeasibilityChecks != 7 {
			t.Errorf("%q: %v, %+v", name, err, c)
		}
	}
	c = berth.SchedulerConfig{SchedulerAlgorithm: "tetris", MaxStartsPerNode: 1_000_001}
	want := "2 problems:\n  * SchedulerAlgorithm: unknown algorithm \"tetris\": want binpack, spread or balanced\n" +
		"  * MaxStartsPerNode: must be 0 to 1000000, got 1000001"
	if err := SchedulerConfig(&c); err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
}

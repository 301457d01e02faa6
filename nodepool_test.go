package berth

import (
	"strings"
	"testing"
	"time"
)

func TestNodePoolsAreChecked(t *testing.T) {
	algorithm := func(name string) *PoolSchedulerConfig { return &PoolSchedulerConfig{SchedulerAlgorithm: name} }
	for _, c := range []struct {
		pool NodePool
		want string // "" is nothing wrong
	}{
		{NodePool{Name: "dev"}, ""},
		{NodePool{Name: "Prod_2-b", Description: "two\nlines", Meta: map[string]string{"a": "b"}, SchedulerConfiguration: algorithm("balanced")}, ""},
		{NodePool{Name: strings.Repeat("x", 128)}, ""},
		{NodePool{Name: strings.Repeat("x", 129)}, "Name: "},
		{NodePool{}, `Name: "" is not a valid name of a node pool: want letters, digits, - and _, 1 to 128`},
		{NodePool{Name: "a.b"}, `Name: "a.b" is not a valid name`},
		{NodePool{Name: "a b"}, `Name: "a b" is not a valid name`},
		{NodePool{Name: "default"}, `Name: "default" is built in and cannot be changed`},
		{NodePool{Name: "all"}, `Name: "all" is built in and cannot be changed`},
		{NodePool{Name: "dev", Description: strings.Repeat("x", 257)}, "Description: is not text of at most 256 bytes"},
		{NodePool{Name: "dev", Meta: map[string]string{"": "x"}}, "Meta: "},
		{NodePool{Name: "dev", NodeIdentityTTL: -time.Second}, "NodeIdentityTTL: -1s is below 0"},
		{NodePool{Name: "dev", SchedulerConfiguration: algorithm("tetris")},
			`SchedulerConfiguration.SchedulerAlgorithm: unknown algorithm "tetris": want binpack, spread or balanced`},
	} {
		err := c.pool.Validate()
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%.20q: %v", c.pool.Name, err)
		case c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want) || KindOf(err) != Invalid):
			t.Errorf("%.20q: %v, not %s", c.pool.Name, err, c.want)
		}
	}
	p := NodePool{Name: "dev"}
	if err := p.Validate(); err != nil || p.NodeIdentityTTL != 24*time.Hour {
		t.Errorf("identities last %v by default (%v)", p.NodeIdentityTTL, err)
	}
}

// What operators get without asking is what Nomad documents: only system jobs
// may evict others.
func TestTheSchedulerConfigurationThatHoldsByDefault(t *testing.T) {
	c := DefaultSchedulerConfig
	if err := c.Validate(); err != nil || c != DefaultSchedulerConfig {
		t.Errorf("the default is not valid as it is: %v", err)
	}
	if c.SchedulerAlgorithm != "binpack" || c.PreemptionConfig != (PreemptionConfig{SystemSchedulerEnabled: true}) ||
		c.MemoryOversubscriptionEnabled || c.RejectJobRegistration || c.PauseEvalBroker || c.MaxStartsPerNode != 0 {
		t.Errorf("the default is %+v", c)
	}
	for _, name := range []string{"", "binpack", "spread", "balanced"} {
		c := SchedulerConfig{SchedulerAlgorithm: name, NodeLimitForFeasibilityChecks: 7, MaxStartsPerNode: 3}
		if err := c.Validate(); err != nil || c.SchedulerAlgorithm == "" || c.NodeLimitForFeasibilityChecks != 7 {
			t.Errorf("%q: %v, %+v", name, err, c)
		}
	}
	c = SchedulerConfig{SchedulerAlgorithm: "tetris", MaxStartsPerNode: 1_000_001}
	want := "2 problems:\n  * SchedulerAlgorithm: unknown algorithm \"tetris\": want binpack, spread or balanced\n" +
		"  * MaxStartsPerNode: must be 0 to 1000000, got 1000001"
	if err := c.Validate(); err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
}

package validate

import (
	"strings"
	"testing"
	"time"

	"berth"
)

func TestNodePoolsAreChecked(t *testing.T) {
	algorithm := func(name string) *berth.PoolSchedulerConfig {
		return &berth.PoolSchedulerConfig{SchedulerAlgorithm: name}
	}
	for _, c := range []struct {
		pool berth.NodePool
		want string // "" is nothing wrong
	}{
		{berth.NodePool{Name: "dev"}, ""},
		{berth.NodePool{Name: "Prod_2-b", Description: "two\nlines", Meta: map[string]string{"a": "b"}, SchedulerConfiguration: algorithm("balanced")}, ""},
		{berth.NodePool{Name: strings.Repeat("x", 128)}, ""},
		{berth.NodePool{Name: strings.Repeat("x", 129)}, "Name: "},
		{berth.NodePool{}, `Name: "" is not a valid name of a node pool: want 1 to 128 letters, digits, - and _`},
		{berth.NodePool{Name: "a.b"}, `Name: "a.b" is not a valid name`},
		{berth.NodePool{Name: "a b"}, `Name: "a b" is not a valid name`},
		{berth.NodePool{Name: "default"}, `Name: "default" is built in and cannot be changed`},
		{berth.NodePool{Name: "all"}, `Name: "all" is built in and cannot be changed`},
		{berth.NodePool{Name: "dev", Description: strings.Repeat("x", 257)}, "Description: is not text of at most 256 bytes"},
		{berth.NodePool{Name: "dev", Meta: map[string]string{"": "x"}}, "Meta: "},
		{berth.NodePool{Name: "dev", NodeIdentityTTL: -time.Second}, "NodeIdentityTTL: must be at least 0s, got -1s"},
		{berth.NodePool{Name: "dev", SchedulerConfiguration: algorithm("tetris")},
			`SchedulerConfiguration.SchedulerAlgorithm: unknown algorithm "tetris": want binpack, spread or balanced`},
	} {
		err := NodePool(&c.pool)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%.20q: %v", c.pool.Name, err)
		case c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want) || berth.KindOf(err) != berth.Invalid):
			t.Errorf("%.20q: %v, not %s", c.pool.Name, err, c.want)
		}
	}
	p := berth.NodePool{Name: "dev"}
	if err := NodePool(&p); err != nil || p.NodeIdentityTTL != 24*time.Hour {
		t.Errorf("identities last %v by default (%v)", p.NodeIdentityTTL, err)
	}
}

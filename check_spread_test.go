package berth

import (
	"strings"
	"testing"
)

// Spread blocks are refused for what no scheduler could mean.
func TestSpreadBlocks(t *testing.T) {
	target := func(list ...SpreadTarget) Spread {
		return Spread{Attribute: "${meta.rack}", Weight: 50, SpreadTarget: list}
	}
	for _, c := range []struct {
		name  string
		block Spread
		want  string // in the error; "" if there is none
	}{
		{"no targets", target(), ""},
		{"weight 0", Spread{Attribute: "${meta.rack}"}, ""},
		{"all of it", target(SpreadTarget{"r1", 60}, SpreadTarget{"r2", 40}), ""},
		{"less than all", target(SpreadTarget{"r1", 60}), ""},
		{"a star", target(SpreadTarget{"r1", 60}, SpreadTarget{"*", 40}), ""},
		{"no attribute", Spread{Weight: 50}, "job.spread[0].attribute: is missing"},
		{"negative weight", Spread{Attribute: "${meta.rack}", Weight: -1}, "job.spread[0].weight: -1 is out of range; allowed are 0 to 100"},
		{"weight over 100", Spread{Attribute: "${meta.rack}", Weight: 101}, "job.spread[0].weight: 101 is out of range"},
		{"negative percent", target(SpreadTarget{"r1", -5}), "job.spread[0].target[r1].percent: -5 is out of range"},
		{"percent over 100", target(SpreadTarget{"r1", 101}), "job.spread[0].target[r1].percent: 101 is out of range"},
		{"more than all", target(SpreadTarget{"r1", 60}, SpreadTarget{"r2", 41}), "job.spread[0].target: the percentages add up to 101; allowed are 100"},
		{"one twice", target(SpreadTarget{"r1", 30}, SpreadTarget{"r1", 30}), "job.spread[0].target[r1]: is there twice"},
	} {
		var k checker
		k.spreads("job", []Spread{c.block})
		got := ""
		if err := k.problems.Err(); err != nil {
			got = err.Error()
		}
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

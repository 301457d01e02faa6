package admit

import (
	"strings"
	"testing"

	"berth"
)

// Invalid spread blocks are refused.
func TestSpreadBlocks(t *testing.T) {
	target := func(list ...berth.SpreadTarget) berth.Spread {
		return berth.Spread{Attribute: "${meta.rack}", Weight: 50, SpreadTarget: list}
	}
	for _, c := range []struct {
		name  string
		block berth.Spread
		want  string // in the error; "" if there is none
	}{
		{"no targets", target(), ""},
		{"weight 0", berth.Spread{Attribute: "${meta.rack}"}, ""},
		{"all of it", target(berth.SpreadTarget{Value: "r1", Percent: 60}, berth.SpreadTarget{Value: "r2", Percent: 40}), ""},
		{"less than all", target(berth.SpreadTarget{Value: "r1", Percent: 60}), ""},
		{"a star", target(berth.SpreadTarget{Value: "r1", Percent: 60}, berth.SpreadTarget{Value: "*", Percent: 40}), ""},
		{"no attribute", berth.Spread{Weight: 50}, "job.spread[0].attribute: is missing"},
		{"negative weight", berth.Spread{Attribute: "${meta.rack}", Weight: -1}, "job.spread[0].weight: must be 0 to 100, got -1"},
		{"weight over 100", berth.Spread{Attribute: "${meta.rack}", Weight: 101}, "job.spread[0].weight: must be 0 to 100, got 101"},
		{"negative percent", target(berth.SpreadTarget{Value: "r1", Percent: -5}), "job.spread[0].target[r1].percent: must be 0 to 100, got -5"},
		{"percent over 100", target(berth.SpreadTarget{Value: "r1", Percent: 101}), "job.spread[0].target[r1].percent: must be 0 to 100, got 101"},
		{"more than all", target(berth.SpreadTarget{Value: "r1", Percent: 60}, berth.SpreadTarget{Value: "r2", Percent: 41}), "job.spread[0].target: the percentages must add up to at most 100, got 101"},
		{"one twice", target(berth.SpreadTarget{Value: "r1", Percent: 30}, berth.SpreadTarget{Value: "r1", Percent: 30}), "job.spread[0].target[r1]: is defined twice"},
	} {
		var k checker
		k.spreads("job", []berth.Spread{c.block})
		got := ""
		if err := k.problems.Err(); err != nil {
			got = err.Error()
		}
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

package state

import (
	"testing"

	"berth"
)

// An allocation shows its own score. What was worked out for the first instance
// of its group explains that one alone.
func TestScoresAreTheAllocationsOwn(t *testing.T) {
	good, other := berth.NodeID{1}, berth.NodeID{2}
	g := &berth.TaskGroup{Name: "g"}
	x := &Explanation{Groups: map[string]*berth.AllocMetric{"g": {NodesEvaluated: 2, ScoreMetaData: []berth.NodeScore{
		{NodeID: good, Scores: map[string]float64{"binpack": 0.75}, NormScore: 0.75},
		{NodeID: other, Scores: map[string]float64{"binpack": 0.5}, NormScore: 0.5},
	}}}}
	for name, c := range map[string]struct {
		on       berth.NodeID
		score    float32
		nodes    int
		binpacks bool
	}{
		"the first instance":                 {good, 0.75, 2, true},
		"a later one on another node":        {other, 0.25, 1, false},
		"a later one on the runner-up":       {other, 0.5, 1, false},
		"a later one on the first's node":    {good, 0.25, 1, false},
		"a later one on a node not compared": {berth.NodeID{3}, 0.125, 1, false},
	} {
		m := x.Of(&berth.Alloc{Group: g, NodeID: c.on, Score: c.score})
		if len(m.ScoreMetaData) != c.nodes || m.NodesEvaluated != 2 {
			t.Errorf("%s: %+v", name, m)
			continue
		}
		own := m.ScoreMetaData[0]
		if own.NodeID != c.on || float32(own.NormScore) != c.score || (len(own.Scores) > 0) != c.binpacks {
			t.Errorf("%s: %+v", name, own)
		}
	}
	if len(x.Groups["g"].ScoreMetaData) != 2 {
		t.Error("the stored explanation was changed")
	}
	if m := x.Of(&berth.Alloc{Group: &berth.TaskGroup{Name: "h"}}); m != nil {
		t.Errorf("a group that was not explained has %+v", m)
	}
}

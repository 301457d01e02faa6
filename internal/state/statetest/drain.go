package statetest

import (
	"time"

	"berth"
	"berth/internal/state"

	"pgregory.net/rapid"
)

// drain draws a command about a node's drain.
func (r *Random) drain(t *rapid.T, s *state.Snapshot) state.Command {
	node := ID[berth.Node](rapid.IntRange(1, 7).Draw(t, "node"))
	switch rapid.IntRange(0, 3).Draw(t, "drain") {
	case 0:
		c := &state.UpdateDrain{ID: node, MarkEligible: rapid.IntRange(0, 3).Draw(t, "eligible") > 0, Seed: r.id(), Now: r.now}
		if rapid.IntRange(0, 2).Draw(t, "begins") == 0 { // a drained node takes nothing, and there are few nodes
			c.Spec = &berth.DrainSpec{
				Deadline:         rapid.SampledFrom([]time.Duration{-1, 0, time.Minute}).Draw(t, "deadline"),
				IgnoreSystemJobs: rapid.Bool().Draw(t, "system stays"),
			}
			c.Meta = rapid.SampledFrom([]map[string]string{nil, {"message": "drawn"}}).Draw(t, "meta")
		}
		return c
	case 1:
		c := &state.FinishDrain{ID: node, Now: r.now}
		c.Stamp(s.Term)
		return c
	}
	c := &state.MigrateAllocs{Node: node, Stop: rapid.Bool().Draw(t, "stop"), Seed: r.id(), Now: r.now}
	c.Stamp(s.Term)
	for a := range s.AllocsOn(node) {
		if rapid.Bool().Draw(t, "leaves") {
			c.Allocs = append(c.Allocs, a.ID)
		}
	}
	return c
}

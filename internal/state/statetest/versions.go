package statetest

import (
	"berth"
	"berth/internal/state"

	"pgregory.net/rapid"
)

// version draws a command about the versions or counts of a job, or about one
// of its allocations, some of which must be refused.
func (r *Random) version(t *rapid.T, s *state.Snapshot) state.Command {
	k := berth.JobKey{Namespace: berth.DefaultNamespace, ID: jobName(t)}
	newest := uint64(2)
	if j := s.Job(k); j != nil {
		newest = j.Version
	}
	version := newest - min(newest, uint64(rapid.IntRange(0, 7).Draw(t, "versions ago")))
	seed := func(trigger string) state.EvalSeed {
		return state.EvalSeed{ID: r.id(), TriggeredBy: trigger, Cause: berth.Cause{Kind: berth.CauseUser}}
	}
	switch rapid.IntRange(0, 6).Draw(t, "of a version") {
	case 0:
		c := &state.RevertJob{Key: k, Version: version, Eval: seed(berth.TriggerJobRegister), Now: r.now}
		if c.Enforce = rapid.IntRange(0, 3).Draw(t, "enforce prior") == 0; c.Enforce {
			c.Prior = newest
		}
		return c
	case 1:
		return &state.SetJobStability{Key: k, Version: version, Stable: rapid.Bool().Draw(t, "stable")}
	case 2, 3:
		return &state.TagVersion{
			Key: k, Version: version, Latest: rapid.Bool().Draw(t, "latest"), Remove: rapid.IntRange(0, 2).Draw(t, "remove") == 0,
			Name: rapid.SampledFrom([]string{"a", "b", "c", "", "a/b"}).Draw(t, "tag"), Now: r.now,
		}
	case 4:
		c := &state.ScaleJob{
			Key: k, Group: rapid.SampledFrom([]string{"g0", "g1", "g9"}).Draw(t, "group"), Message: "drawn", Now: r.now,
			Error: rapid.IntRange(0, 3).Draw(t, "error") == 0, Meta: map[string]any{"cpu": int64(7)},
		}
		if c.Change = rapid.IntRange(0, 3).Draw(t, "change") > 0; c.Change {
			c.Count, c.Eval = int64(rapid.IntRange(-1, 6).Draw(t, "to")), seed(berth.TriggerJobScaling)
		}
		return c
	case 5:
		return &state.SetTrackedVersions{Number: rapid.IntRange(0, 8).Draw(t, "tracked versions")}
	}
	for a := range s.Allocs() {
		if rapid.IntRange(0, 3).Draw(t, "this one") == 0 {
			return &state.StopAlloc{
				ID: a.ID, NoShutdownDelay: rapid.Bool().Draw(t, "at once"), Eval: seed(berth.TriggerAllocStop), Now: r.now,
			}
		}
	}
	return &state.StopAlloc{ID: ID[berth.Alloc](1), Eval: seed(berth.TriggerAllocStop), Now: r.now}
}

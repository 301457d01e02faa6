package statetest

import (
	"slices"

	"berth"
	"berth/internal/state"

	"pgregory.net/rapid"
)

// delete draws the deletion of a job that may exist or not, by its UID, by
// another's or by name alone.
func (r *Random) delete(t *rapid.T, s *state.Snapshot) state.Command {
	c := &state.DeleteJob{
		Key:    berth.JobKey{Namespace: berth.DefaultNamespace, ID: jobName(t)},
		Policy: rapid.SampledFrom([]berth.Propagation{berth.Foreground, berth.Foreground, berth.Orphan, berth.Background}).Draw(t, "propagation"),
		Intent: berth.IntentUser, Force: rapid.IntRange(0, 3).Draw(t, "force") == 0, NoShutdownDelay: rapid.Bool().Draw(t, "no delay"), Now: r.now,
		Eval: state.EvalSeed{ID: r.id(), TriggeredBy: berth.TriggerJobDeregister, Cause: berth.Cause{Kind: berth.CauseUser}},
	}
	if marked := slices.Collect(s.Deletions()); len(marked) > 0 && rapid.Bool().Draw(t, "again") {
		c.Key = rapid.SampledFrom(marked).Draw(t, "marked").Key
	}
	if rapid.IntRange(0, 7).Draw(t, "a parent") == 0 {
		c.Key.ID = rapid.SampledFrom([]berth.JobID{"cron", "call"}).Draw(t, "parent")
	}
	if j := s.Job(c.Key); j != nil {
		if !j.Schedulable() {
			c.Eval = state.EvalSeed{}
		}
		switch rapid.IntRange(0, 3).Draw(t, "uid") {
		case 0:
			c.UID = j.UID
		case 1:
			c.UID = berth.UID{Index: j.UID.Index - 1}
		}
	}
	return c
}

// finalize draws the removal of jobs that are being deleted, and of some that
// are not, or that something still holds.
func (r *Random) finalize(t *rapid.T, s *state.Snapshot) state.Command {
	c := &state.FinalizeDeletions{}
	c.Stamp(s.Term)
	reckless := rapid.IntRange(0, 3).Draw(t, "reckless") == 0
	for d := range s.Deletions() {
		if reckless || s.Blocking(d.Key, d.UID) == 0 {
			c.Jobs = append(c.Jobs, state.JobRef{Key: d.Key, UID: d.UID})
		}
	}
	if rapid.IntRange(0, 3).Draw(t, "another") == 0 {
		c.Jobs = append(c.Jobs, state.JobRef{Key: berth.JobKey{Namespace: berth.DefaultNamespace, ID: jobName(t)}, UID: berth.UID{Index: 1}})
	}
	return c
}

// About draws a command that creates or deletes jobs, or concerns their
// allocations.
func (r *Random) About(t *rapid.T, s *state.Snapshot) state.Command {
	r.now += int64(rapid.IntRange(1, 1000).Draw(t, "time"))
	switch rapid.IntRange(0, 14).Draw(t, "about") {
	case 0:
		return r.node(t, s)
	case 1:
		return r.status(t, s)
	case 2, 3:
		return r.register(t, s)
	case 4, 5, 6:
		return r.plan(t, s)
	case 7, 8, 9:
		return r.report(t, s)
	case 10, 11, 12:
		return r.delete(t, s)
	case 13:
		return r.service(t, s)
	}
	return r.finalize(t, s)
}

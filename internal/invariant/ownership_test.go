package invariant_test

import (
	"slices"
	"testing"

	"berth"
	"berth/internal/invariant"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// deleted is the small cluster, its job deleted so.
func deleted(t *testing.T, policy berth.Propagation) (before, after *state.Snapshot, changes []state.Change) {
	t.Helper()
	before = cluster(t)
	tx := state.Begin(before)
	c := &state.DeleteJob{Key: key("web"), Policy: policy, Intent: berth.IntentUser, Now: 9, Eval: state.EvalSeed{
		ID: statetest.ID[berth.Eval](30), TriggeredBy: berth.TriggerJobDeregister, Cause: berth.Cause{Kind: berth.CauseUser},
	}}
	if r := tx.Apply(c); r.Err != nil {
		t.Fatal(r.Err)
	}
	b := tx.End()
	return before, b.Snapshot, b.Changes
}

func mark(s *state.Snapshot) *state.JobDeletion { return slices.Collect(s.Deletions())[0] }

// What deletions do is sound, whatever becomes of what the job runs.
func TestDeletionsAreSound(t *testing.T) {
	for _, p := range berth.Propagations {
		before, after, changes := deleted(t, p)
		found := slices.Concat(invariant.Check(after), invariant.Changed(before, changes), invariant.Between(before, after), invariant.Step(before, after))
		if found != nil {
			t.Errorf("%s: %v", p, found)
		}
	}
}

func TestCheckFindsDeletions(t *testing.T) {
	for _, x := range []struct {
		what, id string
		how      berth.Propagation
		plant    func(s *state.Snapshot)
	}{
		{"a job that is deleted and shall run", "I-41", berth.Foreground, func(s *state.Snapshot) { s.Job(key("web")).Stop = false }},
		{"the mark of another job", "I-41", berth.Foreground, func(s *state.Snapshot) { mark(s).UID.Index++ }},
		{"the mark of a job that is not there", "I-41", berth.Foreground, func(s *state.Snapshot) { mark(s).Key.ID = "gone" }},
		{"a mark without a reason", "I-41", berth.Foreground, func(s *state.Snapshot) { mark(s).Deletion.Intent = "" }},
		{"a mark that waits for nothing", "I-41", berth.Foreground, func(s *state.Snapshot) { mark(s).Deletion.Policy = berth.Orphan }},
		{"a mark of tomorrow", "I-41", berth.Foreground, func(s *state.Snapshot) { mark(s).Deletion.RequestIndex += 5 }},
		{"something that was placed for a job that is deleted", "I-41", berth.Foreground, func(s *state.Snapshot) { allocs(s)[0].CreateIndex = s.Index }},
		{"an orphan whose job is there", "I-43", berth.Foreground, func(s *state.Snapshot) { allocs(s)[0].Orphaned = true }},
	} {
		_, s, _ := deleted(t, x.how)
		x.plant(s)
		expect(t, x.what, x.id, invariant.Check(s))
	}
}

func TestChangedFindsDeletions(t *testing.T) {
	_, orphaned, changes := deleted(t, berth.Orphan)
	base := cluster(t)
	for i, c := range changes { // the mark of one of them was forgotten
		if a, ok := c.New.(*berth.Alloc); ok {
			b := *a
			b.Orphaned = false
			changes[i].New = &b
			break
		}
	}
	expect(t, "a job goes, and nothing looks at what it runs", "I-42", invariant.Changed(base, changes))

	_, s, _ := deleted(t, berth.Foreground)
	j := s.Job(key("web"))
	gone := state.Change{Table: state.Jobs, By: state.NumberOf(&state.FinalizeDeletions{}), Index: 100, Old: j}
	expect(t, "a job goes before what it owns", "I-42", invariant.Changed(s, []state.Change{gone}))
	put := state.Change{Table: state.Jobs, By: state.NumberOf(&state.DeleteJob{}), Index: 100, Old: j, New: j}
	expect(t, "a job is marked without an evaluation", "I-02", invariant.Changed(s, []state.Change{put}))
	base = cluster(t)
	a := allocs(base)[0]
	lost := *a
	lost.Client = berth.ClientLost
	for what, c := range map[string]state.Change{
		"something is lost of a job that is placed": {By: state.NumberOf(&state.ApplyPlan{})},
		"something is lost of a job that stays":     {By: state.NumberOf(&state.DeleteJob{})},
	} {
		c.Table, c.Index, c.Old, c.New = state.Allocs, base.Index+1, a, &lost
		expect(t, what, "I-18", invariant.Changed(base, []state.Change{c}))
	}
	if orphaned.Job(key("web")) != nil {
		t.Error("it is there")
	}
}

func TestBetweenFindsDeletions(t *testing.T) {
	before, marked, _ := deleted(t, berth.Foreground)
	expect(t, "a job is not deleted any more", "I-41", invariant.Between(marked, before))
	for what, plant := range map[string]func(s *state.Snapshot){
		"the reason is another one": func(s *state.Snapshot) { mark(s).Deletion.Intent = "recover" },
		"the job has a new version": func(s *state.Snapshot) { s.Job(key("web")).Version++ },
	} {
		_, s, _ := deleted(t, berth.Foreground)
		plant(s)
		expect(t, what, "I-41", invariant.Between(marked, s))
	}
	before, left, _ := deleted(t, berth.Orphan)
	expect(t, "an orphan has a job again", "I-43", invariant.Between(left, before))
}

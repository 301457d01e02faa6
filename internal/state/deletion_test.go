package state_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"berth"
	"berth/internal/invariant"
	"berth/internal/state"
	"berth/internal/state/codec"
	"berth/internal/state/statetest"

	"pgregory.net/rapid"
)

// A job of two instances, which run on two nodes.
func running(t *testing.T) (*state.Store, *statetest.Log) {
	store, log := statetest.New(t,
		statetest.AddNode(1, 1000, 1000), statetest.AddNode(2, 1000, 1000),
		statetest.Register(sized(t, 2, ""), 1),
		&state.ApplyPlan{
			Eval: statetest.ID[berth.Eval](1), Now: 2, End: &state.EvalEnd{Status: berth.EvalComplete},
			Place: []berth.Placement{{NodeID: statetest.ID[berth.Node](1)}, {Index: 1, NodeID: statetest.ID[berth.Node](2)}},
		})
	for n := range 2 {
		log.Must(t, report(store, n+1, berth.ClientRunning))
	}
	return store, log
}

// report is what the agent of a node says of all it has.
func report(store *state.Store, node int, how berth.ClientStatus) *state.ReportAllocs {
	c := &state.ReportAllocs{Node: statetest.ID[berth.Node](node), Now: 9}
	for a := range store.Snapshot().AllocsOn(c.Node) {
		c.Updates = append(c.Updates, state.AllocUpdate{ID: a.ID, Client: how})
	}
	return c
}

func deletes(policy berth.Propagation, eval int) *state.DeleteJob {
	return &state.DeleteJob{Key: webKey, Policy: policy, Intent: berth.IntentUser, Eval: byUser(eval, berth.TriggerJobDeregister), Now: 7}
}

func finalizes(j *berth.Job) *state.FinalizeDeletions {
	return &state.FinalizeDeletions{Jobs: []state.JobRef{{Key: j.Key(), UID: j.UID}}}
}

// told says in a line how a job and its allocations are, the older ones first.
func told(s *state.Snapshot) string {
	var out []string
	switch j, d := s.Job(webKey), s.Deletion(webKey); {
	case j == nil:
		out = append(out, "gone")
	case d != nil:
		out = append(out, fmt.Sprintf("deleting since %d, held by %d", d.Deletion.RequestIndex-j.UID.Index, s.Blocking(webKey, j.UID)))
	case j.Stop:
		out = append(out, "stopped")
	default:
		out = append(out, "there")
	}
	for a := range s.Allocs() {
		line := a.Desired.String() + " " + a.Client.String()
		if a.Orphaned {
			line += " orphan"
		}
		out = append(out, line)
	}
	return strings.Join(out, "; ")
}

func wantTold(t *testing.T, store *state.Store, want string) {
	t.Helper()
	s := store.Snapshot()
	if got := told(s); got != want {
		t.Errorf("it is %q; wanted is %q", got, want)
	}
	for _, v := range invariant.Check(s) {
		t.Error(v)
	}
}

// A job that is deleted in the foreground stays, marked, until the last of its
// allocations has ended; nothing new comes of it in the meantime.
func TestForegroundDeletion(t *testing.T) {
	store, log := running(t)
	j := store.Snapshot().Job(webKey)
	log.Must(t, deletes(berth.Foreground, 2))
	wantTold(t, store, "deleting since 4, held by 2; run running; run running")
	now := store.Snapshot().Job(webKey)
	if !now.Stop || now.Version != 1 || now.UID != j.UID || store.Snapshot().Eval(statetest.ID[berth.Eval](2)) == nil {
		t.Errorf("the job is %+v", now)
	}
	refusedAs(t, log, statetest.Register(sized(t, 3, ""), 3), berth.Conflict, "deleting: job")
	refusedAs(t, log, &state.RevertJob{Key: webKey, Version: 0, Eval: byUser(3, berth.TriggerJobRegister)}, berth.Conflict, "deleting: job")
	refusedAs(t, log, deletes(berth.Foreground, 3), berth.Conflict, "already-done: job")
	refusedAs(t, log, deletes(berth.Orphan, 3), berth.Conflict, "deleting: job")
	refusedAs(t, log, finalizes(j), berth.Conflict, "not-empty: job")
	refusedAs(t, log, &state.DeleteRows{Jobs: []state.JobRef{{Key: webKey, UID: j.UID}}}, berth.Conflict, "being deleted")
	refusedAs(t, log, &state.ApplyPlan{Eval: statetest.ID[berth.Eval](2), JobVersion: 1, Place: []berth.Placement{{Index: 1, NodeID: statetest.ID[berth.Node](1)}}},
		berth.Conflict, "was stopped")

	log.Must(t, report(store, 1, berth.ClientComplete))
	refusedAs(t, log, finalizes(j), berth.Conflict, "not-empty: job")
	log.Must(t, report(store, 2, berth.ClientFailed))
	wantTold(t, store, "deleting since 4, held by 0; run complete; run failed")
	log.Must(t, finalizes(j))
	wantTold(t, store, "gone; run complete; run failed")
	if slices.Collect(store.Snapshot().Deletions()) != nil {
		t.Error("the mark outlives the job")
	}
	refusedAs(t, log, finalizes(j), berth.Conflict, "already-done")

	log.Must(t, statetest.Register(sized(t, 1, ""), 4))
	if now := store.Snapshot().Job(webKey); now.UID == j.UID || now.Version != 0 {
		t.Errorf("the job that follows is %s, version %d", now.UID.Text('j'), now.Version)
	}
}

// A job that was stopped before, or runs nothing itself, is deleted like any
// other.
func TestForegroundOfWhatRunsNothing(t *testing.T) {
	store, log := statetest.New(t, statetest.Register(sized(t, 1, ""), 1),
		&state.StopJob{Key: webKey, Eval: byUser(2, berth.TriggerJobDeregister), Now: 3}, deletes(berth.Foreground, 3))
	wantTold(t, store, "deleting since 2, held by 0")
	if j := store.Snapshot().Job(webKey); j.Version != 1 {
		t.Errorf("it went to version %d", j.Version)
	}
	log.Must(t, finalizes(store.Snapshot().Job(webKey)), registerParent(parent(t, "web", `"Periodic": {"Spec": "* * * * *"}`), 1))
	c := deletes(berth.Foreground, 0)
	c.Eval = state.EvalSeed{}
	log.Must(t, c, finalizes(store.Snapshot().Job(webKey)))
	wantTold(t, store, "gone")
}

// Deleted in the background, a job is gone at once, also when it was being
// deleted in the foreground; its allocations are stopped by the evaluation.
func TestBackgroundDeletion(t *testing.T) {
	for _, first := range []berth.Propagation{"", berth.Foreground} {
		store, log := running(t)
		if first != "" {
			log.Must(t, deletes(first, 2))
		}
		log.Must(t, deletes(berth.Background, 3))
		wantTold(t, store, "gone; run running; run running")
		if e := store.Snapshot().Eval(statetest.ID[berth.Eval](3)); e == nil || e.Status != berth.EvalPending {
			t.Errorf("the evaluation is %+v", e)
		}
		refusedAs(t, log, deletes(berth.Foreground, 4), berth.NotFound, `job "web" not found`)
		log.Must(t, statetest.Register(sized(t, 1, ""), 5))
		wantTold(t, store, "there; run running; run running")
	}
}

// A deletion that names an incarnation touches no other.
func TestDeletionByUID(t *testing.T) {
	store, log := running(t)
	old := store.Snapshot().Job(webKey).UID
	gone := deletes(berth.Background, 2)
	gone.UID = old
	log.Must(t, gone)
	late := deletes(berth.Foreground, 3)
	late.UID = old
	refusedAs(t, log, late, berth.NotFound, "owner-missing: job")
	log.Must(t, statetest.Register(sized(t, 1, ""), 4))
	now := store.Snapshot().Job(webKey).UID
	for _, p := range berth.Propagations {
		late.Policy = p
		refusedAs(t, log, late, berth.Conflict, "uid-mismatch: job \"web\" is "+now.Text('j')+" now")
	}
	refusedAs(t, log, &state.DeleteJob{Key: webKey, Policy: "odd", Intent: berth.IntentUser}, berth.Invalid, "want one of [background foreground orphan]")
}

// What a job leaves to itself runs on: nothing stops, replaces or adopts it, but
// a user who stops it, its end, or that of its node.
func TestOrphans(t *testing.T) {
	store, log := running(t)
	used := store.Snapshot().Usage(store.Snapshot().Node(statetest.ID[berth.Node](1)).Number).Used
	log.Must(t, deletes(berth.Orphan, 2))
	wantTold(t, store, "gone; run running orphan; run running orphan")
	s := store.Snapshot()
	if s.Eval(statetest.ID[berth.Eval](2)) != nil {
		t.Error("an evaluation was raised")
	}
	if now := s.Usage(s.Node(statetest.ID[berth.Node](1)).Number).Used; now != used {
		t.Errorf("%+v is used; it was %+v", now, used)
	}
	all := slices.Collect(s.Allocs())
	if why := s.CannotPreempt(all[0], &berth.Job{ID: "x", Priority: 100}); why == "" {
		t.Error("an orphan can be evicted")
	}
	log.Must(t, statetest.Register(sized(t, 2, ""), 3), &state.ApplyPlan{
		Eval: statetest.ID[berth.Eval](3), Now: 8, // of a scheduler that saw neither the job's end nor the mark
		Stop:  []berth.AllocStop{{ID: all[0].ID, StopReason: berth.StopOldJob}},
		Place: []berth.Placement{{NodeID: statetest.ID[berth.Node](1)}},
	})
	wantTold(t, store, "there; run running orphan; run running orphan; run pending")

	log.Must(t, &state.StopAlloc{ID: all[0].ID, NoShutdownDelay: true, Now: 9})
	wantTold(t, store, "there; stop running orphan; run running orphan; run pending")
	down := &state.SetNodeStatus{ID: statetest.ID[berth.Node](2), Status: berth.NodeDown, Now: 10}
	log.Must(t, down, report(store, 1, berth.ClientComplete))
	wantTold(t, store, "there; stop complete orphan; stop lost orphan; run complete")
	if len(down.Evals) != 0 {
		t.Errorf("evaluations were raised for a node with nothing but an orphan: %v", down.Evals)
	}
	log.Must(t, &state.DeleteRows{Allocs: []berth.AllocID{all[0].ID, all[1].ID}})
}

// What of a job is lost already, or is to stop, is not left to itself.
func TestWhatIsNoOrphan(t *testing.T) {
	store, log := running(t)
	all := slices.Collect(store.Snapshot().Allocs())
	log.Must(t, &state.SetNodeStatus{ID: statetest.ID[berth.Node](2), Status: berth.NodeDown, Now: 10, Seed: [16]byte{1}},
		&state.StopAlloc{ID: all[0].ID, Eval: byUser(8, berth.TriggerAllocStop)}, deletes(berth.Orphan, 2))
	wantTold(t, store, "gone; stop running; stop lost")
}

// A saved state has the marks, and a damaged one is refused.
func TestMarksAreSaved(t *testing.T) {
	store, log := running(t)
	log.Must(t, deletes(berth.Foreground, 2))
	s := store.Snapshot()
	var saved bytes.Buffer
	if err := s.Save(&saved); err != nil {
		t.Fatal(err)
	}
	loaded, err := state.Load(&saved)
	if err != nil {
		t.Fatal(err)
	}
	if loaded.Hash() != s.Hash() || loaded.Deletion(webKey).Deletion != s.Deletion(webKey).Deletion {
		t.Error("what was loaded is not what was saved")
	}
	without := state.Begin(s)
	without.Apply(deletes(berth.Background, 3))
	if i := slices.IndexFunc(s.Contents(), func(c state.Content) bool { return c.Name == "deletions" }); i < 0 || s.Contents()[i].Count != 1 {
		t.Errorf("the state holds %v", s.Contents())
	}
}

// The model of who is there: what users registered, less what they deleted. Two
// servers, of which one starts again from a snapshot now and then, go through
// the same commands.
func TestDeletionsAgainstAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := statetest.Random{}
		one, two := state.New().Snapshot(), state.New().Snapshot()
		deleting := map[berth.JobKey]bool{} // of those that are there
		there := map[berth.JobKey]berth.UID{}
		born := map[berth.JobKey]uint64{} // when the last of the name went
		for range rapid.IntRange(20, 60).Draw(t, "commands") {
			c := draw.About(t, one)
			tx := state.Begin(one)
			r := tx.Apply(c)
			if r.Err != nil {
				continue
			}
			entry := codec.EncodeEntry(state.AppendCommand(nil, c))
			before := one
			batch := tx.End()
			one = batch.Snapshot
			two = replay(t, two, entry)
			if rapid.IntRange(0, 9).Draw(t, "restart") == 0 {
				var saved bytes.Buffer
				if err := two.Save(&saved); err != nil {
					t.Fatal(err)
				}
				var err error
				if two, err = state.Load(&saved); err != nil {
					t.Fatal(err)
				}
			}
			switch c := c.(type) {
			case *state.RegisterJob:
				if k := c.Job.Key(); there[k].IsZero() {
					there[k] = berth.UID{Index: r.Index}
					if r.Index <= born[k] {
						t.Fatalf("job %s follows one that went at index %d", k, born[k])
					}
				} else if deleting[k] {
					t.Fatalf("job %s, which is being deleted, was registered", k)
				}
			case *state.DeleteJob:
				if deleting[c.Key] = c.Policy == berth.Foreground; !deleting[c.Key] {
					delete(there, c.Key)
					born[c.Key] = r.Index
				}
			case *state.FinalizeDeletions:
				for _, ref := range c.Jobs {
					if deleting[ref.Key] && there[ref.Key] == ref.UID {
						delete(there, ref.Key)
						delete(deleting, ref.Key)
						born[ref.Key] = r.Index
					}
				}
			}
			for k, uid := range there {
				if j := one.Job(k); j == nil || j.UID != uid || (one.Deletion(k) != nil) != deleting[k] {
					t.Fatalf("%T: job %s is not there, or not as it should be", c, k)
				}
			}
			if n := one.Count(state.Jobs); n != len(there) {
				t.Fatalf("%T: there are %d jobs; wanted are %d", c, n, len(there))
			}
			found := slices.Concat(invariant.Check(one), invariant.Changed(before, batch.Changes), invariant.Between(before, one), invariant.Step(before, one))
			if len(found) > 0 {
				t.Fatalf("%T: %v", c, found)
			}
			if one.Hash() != two.Hash() {
				t.Fatalf("%T: the servers differ:\n%s", c, diff(one, two))
			}
		}
	})
}

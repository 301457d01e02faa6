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
	"berth/internal/state/statetest"
)

// sized is a job whose specification differs with each count.
func sized(t *testing.T, count int, more string) *berth.Job {
	t.Helper()
	return statetest.Job(t, fmt.Sprintf(`{"ID": "web", "TaskGroups": [{"Name": "g", "Count": %d%s}]}`, count, more))
}

var webKey = berth.JobKey{Namespace: berth.DefaultNamespace, ID: "web"}

func kept(s *state.Snapshot) (out []string) {
	for v := range s.JobVersions(webKey) {
		line := fmt.Sprintf("%d:%d", v.Version, v.TaskGroups[0].Count)
		if v.VersionTag != nil {
			line += " " + v.VersionTag.Name
		}
		if v.Stable {
			line += " stable"
		}
		out = append(out, line)
	}
	return out
}

func wantKept(t *testing.T, s *state.Snapshot, want ...string) {
	t.Helper()
	if got := kept(s); !slices.Equal(got, want) {
		t.Errorf("kept are %q; wanted are %q", got, want)
	}
}

func byUser(n int, trigger string) state.EvalSeed {
	return state.EvalSeed{ID: statetest.ID[berth.Eval](n), TriggeredBy: trigger, Cause: berth.Cause{Kind: berth.CauseUser}}
}

// A job goes back to what an earlier version was, by a new version and an
// evaluation in the same command; not to where it is, nor to what is gone.
func TestRevert(t *testing.T) {
	store, log := statetest.New(t)
	first := statetest.Register(sized(t, 1, ""), 1)
	first.Submission = &berth.JobSubmission{Source: "the first", Format: "hcl2"}
	log.Must(t, first, statetest.Register(sized(t, 2, ""), 2))
	revert := func(version uint64, eval int) *state.RevertJob {
		return &state.RevertJob{Key: webKey, Version: version, Eval: byUser(eval, berth.TriggerJobRegister), Now: 7}
	}
	refusedAs(t, log, revert(1, 3), berth.Invalid, "already at version 1")
	refusedAs(t, log, revert(9, 3), berth.NotFound, "no version 9")
	refusedAs(t, log, revert(0, 2), berth.Conflict, "already-done")
	enforced := revert(0, 3)
	enforced.Enforce, enforced.Prior = true, 5
	refusedAs(t, log, enforced, berth.Conflict, "enforcing version 5")
	refusedAs(t, log, &state.RevertJob{Key: berth.JobKey{Namespace: "default", ID: "none"}}, berth.NotFound, "not found")

	enforced.Prior = 1
	log.Must(t, enforced)
	s := store.Snapshot()
	j, e := s.Job(webKey), s.Eval(statetest.ID[berth.Eval](3))
	if j.Version != 2 || j.TaskGroups[0].Count != 1 || j.JobModifyIndex != s.Index || j.SubmitTime != 7 || e == nil || e.CreateIndex != s.Index || e.JobModifyIndex != s.Index {
		t.Errorf("%+v, %+v", j, e)
	}
	if sub := s.Submission(webKey, 2); sub == nil || sub.Source != "the first" {
		t.Errorf("the new version was made from %+v", sub)
	}
	wantKept(t, s, "0:1", "1:2", "2:1")

	// The same again: no new version, and an evaluation all the same.
	log.Must(t, revert(0, 4))
	if s := store.Snapshot(); s.Job(webKey).Version != 2 || s.Eval(statetest.ID[berth.Eval](4)) == nil {
		t.Errorf("%+v", s.Job(webKey))
	}

	// What came before a purge is another job's.
	log.Must(t, &state.StopJob{Key: webKey, Purge: true, Now: 8}, statetest.Register(sized(t, 3, ""), 5))
	refusedAs(t, log, revert(2, 6), berth.NotFound, "no version 2")
}

// Tagged versions are kept beside the newest six, and go with their tags.
func TestTagsAndStability(t *testing.T) {
	store, log := statetest.New(t)
	for i := range 4 {
		log.Must(t, statetest.Register(sized(t, i, ""), i+1))
	}
	tag := func(name string, version uint64) *state.TagVersion {
		return &state.TagVersion{Key: webKey, Name: name, Version: version, Now: 9}
	}
	refusedAs(t, log, tag("", 1), berth.Invalid, "must not be empty")
	refusedAs(t, log, tag("a/b", 1), berth.Invalid, "slash")
	refusedAs(t, log, tag(strings.Repeat("x", 200), 1), berth.Invalid, "must be at most")
	refusedAs(t, log, tag("a", 8), berth.NotFound, "no version 8")
	refusedAs(t, log, &state.TagVersion{Key: webKey, Name: "a", Remove: true}, berth.NotFound, "no version of job")
	log.Must(t, tag("good", 1), &state.TagVersion{Key: webKey, Name: "now", Latest: true}, &state.SetJobStability{Key: webKey, Version: 2, Stable: true})
	refusedAs(t, log, tag("good", 2), berth.Conflict, `version 1 of job "web" has the tag "good"`)
	refusedAs(t, log, &state.SetJobStability{Key: webKey, Version: 9}, berth.NotFound, "no version 9")
	s := store.Snapshot()
	if j := s.Job(webKey); j.Version != 3 || j.VersionTag == nil || j.VersionTag.Name != "now" || j.ModifyIndex != s.Index || j.JobModifyIndex == s.Index {
		t.Errorf("%+v", j)
	}
	wantKept(t, s, "0:0", "1:1 good", "2:2 stable", "3:3 now")

	for i := range 7 {
		log.Must(t, statetest.Register(sized(t, 10+i, ""), 10+i))
	}
	wantKept(t, store.Snapshot(), "1:1 good", "3:3 now", "5:11", "6:12", "7:13", "8:14", "9:15", "10:16")
	log.Must(t, &state.TagVersion{Key: webKey, Name: "good", Remove: true})
	wantKept(t, store.Snapshot(), "3:3 now", "5:11", "6:12", "7:13", "8:14", "9:15", "10:16")
}

// Scaling changes the count by a new version within the bounds of the policy,
// and leaves an event; a failure leaves an event alone. Events and the policy
// outlive a restart, and end with the job.
func TestScaling(t *testing.T) {
	store, log := statetest.New(t, statetest.Register(sized(t, 2, `, "Scaling": {"Min": 1, "Max": 5, "Policy": {"a": {"b": 1}}}`), 1))
	scale := func(count int64, eval int) *state.ScaleJob {
		return &state.ScaleJob{Key: webKey, Group: "g", Change: true, Count: count, Message: "more", Eval: byUser(eval, berth.TriggerJobScaling), Now: 5}
	}
	other := scale(3, 2)
	other.Group = "none"
	failed := scale(3, 2)
	failed.Error = true
	old := scale(3, 2)
	old.Index = 1
	refusedAs(t, log, other, berth.Invalid, `task group "none" specified for scaling does not exist`)
	refusedAs(t, log, failed, berth.Invalid, "must not be set together with Error")
	refusedAs(t, log, old, berth.Conflict, "Enforcing job modify index 1")
	refusedAs(t, log, scale(0, 2), berth.Invalid, "0 is below what the scaling policy")
	refusedAs(t, log, scale(6, 2), berth.Invalid, "6 is above what the scaling policy")
	before := store.Snapshot().Job(webKey).TaskGroups[0].Scaling
	log.Must(t, scale(4, 2))
	s := store.Snapshot()
	j, e := s.Job(webKey), s.Eval(statetest.ID[berth.Eval](2))
	if j.Version != 1 || j.TaskGroups[0].Count != 4 || e.TriggeredBy != berth.TriggerJobScaling || e.JobModifyIndex != j.JobModifyIndex {
		t.Errorf("%+v, %+v", j, e)
	}
	if after := j.TaskGroups[0].Scaling; before.ID == "" || after.ID != before.ID || after.ModifyIndex != before.ModifyIndex || after.Target["Group"] != "g" {
		t.Errorf("the policy was %+v and is %+v", before, after)
	}
	for range 25 {
		log.Must(t, &state.ScaleJob{Key: webKey, Group: "g", Error: true, Message: "no metrics", Meta: map[string]any{"tries": int64(3)}, Now: 6})
	}
	var saved bytes.Buffer
	if err := store.Snapshot().Save(&saved); err != nil {
		t.Fatal(err)
	}
	loaded, err := state.Load(&saved)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*state.Snapshot{store.Snapshot(), loaded} {
		list := s.ScalingEvents(webKey).Groups["g"]
		if len(list) != state.ScalingEventsKept || list[0].Message != "no metrics" || list[0].Count != nil || list[0].PreviousCount != 4 || s.Job(webKey).Version != 1 {
			t.Errorf("events are %+v", list)
		}
		if n := len(slices.Collect(s.ScaledJobs())); n != 1 {
			t.Errorf("%d jobs have policies", n)
		}
	}

	// Registered again, the count is kept if requested, as far as the new
	// bounds allow.
	again := statetest.Register(sized(t, 1, `, "Scaling": {"Min": 1, "Max": 3}`), 3)
	again.PreserveCounts = true
	log.Must(t, again)
	if j := store.Snapshot().Job(webKey); j.TaskGroups[0].Count != 3 || j.TaskGroups[0].Scaling.ModifyIndex == before.ModifyIndex || j.TaskGroups[0].Scaling.ID != before.ID {
		t.Errorf("%+v", j.TaskGroups[0])
	}
	log.Must(t, &state.StopJob{Key: webKey, Now: 9})
	if n := len(slices.Collect(store.Snapshot().ScaledJobs())); n != 0 {
		t.Errorf("%d stopped jobs have policies", n)
	}
	refusedAs(t, log, scale(2, 9), berth.Invalid, "is stopped")
	log.Must(t, &state.StopJob{Key: webKey, Purge: true, Now: 9}, statetest.Register(sized(t, 1, ""), 10))
	if n := len(store.Snapshot().ScalingEvents(webKey).Groups); n != 0 {
		t.Errorf("a new job of the name has the events of %d groups", n)
	}
}

// How many versions are kept is said in the log. Fewer than before: each job
// loses its oldest without a tag with its next version, and what runs of one
// that is lost runs on.
func TestTrackedVersions(t *testing.T) {
	w := newAway(t, berth.TypeService) // something of version 0 runs
	store, log := w.store, w.log
	version := func() {
		w.evals++
		log.Must(t, statetest.Register(sized(t, w.evals, ""), w.evals))
	}
	for range 5 {
		version()
	}
	log.Must(t, &state.TagVersion{Key: webKey, Name: "good", Version: 1, Now: 1})
	version()
	for n, text := range map[int]string{0: "must be 1 to 1000, got 0", -1: "got -1", 1001: "got 1001"} {
		refusedAs(t, log, &state.SetTrackedVersions{Number: n}, berth.Invalid, text)
	}
	log.Must(t, &state.SetTrackedVersions{Number: 2})
	wantKept(t, store.Snapshot(), "0:1", "1:2 good", "2:3", "3:4", "4:5", "5:6", "6:7")
	version()
	wantKept(t, store.Snapshot(), "1:2 good", "6:7", "7:8")

	var saved bytes.Buffer
	if err := store.Snapshot().Save(&saved); err != nil {
		t.Fatal(err)
	}
	loaded, err := state.Load(&saved)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*state.Snapshot{store.Snapshot(), loaded} {
		if kept, most := s.TrackedVersions(); kept != 2 || most != state.TrackedVersions || s.Hash() != store.Snapshot().Hash() {
			t.Errorf("%d versions are kept, %d at most", kept, most)
		}
		for a := range s.AllocsOf(webKey) {
			if a.Job.Version != 0 || a.Job.TaskGroups[0].Count != 1 {
				t.Errorf("what runs is of version %d", a.Job.Version)
			}
		}
		if found := invariant.Check(s); len(found) > 0 {
			t.Error(found)
		}
	}

	// More than before: none comes back, and more are kept from now on.
	log.Must(t, &state.SetTrackedVersions{Number: 4})
	version()
	version()
	version()
	wantKept(t, store.Snapshot(), "1:2 good", "7:8", "8:9", "9:10", "10:11")
	log.Must(t, &state.TagVersion{Key: webKey, Name: "good", Remove: true})
	wantKept(t, store.Snapshot(), "7:8", "8:9", "9:10", "10:11")
}

// The newest stable version before the newest is kept, so that a deployment that
// fails finds it, however often the job was scaled meanwhile. Log version 10
// forgets it.
func TestTheStableVersionIsKept(t *testing.T) {
	for logVersion, want := range map[int][]string{
		10: {"3:3", "4:4", "5:5", "6:6", "7:7", "8:8"},
		11: {"0:1 stable", "5:5", "6:6", "7:7", "8:8", "9:1"},
	} {
		store, log := statetest.New(t, statetest.AddNode(1, 4000, 4000), &state.RaiseLogVersion{To: logVersion})
		scale := func(times, eval int) {
			for i := range times {
				log.Must(t, &state.ScaleJob{Key: webKey, Group: "g", Count: int64(2 + i), Change: true, Eval: byUser(eval+i, berth.TriggerJobScaling)})
			}
		}
		log.Must(t, statetest.Register(costing(t, 100), 1), &state.SetJobStability{Key: webKey, Stable: true}, statetest.Register(costing(t, 200), 2))
		log.Must(t, deploys(store.Snapshot(), 2, 1))
		scale(7, 10)
		fails := &state.FailDeployment{ID: statetest.ID[berth.Deployment](1), Description: berth.DeploymentUserFailed}
		log.Must(t, fails)
		if reverts := fails.Reverted != nil && *fails.Reverted == 0; reverts != (logVersion == 11) {
			t.Errorf("log version %d: reverted is %v: %s", logVersion, fails.Reverted, store.Snapshot().Deployment(fails.ID).StatusDescription)
		}
		wantKept(t, store.Snapshot(), want...)
		if logVersion < 11 {
			continue
		}
		// A newer one takes its place. A tag keeps what has it in any case.
		log.Must(t, &state.SetJobStability{Key: webKey, Version: 9, Stable: true}, &state.TagVersion{Key: webKey, Name: "first", Version: 0})
		scale(2, 30)
		wantKept(t, store.Snapshot(), "0:1 first stable", "6:6", "7:7", "8:8", "9:1 stable", "10:2", "11:3")
		log.Must(t, &state.TagVersion{Key: webKey, Name: "first", Remove: true})
		wantKept(t, store.Snapshot(), "6:6", "7:7", "8:8", "9:1 stable", "10:2", "11:3")
		// It is the one that is kept beside the newest if only one is.
		log.Must(t, &state.SetTrackedVersions{Number: 1})
		scale(1, 40)
		wantKept(t, store.Snapshot(), "9:1 stable", "12:2")
		if found := invariant.Check(store.Snapshot()); len(found) > 0 {
			t.Error(found)
		}
	}
}

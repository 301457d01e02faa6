package finalize_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"berth"
	"berth/internal/leader"
	"berth/internal/leader/finalize"
	"berth/internal/schedule"
	"berth/internal/state"
	"berth/internal/state/codec"
	"berth/internal/state/statetest"

	"pgregory.net/rapid"
)

func key(n int) berth.JobKey {
	return berth.JobKey{Namespace: berth.DefaultNamespace, ID: berth.JobID(fmt.Sprint("job", n))}
}

func seed(n int) state.EvalSeed {
	return state.EvalSeed{ID: statetest.ID[berth.Eval](n), TriggeredBy: berth.TriggerJobDeregister, Cause: berth.Cause{Kind: berth.CauseUser}}
}

func deletes(n, eval int) *state.DeleteJob {
	return &state.DeleteJob{Key: key(n), Policy: berth.Foreground, Intent: berth.IntentUser, Eval: seed(eval), Now: 5}
}

// step applies what a controller wants, which is stamped as a leader stamps it,
// and sees that it is silent then.
func step(t testing.TB, c *finalize.Controller, log *statetest.Log) (did []string) {
	t.Helper()
	do, _ := c.Step(log.Tip(), time.Unix(9, 0))
	leader.Stamp(log.Tip().Term, do...)
	log.Must(t, do...)
	for _, d := range do {
		did = append(did, fmt.Sprintf("%T", d))
	}
	if again, at := c.Step(log.Tip(), time.Unix(9, 0)); len(again) > 0 || at.Before(time.Unix(9, 0).Add(time.Minute)) {
		t.Errorf("after its commands it wants %v, at %s", again, at)
	}
	return did
}

// world is jobs of one instance, each running on a node of its own.
func world(t testing.TB, jobs int) (*state.Store, *statetest.Log) {
	store, log := statetest.New(t, &state.BeginTerm{Term: 3})
	for n := range jobs {
		j := statetest.Job(t, fmt.Sprintf(`{"ID": "job%d", "TaskGroups": [{"Name": "g"}]}`, n))
		id := statetest.ID[berth.Eval](1000 + n)
		log.Must(t, statetest.AddNode(n+1, 1000, 1000), statetest.Register(j, 1000+n), &state.ApplyPlan{
			Eval: id, Place: []berth.Placement{{NodeID: statetest.ID[berth.Node](n + 1)}}, End: &state.EvalEnd{Status: berth.EvalComplete},
		})
	}
	return store, log
}

func ends(store *state.Store, node int) *state.ReportAllocs {
	c := &state.ReportAllocs{Node: statetest.ID[berth.Node](node), Now: 9}
	for a := range store.Snapshot().AllocsOn(c.Node) {
		c.Updates = append(c.Updates, state.AllocUpdate{ID: a.ID, Client: berth.ClientComplete})
	}
	return c
}

// A job goes when the last of what it runs has ended, and none that nobody
// deletes.
func TestOwnersGoLast(t *testing.T) {
	store, log := world(t, 2)
	c := finalize.New([32]byte{})
	if did := step(t, c, log); did != nil {
		t.Errorf("nothing is deleted, and it did %v", did)
	}
	log.Must(t, deletes(0, 1))
	if did := step(t, c, log); did != nil {
		t.Errorf("something runs, and it did %v", did)
	}
	log.Must(t, ends(store, 1), ends(store, 2))
	if did := step(t, c, log); len(did) != 1 || store.Snapshot().Job(key(0)) != nil || store.Snapshot().Job(key(1)) == nil {
		t.Errorf("it did %v", did)
	}
}

// What is lost with its node holds its job no more.
func TestLostNodesHoldNothing(t *testing.T) {
	store, log := world(t, 1)
	c := finalize.New([32]byte{})
	down := &state.SetNodeStatus{ID: statetest.ID[berth.Node](1), Status: berth.NodeDown, Now: 7, Seed: [16]byte{7}}
	log.Must(t, deletes(0, 1), down)
	if did := step(t, c, log); did != nil || len(down.Evals) != 1 {
		t.Errorf("before a scheduler looked it did %v; raised were %v", did, down.Evals)
	}
	log.Must(t, schedule.Decide(store.Snapshot(), store.Snapshot().Eval(down.Evals[0]), 0, time.Unix(8, 0)).Plan)
	if did := step(t, c, log); len(did) != 1 || store.Snapshot().Job(key(0)) != nil {
		t.Errorf("it did %v", did)
	}
}

// What runs of a job without an evaluation that would stop it gets one.
func TestAnEvaluationThatWasDeleted(t *testing.T) {
	store, log := world(t, 1)
	c := finalize.New([32]byte{})
	log.Must(t, deletes(0, 1), &state.CancelEvals{IDs: []berth.EvalID{statetest.ID[berth.Eval](1)}, Why: "an operator deleted it"})
	if did := step(t, c, log); !slices.Equal(did, []string{"*state.CreateEvals"}) {
		t.Errorf("it did %v", did)
	}
	open := slices.Collect(store.Snapshot().OpenEvals(berth.EvalPending))
	if len(open) != 1 || open[0].Key() != key(0) || open[0].JobUID != store.Snapshot().Job(key(0)).UID {
		t.Errorf("open are %+v", open)
	}
}

// What runs of a job that is gone, for which nothing is raised, is found by an
// audit; what is about to be looked at, and what was left to itself, is left
// alone.
func TestStraysAreFound(t *testing.T) {
	store, log := world(t, 4)
	c := finalize.New([32]byte{})
	gone := deletes(0, 1)
	gone.Policy, gone.Eval = berth.Background, state.EvalSeed{} // as no door would ask
	looked, alone := deletes(1, 2), deletes(2, 3)
	looked.Policy, alone.Policy = berth.Background, berth.Orphan
	now := time.Unix(9, 0)
	if do, _ := c.Step(log.Tip(), now); do != nil {
		t.Errorf("it did %v", do)
	}
	log.Must(t, gone, looked, alone)
	do, at := c.Step(log.Tip(), now.Add(time.Minute))
	if do != nil || at != now.Add(10*time.Minute) {
		t.Errorf("it did %v before its time, and looks again at %v", do, at)
	}
	do, next := c.Step(log.Tip(), at)
	log.Must(t, do...)
	if len(do) != 1 || next != at.Add(10*time.Minute) {
		t.Fatalf("it did %v, and looks again at %v", do, next)
	}
	var raised *berth.Eval
	for e := range store.Snapshot().OpenEvals(berth.EvalPending) {
		if e.Key() == key(0) {
			raised = e
		} else if e.Key() != key(1) {
			t.Errorf("raised is %+v", e)
		}
	}
	if raised == nil {
		t.Fatal("nothing looks at what runs of a job that is gone")
	}
	log.Must(t, schedule.Decide(store.Snapshot(), raised, 0, next).Plan)
	wanted := map[berth.JobKey]bool{}
	for a := range store.Snapshot().Allocs() {
		if a.Wanted() {
			wanted[a.Key()] = true
		}
	}
	if len(wanted) != 3 || wanted[key(0)] {
		t.Errorf("what shall run is of %v", wanted)
	}
	if again, _ := c.Step(log.Tip(), next); again != nil {
		t.Errorf("it does %v again", again)
	}
}

// Many jobs go in as few commands as may be.
func TestManyJobs(t *testing.T) {
	_, log := world(t, 0)
	for n := range state.MaxFinalize + 1 {
		log.Must(t, statetest.Register(statetest.Job(t, fmt.Sprintf(`{"ID": "job%d", "TaskGroups": [{"Name": "g"}]}`, n)), 1000+n), deletes(n, 5000+n))
	}
	if did := step(t, finalize.New([32]byte{}), log); len(did) != 2 || log.Tip().Count(state.Jobs) != 0 {
		t.Errorf("it did %v", did)
	}
}

// Whatever the state: the controller's commands are not refused, it is silent
// after them, and no job is left that nothing holds.
func TestItIsDone(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		draw := statetest.Random{}
		_, log := statetest.New(t)
		c := finalize.New([32]byte{1})
		for range rapid.IntRange(1, 50).Draw(r, "commands") {
			log.Propose(t.Context(), draw.About(r, log.Tip()))
			if rapid.IntRange(0, 4).Draw(r, "steps") == 0 {
				step(t, c, log)
				for d := range log.Tip().Deletions() {
					if log.Tip().Blocking(d.Key, d.UID) == 0 {
						r.Fatalf("job %s is not gone", d.Key)
					}
				}
			}
		}
	})
}

// A step among jobs that nobody deletes costs nothing.
func BenchmarkNothingIsDeleted(b *testing.B) {
	_, log := world(b, 1000)
	c, snap := finalize.New([32]byte{}), log.Tip()
	for b.Loop() {
		c.Step(snap, time.Time{})
	}
}

// An audit of 1,000 jobs of which all is well.
func BenchmarkAudit(b *testing.B) {
	_, log := world(b, 1000)
	c, snap, now := finalize.New([32]byte{}), log.Tip(), time.Unix(9, 0)
	for b.Loop() {
		now = now.Add(time.Hour)
		if do, _ := c.Step(snap, now); do != nil {
			b.Fatal(do)
		}
	}
}

// Force reaches the children of a job, also those that are being deleted without.
func TestForceReachesChildren(t *testing.T) {
	store, log := statetest.New(t, &state.BeginTerm{Term: 3}, &state.RaiseLogVersion{To: codec.LogVersion}, statetest.AddNode(1, 1000, 1000))
	log.Must(t, &state.RegisterJob{Job: statetest.Job(t, `{"ID": "job0", "Type": "batch", "ParameterizedJob": {}, "TaskGroups": [{"Name": "g"}]}`), Now: 3})
	for n := range 3 {
		log.Must(t, &state.DispatchJob{Key: key(0), Child: berth.JobID(fmt.Sprint("job0/dispatch-", n)), Eval: seed(n + 1), Now: 4})
		log.Must(t, schedule.Decide(store.Snapshot(), store.Snapshot().Eval(seed(n+1).ID), 0, time.Unix(5, 0)).Plan)
	}
	c := finalize.New([32]byte{})
	step := func() {
		do, _ := c.Step(log.Tip(), time.Unix(9, 0))
		leader.Stamp(log.Tip().Term, do...)
		log.Must(t, do...)
	}
	gone := &state.DeleteJob{Key: key(0), Policy: berth.Foreground, Intent: berth.IntentUser, Now: 5}
	log.Must(t, gone)
	step()
	live := func() (n int) {
		for a := range store.Snapshot().Allocs() {
			if !a.Ended() {
				n++
			}
		}
		return n
	}
	if step(); live() != 3 || store.Snapshot().Job(key(0)) == nil {
		t.Fatalf("without force %d allocations of 3 are waited for", live())
	}
	gone.Force = true
	log.Must(t, gone)
	for range 3 {
		step()
	}
	if n := len(slices.Collect(store.Snapshot().Jobs(berth.AllNamespaces, ""))); n > 0 || live() > 0 {
		t.Errorf("by force %d jobs and %d allocations are left", n, live())
	}
}

// A periodic or parameterized job that is deleted in the foreground deletes its
// children in the same way, and goes after the last of them. Children of an
// earlier job of its name are not its own.
func TestChildrenGoFirst(t *testing.T) {
	store, log := statetest.New(t, &state.BeginTerm{Term: 3}, statetest.AddNode(1, 1000, 1000))
	parent := func() *berth.Job {
		return statetest.Job(t, `{"ID": "job0", "Type": "batch", "ParameterizedJob": {}, "TaskGroups": [{"Name": "g"}]}`)
	}
	dispatch := func(n int) berth.JobKey {
		id := berth.JobID(fmt.Sprint("job0/dispatch-", n))
		log.Must(t, &state.DispatchJob{Key: key(0), Child: id, Eval: seed(n), Now: 4})
		return berth.JobKey{Namespace: berth.DefaultNamespace, ID: id}
	}
	log.Must(t, &state.RegisterJob{Job: parent(), Now: 3})
	old := dispatch(1)
	log.Must(t, &state.DeleteJob{Key: key(0), Policy: berth.Background, Intent: berth.IntentUser, Now: 4}, &state.RegisterJob{Job: parent(), Now: 3})
	runs, ended := dispatch(2), dispatch(3)
	log.Must(t, schedule.Decide(store.Snapshot(), store.Snapshot().Eval(seed(2).ID), 0, time.Unix(5, 0)).Plan)
	c := finalize.New([32]byte{})
	log.Must(t, &state.DeleteJob{Key: key(0), Policy: berth.Foreground, Intent: berth.IntentUser, Now: 5})
	steps := func() (did []string) {
		for range 5 {
			do, _ := c.Step(log.Tip(), time.Unix(9, 0))
			leader.Stamp(log.Tip().Term, do...)
			log.Must(t, do...)
			for _, d := range do {
				did = append(did, fmt.Sprintf("%T", d))
			}
		}
		return did
	}
	if did := steps(); !slices.Equal(did, []string{"*state.DeleteJob", "*state.DeleteJob", "*state.FinalizeDeletions"}) {
		t.Errorf("it did %v", did)
	}
	snap := store.Snapshot()
	if snap.Job(key(0)) == nil || snap.Job(runs) == nil || snap.Job(ended) != nil || snap.Job(old) == nil || snap.Deletion(old) != nil {
		t.Errorf("parent %v, running child %v, child that runs nothing %v, child of an earlier job %v", snap.Job(key(0)), snap.Job(runs), snap.Job(ended), snap.Job(old))
	}
	log.Must(t, ends(store, 1))
	if did := steps(); len(did) != 2 {
		t.Errorf("after the end of the last it did %v", did)
	}
	if snap := store.Snapshot(); snap.Job(key(0)) != nil || snap.Job(runs) != nil || snap.Job(old) == nil {
		t.Error("the parent has not gone after its children, or a child of another job has")
	}
}

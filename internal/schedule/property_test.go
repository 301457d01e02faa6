package schedule_test

import (
	"testing"
	"time"

	"berth"
	"berth/internal/invariant"
	"berth/internal/schedule"
	"berth/internal/state"
	"berth/internal/state/statetest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// drawState is a state that some history led to.
func drawState(t *rapid.T) *state.Snapshot {
	var draw statetest.Random
	tx := state.Begin(state.New().Snapshot())
	for range rapid.IntRange(1, 40).Draw(t, "commands") {
		tx.Apply(draw.Command(t, tx.Snapshot))
	}
	return tx.Seal()
}

// open returns the open evaluations that schedulers decide.
func open(s *state.Snapshot) (out []*berth.Eval) {
	for _, status := range []string{berth.EvalPending, berth.EvalBlocked} {
		for e := range s.OpenEvals(status) {
			if e.Type != berth.TypeCore {
				out = append(out, e)
			}
		}
	}
	return out
}

// Whatever the state: a decision changes nothing it looks at, comes out the
// same again, accounts for every instance, and is accepted as a whole by the
// state it was made on; done, it leaves nothing to do.
func TestDecisionsHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		snap := drawState(t)
		hash := snap.Hash()
		for _, e := range open(snap) {
			attempt := rapid.IntRange(0, 3).Draw(t, "attempt")
			when := time.Unix(0, int64(rapid.IntRange(0, int(time.Hour)).Draw(t, "when")))
			d := schedule.Decide(snap, e, attempt, when)
			again := schedule.Decide(snap, e, attempt, when)
			if diff := cmp.Diff(d, again, cmpopts.IgnoreUnexported(state.ApplyPlan{})); diff != "" {
				t.Fatalf("decided again it is another: %s", diff)
			}
			accounted(t, snap, e, &d)
			after := commit(t, snap, d.Plan)
			settled(t, after, e, when)
		}
		if snap.Hash() != hash {
			t.Fatal("a decision changed the state it looked at")
		}
		if err := state.CheckFrozen(); err != nil {
			t.Fatal(err)
		}
	})
}

// accounted checks that what is missing is placed or said to wait, with a
// reason, and that nothing is placed for a job that is not to run.
func accounted(t *rapid.T, snap *state.Snapshot, e *berth.Eval, d *schedule.Decision) {
	t.Helper()
	job := snap.Job(e.Key())
	if job == nil || job.UID != e.JobUID || job.Stop {
		if len(d.Plan.Place)+len(d.Plan.Update)+len(d.Plan.End.Later) > 0 || d.Plan.End.Status != berth.EvalComplete {
			t.Fatalf("for a job that is not to run: %+v", d.Plan)
		}
		return
	}
	end := d.Plan.End
	if job.PerNode() {
		accountedPerNode(t, snap, job, d)
		return
	}
	placed := map[string]int{}
	for _, p := range d.Plan.Place {
		placed[job.TaskGroups[p.Group].Name]++
	}
	for name, c := range d.Counts {
		if placed[name]+end.Queued[name] != c.Place {
			t.Fatalf("%s: %d are missing, %d placed and %d wait", name, c.Place, placed[name], end.Queued[name])
		}
		why := end.Failed[name]
		if (why != nil) != (end.Queued[name] > 0) {
			t.Fatalf("%s: %d wait, because %+v", name, end.Queued[name], why)
		}
		if why != nil && why.CoalescedFailures+1 != end.Queued[name] {
			t.Fatalf("%s: %d wait, explained for %d", name, end.Queued[name], why.CoalescedFailures+1)
		}
	}
	waits := end.Blocked != nil || end.Status == berth.EvalBlocked
	if waits != (len(end.Failed) > 0) || waits != (end.Missed != nil) {
		t.Fatalf("waits is %v, failed %d, missed %v", waits, len(end.Failed), end.Missed)
	}
}

// commit applies a plan to the state that it was decided on.
func commit(t *rapid.T, snap *state.Snapshot, plan *state.ApplyPlan) *state.Snapshot {
	t.Helper()
	tx := state.Begin(snap)
	if r := tx.Apply(plan); r.Err != nil || len(plan.Refused) > 0 {
		t.Fatalf("the plan is refused: %v %+v", r.Err, plan.Refused)
	}
	after := tx.Seal()
	for _, v := range append(invariant.Check(after), invariant.Between(snap, after)...) {
		t.Fatal(v)
	}
	return after
}

// settled checks that another evaluation of the job finds nothing to do.
func settled(t *rapid.T, snap *state.Snapshot, e *berth.Eval, when time.Time) {
	t.Helper()
	next := *e
	next.ID, next.Status = statetest.ID[berth.Eval](1<<20), berth.EvalPending
	d := schedule.Decide(snap, &next, 0, when)
	if !d.Nothing || len(d.Plan.End.Later) > 0 {
		t.Fatalf("there is more to do: %+v", d.Plan)
	}
}

// An evaluation of a type that nobody decides fails, and says so.
func TestUnknownType(t *testing.T) {
	d := schedule.Decide(state.New().Snapshot(), &berth.Eval{ID: statetest.ID[berth.Eval](1), Type: "astrology"}, 0, time.Now())
	if d.Plan.End.Status != berth.EvalFailed || d.Plan.End.Description != "no scheduler for job type astrology" {
		t.Errorf("%+v", d.Plan.End)
	}
}

// Each attempt breaks ties in its own way, and gives its own IDs.
func TestAttemptsDiffer(t *testing.T) {
	var cmds []state.Command
	for n := range 64 {
		cmds = append(cmds, statetest.AddNode(n+1, 4000, 4000))
	}
	job := statetest.Job(t, `{"ID":"web","TaskGroups":[{"Name":"g","Count":1}]}`)
	store, _ := statetest.New(t, append(cmds, statetest.Register(job, 1))...)
	snap := store.Snapshot()
	seen := map[berth.NodeID]bool{}
	for attempt := range 8 {
		d := schedule.Decide(snap, snap.Eval(statetest.ID[berth.Eval](1)), attempt, time.Now())
		seen[d.Plan.Place[0].NodeID] = true
	}
	if len(seen) < 4 {
		t.Errorf("eight attempts took %d of 64 equal nodes", len(seen))
	}
}

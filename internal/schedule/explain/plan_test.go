package explain

import (
	"fmt"
	"testing"
	"time"

	"berth"
	"berth/internal/diff"
	"berth/internal/invariant"
	"berth/internal/schedule"
	"berth/internal/state"
	"berth/internal/state/statetest"
	"berth/op"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// drawn is a state that some history led to, and a job that is not registered
// yet.
func drawn(t *rapid.T) (*state.Snapshot, *berth.Job) {
	var draw statetest.Random
	tx := state.Begin(state.New().Snapshot())
	var last *state.RegisterJob
	for range rapid.IntRange(10, 80).Draw(t, "commands") {
		c := draw.Command(t, tx.Snapshot)
		if r, ok := c.(*state.RegisterJob); ok {
			last = r
			if rapid.Bool().Draw(t, "kept for later") {
				continue
			}
		}
		tx.Apply(c)
	}
	if last == nil {
		t.Skip("no job")
	}
	snap := tx.Seal()
	if rapid.IntRange(0, 3).Draw(t, "settled") > 0 { // things run
		snap = decideAll(t, snap)
	}
	return snap, last.Job
}

// candidates are jobs that could be registered: the given one, and others that
// are there, with a few changes.
func candidates(t *rapid.T, snap *state.Snapshot, fresh *berth.Job) []*berth.Job {
	out := []*berth.Job{fresh}
	for j := range snap.Jobs(berth.AllNamespaces, "") {
		out = append(out, j, edited(t, j))
	}
	return out
}

// decideAll decides all that is open, once.
func decideAll(t *rapid.T, snap *state.Snapshot) *state.Snapshot {
	tx := state.Begin(snap)
	for e := range snap.OpenEvals(berth.EvalPending) {
		if e.Type == berth.TypeCore {
			continue
		}
		if r := tx.Apply(schedule.Decide(tx.Seal(), e, 0, time.Unix(1000, 0)).Plan); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	return tx.Seal()
}

// edited is a job with a few changes.
func edited(t *rapid.T, was *berth.Job) *berth.Job {
	j := *was
	j.TaskGroups = nil
	for _, g := range was.TaskGroups {
		ng, nt := *g, *g.Tasks[0]
		nt.KillTimeout += time.Duration(rapid.IntRange(0, 1).Draw(t, "kill timeout"))
		if rapid.Bool().Draw(t, "another task") {
			nt.Config = map[string]any{"exit_code": int64(rapid.IntRange(0, 2).Draw(t, "exit"))}
		}
		ng.Count = rapid.SampledFrom([]int{g.Count, g.Count, 0, 1, 5}).Draw(t, "count")
		ng.Tasks = []*berth.Task{&nt}
		j.TaskGroups = append(j.TaskGroups, &ng)
	}
	j.TaskGroups = j.TaskGroups[rapid.IntRange(0, len(j.TaskGroups)-1).Draw(t, "groups gone"):]
	return &j
}

// did counts what a change of state did to a job's allocations, by group, as
// one who looks at every row finds it.
func did(before, after *state.Snapshot, key berth.JobKey) map[string]op.GroupChanges {
	out := map[string]op.GroupChanges{}
	for a := range after.AllocsOf(key) {
		n := out[a.Group.Name]
		was := before.Alloc(a.ID)
		runs := a.Desired == berth.DesiredRun && !a.Client.Ended()
		ran := was != nil && was.Desired == berth.DesiredRun && !was.Client.Ended()
		switch {
		case was == nil && runs:
			n.Created++
		case ran && !runs:
			n.Destroyed++
		case ran && runs && was.Job.Version != a.Job.Version:
			n.Updated++
		case ran && runs:
			n.Kept++
		}
		if n != (op.GroupChanges{}) {
			out[a.Group.Name] = n
		}
	}
	return out
}

// What a plan says is what a registration in the same state then does: as many
// allocations of each group created, destroyed, updated, kept and without a
// place, and the same nodes if ties are broken alike. The plan itself changes
// nothing.
func TestThePlanIsWhatHappens(t *testing.T) {
	seen := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		snap, fresh := drawn(t)
		for _, j := range candidates(t, snap, fresh) {
			registered(t, snap, j, seen)
		}
	})
	t.Log(seen)
	for _, what := range []string{"refused", "created", "destroyed", "updated", "kept", "queued", "replaced"} {
		if seen[what] == 0 {
			t.Errorf("no case in which something was %s", what)
		}
	}
}

// registers returns the registration of a job.
func registers(j *berth.Job, id berth.EvalID, now time.Time) *state.RegisterJob {
	c := &state.RegisterJob{Job: j, Now: now.UnixNano()}
	if j.Schedulable() {
		c.Eval = state.EvalSeed{ID: id, TriggeredBy: berth.TriggerJobRegister, Cause: berth.Cause{Kind: berth.CauseUser}}
	}
	return c
}

func registered(t *rapid.T, snap *state.Snapshot, j *berth.Job, seen map[string]int) {
	t.Helper()
	id, now := statetest.ID[berth.Eval](1<<20), time.Unix(2000, 0)
	hash := snap.Hash()
	d, err := plan(snap, registers(j, id, now), now)
	if snap.Hash() != hash {
		t.Fatal("a plan changed the state it looked at")
	}
	if j.Stream != nil { // nothing is placed before much else has happened: see TestElementsOfAPlan
		return
	}
	tx := state.Begin(snap)
	c := &state.RegisterJob{Job: j, Now: now.UnixNano()}
	if j.Schedulable() {
		c.Eval = state.EvalSeed{ID: id, TriggeredBy: berth.TriggerJobRegister, Cause: berth.Cause{Kind: berth.CauseUser}}
	}
	r := tx.Apply(c)
	if r.Err != nil || err != nil {
		if fmt.Sprint(r.Err) != fmt.Sprint(err) {
			t.Fatalf("the plan says %v, the registration %v", err, r.Err)
		}
		seen["refused"]++
		return
	}
	if !j.Schedulable() { // it runs nothing itself
		if len(d.Changes)+len(d.Desired)+len(d.Evals) > 0 || tx.Eval(id) != nil {
			t.Fatalf("%s is evaluated itself: %+v", j.ID, d)
		}
		return
	}
	p := schedule.Decide(tx.Seal(), tx.Eval(id), 0, now).Plan
	if r := tx.Apply(p); r.Err != nil || len(p.Refused) > 0 {
		t.Fatal(r.Err, p.Refused)
	}
	after := tx.Seal()
	for _, v := range append(invariant.Check(after), invariant.Between(snap, after)...) {
		t.Fatal(v)
	}
	happened(t, d, snap, after, p, seen)
	adds(t, d)
}

func happened(t *rapid.T, d *DryRun, before, after *state.Snapshot, p *state.ApplyPlan, seen map[string]int) {
	t.Helper()
	key := d.New.Key()
	want := did(before, after, key)
	for g, n := range p.End.Queued {
		c := want[g]
		c.Queued = n
		want[g] = c
	}
	for _, place := range p.Place {
		g := d.New.TaskGroups[place.Group].Name
		c := want[g]
		c.Evicted += len(place.Evict)
		want[g] = c
	}
	got := map[string]op.GroupChanges{}
	for g, c := range d.Changes {
		c.Migrated = 0 // part of what is destroyed
		if c != (op.GroupChanges{}) {
			got[g] = c
		}
		for what, n := range map[string]int{"created": c.Created, "destroyed": c.Destroyed, "updated": c.Updated, "kept": c.Kept, "queued": c.Queued} {
			if n > 0 {
				seen[what]++
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("what happens (-) is not what the plan says (+):\n%s", diff)
	}
	if diff := cmp.Diff(p.End.Failed, d.Failed); diff != "" {
		t.Fatalf("what finds no place, and why: %s", diff)
	}
	for _, u := range d.Desired {
		if u.DestructiveUpdate > 0 {
			seen["replaced"]++
		}
	}
}

// adds checks that what should become of a group's instances and what is done
// about it agree.
func adds(t *rapid.T, d *DryRun) {
	t.Helper()
	for g, u := range d.Desired {
		c := d.Changes[g]
		if placed := u.Place + u.DestructiveUpdate + u.Migrate + u.Canary; placed < uint64(c.Created+c.Queued) {
			t.Fatalf("%s: %d are to be placed, %d are and %d wait", g, placed, c.Created, c.Queued)
		}
		if u.InPlaceUpdate != uint64(c.Updated) {
			t.Fatalf("%s: %d are to be updated in place, %d are", g, u.InPlaceUpdate, c.Updated)
		}
		if gone := u.Stop + u.DestructiveUpdate + u.Migrate; gone < uint64(c.Destroyed) {
			t.Fatalf("%s: %d are to stop, %d do", g, gone, c.Destroyed)
		}
	}
	same := diff.Jobs(d.Old, d.New).Type == diff.None
	if d.Old != nil && same && d.Old.Version != d.New.Version {
		old, new := *d.Old, *d.New
		old.Version, new.Version = 0, 0
		if diff := cmp.Diff(old.TaskGroups, new.TaskGroups); diff != "" && d.Old.Stop == d.New.Stop {
			t.Fatalf("nothing differs, they say, and there is a new version: %s", diff)
		}
	}
}

// With other ties the numbers of a job of one group are the same: which of two
// equal nodes is taken changes nothing for those that follow.
func TestThePlanDoesNotHangOnChance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		snap, j := drawn(t)
		j.TaskGroups = j.TaskGroups[:1]
		now := time.Unix(2000, 0)
		one, err := plan(snap, registers(j, statetest.ID[berth.Eval](1<<20), now), now)
		if err != nil {
			return
		}
		two, err := plan(snap, registers(j, statetest.ID[berth.Eval](1<<21), now), now)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(one.Changes, two.Changes); diff != "" {
			t.Fatal(diff)
		}
		if diff := cmp.Diff(one.Diff(), two.Diff()); diff != "" {
			t.Fatal(diff)
		}
	})
}

// What it costs to plan a job of 1,000 on 5,000 nodes: new, unchanged, with
// other tasks, and one that finds no place.
func BenchmarkPlan(b *testing.B) {
	const nodes, count = 5000, 1000
	job := func(name, env string, cpu int) *berth.Job {
		return statetest.Job(b, fmt.Sprintf(`{"ID":%q,"TaskGroups":[{"Name":"g","Count":%d,"Tasks":[{"Name":"task","Driver":"mock_driver",
			"Env":{"A":%q},"Resources":{"CPU":%d,"MemoryMB":100}}]}]}`, name, count, env, cpu))
	}
	tx := state.Begin(state.New().Snapshot())
	do := func(cmds ...state.Command) {
		for _, c := range cmds {
			if r := tx.Apply(c); r.Err != nil {
				b.Fatal(r.Err)
			}
		}
	}
	for n := range nodes {
		do(statetest.AddNode(n+1, 64_000, 256_000))
	}
	for i := range 20 { // others run there too
		do(statetest.Register(job(fmt.Sprint("fill", i), "", 100), i+1))
		do(schedule.Decide(tx.Seal(), tx.Eval(statetest.ID[berth.Eval](i+1)), 0, time.Unix(1000, 0)).Plan)
	}
	snap := tx.Seal()
	for _, c := range []struct {
		name, job, env  string
		cpu             int
		created, queued int
	}{
		{"new", "web", "", 100, count, 0}, {"unchanged", "fill3", "", 100, 0, 0}, {"replaced", "fill3", "other", 100, count, 0}, {"no-place", "web", "", 100_000, 0, count},
	} {
		j := job(c.job, c.env, c.cpu)
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				d, err := Plan(snap, statetest.Register(j, 1<<20), time.Unix(2000, 0))
				if err != nil {
					b.Fatal(err)
				}
				if n := d.Changes["g"]; n.Created != c.created || n.Queued != c.queued || d.Diff() == nil {
					b.Fatalf("%+v", n)
				}
			}
		})
	}
}

package schedule_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"berth"
	"berth/internal/invariant"
	"berth/internal/schedule"
	"berth/internal/schedule/reconcile"
	"berth/internal/state"
	"berth/internal/state/statetest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// The stories of what is deleted and what stays. Evaluations are decided as
// soon as they are due; those that are blocked, when a node comes.
//
//	node n1 cpu=4000 | nodes 3        see statetest.NodesOf
//	job web count=2 …                 registers it, see statetest.JobOf
//	stop web [purge]
//	fare web.g[0] failed              what the agent says of the newest of that name, or of web.g[0]#1
//	down n1
//	wait 2h
//	fail web                          an evaluation of it fails, and is followed up in three hours
//	gc [force]                        collects; shows what went, and why ended rows stay
func TestCollectStories(t *testing.T) {
	statetest.Stories(t, "testdata/collect.txt", func(t *testing.T) func(input string) string {
		w := &gcWorld{t: t, now: time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC), names: map[any]string{}}
		w.snap = state.New().Snapshot()
		return func(input string) string {
			var out strings.Builder
			for _, l := range statetest.Lines(t, input) {
				w.line(l, &out)
			}
			return out.String()
		}
	})
}

type gcWorld struct {
	t     *testing.T
	snap  *state.Snapshot
	now   time.Time
	next  int
	names map[any]string // of rows, also of those that are gone
}

func (w *gcWorld) apply(c state.Command) {
	w.t.Helper()
	before := w.snap
	tx := state.Begin(w.snap)
	if r := tx.Apply(c); r.Err != nil {
		w.t.Fatalf("%T: %v", c, r.Err)
	}
	w.snap = tx.Seal()
	for _, v := range append(invariant.Check(w.snap), append(invariant.Step(before, w.snap), invariant.Between(before, w.snap)...)...) {
		w.t.Fatalf("%T: %s", c, v)
	}
	w.name()
}

// name names the rows that came: allocations by their name and turn,
// evaluations by their order.
func (w *gcWorld) name() {
	turns := map[string]int{}
	for _, n := range w.names {
		head, _, _ := strings.Cut(n, "#")
		turns[head]++
	}
	for a := range w.snap.Allocs() {
		if w.names[a.ID] == "" {
			turns[a.Name()]++
			w.names[a.ID] = fmt.Sprintf("%s#%d", a.Name(), turns[a.Name()])
		}
	}
	for e := range w.snap.Evals() {
		if w.names[e.ID] == "" {
			turns["eval"]++
			w.names[e.ID] = fmt.Sprintf("eval#%d", turns["eval"])
		}
	}
}

func (w *gcWorld) seed(trigger string) state.EvalSeed {
	w.next++
	return state.EvalSeed{ID: statetest.ID[berth.Eval](w.next), TriggeredBy: trigger, Cause: berth.Cause{Kind: berth.CauseUser}}
}

func (w *gcWorld) line(l *statetest.Line, out *strings.Builder) {
	now := w.now.UnixNano()
	key := berth.JobKey{Namespace: berth.DefaultNamespace, ID: berth.JobID(l.Word(0))}
	switch l.Verb {
	case "node", "nodes":
		for _, n := range statetest.NodesOf(w.t, l) {
			w.apply(&state.RegisterNode{Node: n, Now: now})
		}
		w.decide(berth.EvalBlocked)
	case "job":
		w.apply(&state.RegisterJob{Job: statetest.JobOf(w.t, l), Eval: w.seed(berth.TriggerJobRegister), Now: now})
	case "stop":
		w.apply(&state.StopJob{Key: key, Purge: l.Has("purge"), Eval: w.seed(berth.TriggerJobDeregister), Now: now})
	case "fare":
		w.fare(l.Word(0), l.Word(1))
	case "down":
		w.apply(&state.SetNodeStatus{ID: statetest.ID[berth.Node](statetest.NodeNumber(w.t, l.Word(0))), Status: berth.NodeDown,
			Seed: w.seed("").ID, Now: now})
	case "ineligible":
		w.apply(&state.SetNodeEligibility{ID: statetest.ID[berth.Node](statetest.NodeNumber(w.t, l.Word(0))), Eligibility: berth.NodeIneligible,
			Seed: w.seed("").ID, Now: now})
	case "fail":
		e := state.EvalFor{EvalSeed: w.seed(berth.TriggerJobRegister), Key: key}
		w.apply(&state.CreateEvals{Evals: []state.EvalFor{e}, Now: now})
		w.apply(&state.FailEval{ID: e.ID, Why: "told so", FollowUp: w.seed("").ID, Wait: w.now.Add(3 * time.Hour).UnixNano(), Now: now})
	case "wait":
		d, err := time.ParseDuration(l.Word(0))
		if err != nil {
			w.t.Fatal(err)
		}
		w.now = w.now.Add(d)
	case "gc":
		w.gc(l.Has("force"), out)
	default:
		w.t.Fatalf("what is %q?", l.Verb)
	}
	w.decide(berth.EvalPending)
}

func (w *gcWorld) fare(name, status string) {
	var newest *berth.Alloc
	for a := range w.snap.Allocs() {
		if a.Name() == name || w.names[a.ID] == name {
			newest = a
		}
	}
	u := state.AllocUpdate{ID: newest.ID}
	if err := u.Client.UnmarshalText([]byte(status)); err != nil {
		w.t.Fatal(err)
	}
	w.apply(&state.ReportAllocs{Node: newest.NodeID, Updates: []state.AllocUpdate{u}, Now: w.now.UnixNano()})
}

// decide decides the evaluations that are due.
func (w *gcWorld) decide(status string) {
	for again := true; again; {
		again = false
		for _, e := range slices.Collect(w.snap.OpenEvals(status)) {
			if e.Type == berth.TypeCore || e.WaitUntil > w.now.UnixNano() {
				continue
			}
			if e = w.snap.Eval(e.ID); e == nil || e.Status != status {
				continue // another's plan canceled it
			}
			w.apply(schedule.Decide(w.snap, e, 0, w.now).Plan)
			again = status == berth.EvalPending
		}
	}
}

func (w *gcWorld) gc(force bool, out *strings.Builder) {
	c := schedule.Collect(w.snap, schedule.DefaultAges, force, w.now, 1000)
	if due := schedule.Collectable(w.snap, schedule.DefaultAges, w.now); !force && due != (len(c.Delete) > 0) {
		w.t.Fatalf("there is something to collect: %v; it is %v", due, c.Delete)
	}
	before := w.snap
	for _, d := range c.Delete {
		w.apply(d)
	}
	fmt.Fprintln(out, w.told(before, c.Delete))
	sweep := state.NewSweep(w.snap)
	for a := range w.snap.Allocs() {
		if why := sweep.Alloc(a); why != "" && a.Ended() {
			fmt.Fprintf(out, "%s stays: %s\n", w.names[a.ID], w.short(why))
		}
	}
	for e := range w.snap.Evals() {
		if why := sweep.Eval(e); why != "" && e.Terminal() {
			fmt.Fprintf(out, "%s stays: %s\n", w.names[e.ID], w.short(why))
		}
	}
	if again := schedule.Collect(w.snap, schedule.DefaultAges, force, w.now, 1000); len(again.Delete) > 0 {
		w.t.Fatalf("a second collection finds %+v", again.Delete[0])
	}
}

func (w *gcWorld) short(why string) string {
	for id, name := range w.names {
		why = strings.ReplaceAll(why, fmt.Sprint(id), name)
	}
	why = strings.ReplaceAll(why, "evaluation eval#", "eval#")
	return strings.ReplaceAll(why, "allocation ", "")
}

func (w *gcWorld) told(before *state.Snapshot, cmds []*state.DeleteRows) string {
	var names []string
	for _, d := range cmds {
		for _, j := range d.Jobs {
			names = append(names, "job "+j.Key.String())
		}
		for _, a := range d.Allocs {
			names = append(names, w.names[a])
		}
		for _, e := range d.Evals {
			names = append(names, w.names[e])
		}
		for _, n := range d.Nodes {
			names = append(names, "node "+before.Node(n).Name)
		}
	}
	if names == nil {
		return "nothing goes"
	}
	return strings.Join(names, ", ")
}

// history leads a random cluster by commands and by what the scheduler itself
// decides, so that only states come up that can be.
func history(t *rapid.T, steps int) (*state.Snapshot, time.Time) {
	var draw statetest.Random
	snap, now := state.New().Snapshot(), time.Unix(0, 0)
	apply := func(c state.Command) {
		tx := state.Begin(snap)
		tx.Apply(c)
		snap = tx.Seal()
	}
	for range steps {
		c := draw.Command(t, snap)
		switch x := c.(type) {
		case *state.ApplyPlan, *state.DeleteRows, *state.BeginTerm, *state.FailEval, *state.CancelEvals:
			if evals := open(snap); len(evals) > 0 {
				e := rapid.SampledFrom(evals).Draw(t, "decided")
				if e.Type != berth.TypeCore && e.WaitUntil <= now.UnixNano() {
					apply(schedule.Decide(snap, e, 0, now).Plan)
				}
			}
		case *state.ReportAllocs:
			now = time.Unix(0, max(x.Now, now.UnixNano()))
			apply(c)
		default:
			apply(c)
		}
	}
	// Random agents seldom end all of a job; some are led to their end.
	for j := range snap.Jobs(berth.AllNamespaces, "") {
		if rapid.Bool().Draw(t, "goes on") {
			continue
		}
		if rapid.Bool().Draw(t, "stopped") {
			apply(&state.StopJob{Key: j.Key(), Now: now.UnixNano()})
		}
		for a := range snap.AllocsOf(j.Key()) {
			apply(&state.ReportAllocs{Node: a.NodeID, Now: now.UnixNano(), Updates: []state.AllocUpdate{{ID: a.ID, Client: berth.ClientComplete}}})
		}
		for _, e := range open(snap) {
			if e.Key() == j.Key() {
				apply(schedule.Decide(snap, e, 0, time.Unix(0, max(now.UnixNano(), e.WaitUntil))).Plan)
			}
		}
	}
	for n := range snap.Nodes() {
		if rapid.IntRange(0, 3).Draw(t, "down") == 0 {
			apply(&state.SetNodeStatus{ID: n.ID, Status: berth.NodeDown, Now: now.UnixNano()})
		}
	}
	return snap, now
}

// decisions are what the scheduler would do now and later for each job.
func decisions(snap *state.Snapshot, now time.Time) map[string]decision {
	out := map[string]decision{}
	for j := range snap.Jobs(berth.AllNamespaces, "") {
		e := &berth.Eval{
			ID: statetest.ID[berth.Eval](1 << 20), Namespace: j.Namespace, JobID: j.ID, JobUID: j.UID, Type: j.Type, Status: berth.EvalPending,
		}
		for _, at := range []time.Time{now, now.Add(2 * time.Hour)} {
			d := schedule.Decide(snap, e, 0, at)
			x := decision{d.Plan.Stop, d.Plan.Update, d.Plan.End.Later, d.Counts, map[string]berth.Placement{}}
			for i := range x.Later {
				x.Later[i].ID = berth.EvalID{}
			}
			for i := range x.Stop {
				if !x.Stop[i].FollowupEval.IsZero() {
					x.Stop[i].FollowupEval = e.ID
				}
			}
			if j.PerNode() { // what has ended there is noted as stopped or not, whichever comes first
				x.Counts = nil
				x.Stop = slices.DeleteFunc(x.Stop, func(s berth.AllocStop) bool { return !snap.Alloc(s.ID).Live() })
			}
			for _, p := range d.Plan.Place {
				if j.PerNode() { // there the name is not one instance's, and the pointer counts for nothing
					p.Previous = berth.AllocID{}
				}
				x.place[berth.AllocName(j.ID, j.TaskGroups[p.Group].Name, p.Index)] = berth.Placement{Previous: p.Previous, Resched: p.Resched}
			}
			out[fmt.Sprint(j.Key(), at.Sub(now))] = x
		}
	}
	return out
}

// decision is a plan as far as it does not depend on IDs and chance. Which of
// the instances that are missing find a place can depend on ties, which are
// broken by the state's index; how many are missing stands in Counts.
type decision struct {
	Stop   []berth.AllocStop
	Update []berth.AllocID
	Later  []state.NewEval
	Counts map[string]*reconcile.Counts
	place  map[string]berth.Placement
}

// differs says how another decision differs, "" if it does not.
func (d decision) differs(other decision) string {
	for name, p := range d.place {
		if q, ok := other.place[name]; ok && !cmp.Equal(p, q) {
			return fmt.Sprintf("%s is placed as %+v and as %+v", name, p, q)
		}
	}
	return cmp.Diff(d, other, cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(decision{}))
}

// Whatever happened: what is collected is accepted command by command, nothing
// that is kept refers to what went, the scheduler decides as before for every
// job that is there, and in the end there is nothing left to collect.
func TestCollectingChangesNoDecision(t *testing.T) {
	var rows schedule.Tally
	rapid.Check(t, func(t *rapid.T) {
		snap, now := history(t, rapid.IntRange(1, 60).Draw(t, "steps"))
		force := rapid.Bool().Draw(t, "force")
		if !force {
			now = now.Add(time.Duration(rapid.IntRange(0, 30).Draw(t, "hours")) * time.Hour)
		}
		before := decisions(snap, now)
		was := snap.Hash()
		most := rapid.SampledFrom([]int{1, 3, 1000}).Draw(t, "most")
		after, whole := snap, false
		for round := 0; ; round++ {
			c := schedule.Collect(after, schedule.DefaultAges, force, now, most)
			collect := func(d state.Command) {
				tx := state.Begin(after)
				if r := tx.Apply(d); r.Err != nil {
					t.Fatal(r.Err)
				}
				next := tx.Seal()
				for _, v := range append(invariant.Check(next), append(invariant.Step(after, next), invariant.Between(after, next)...)...) {
					t.Fatal(v)
				}
				after = next
			}
			for _, d := range c.Delete {
				if d.Len() > state.MaxDeletes {
					t.Fatalf("a command deletes %d rows", d.Len())
				}
				rows.Add(d)
				collect(d)
			}
			for _, d := range c.Orphans {
				rows.Objects++
				collect(d)
			}
			found := len(c.Delete) + len(c.Orphans)
			if found == 0 && !c.More {
				break
			}
			if found == 0 || round > 10_000 {
				t.Fatal("there is more, and nothing goes")
			}
			// After all went, there can be only what that kept: a job that died
			// with a younger row, or what belonged to an orphan.
			if whole && !slices.ContainsFunc(c.Delete, func(d *state.DeleteRows) bool { return len(d.Jobs) > 0 }) {
				t.Fatalf("a second collection finds %+v", c)
			}
			whole = !c.More && len(c.Orphans) == 0
		}
		if snap.Hash() != was {
			t.Fatal("the state that was looked at changed")
		}
		for key, d := range decisions(after, now) {
			if diff := before[key].differs(d); diff != "" {
				t.Fatalf("of %s something else is decided: %s", key, diff)
			}
		}
		if err := state.CheckFrozen(); err != nil {
			t.Fatal(err)
		}
	})
	if rows.Jobs == 0 || rows.Allocs == 0 || rows.Evals == 0 || rows.Nodes == 0 {
		t.Errorf("the histories are too tame: %s", rows)
	}
	t.Log(rows)
}

// Large collections come in commands of bounded size, jobs whole where they
// fit, and each may be cut anywhere between.
func TestCollectionsAreBounded(t *testing.T) {
	snap := ended(t, 30, 90)
	c := schedule.Collect(snap, schedule.DefaultAges, true, time.Unix(1e6, 0), 1<<20)
	tx, rows := state.Begin(snap), schedule.Tally{}
	for _, d := range c.Delete {
		if d.Len() > state.MaxDeletes {
			t.Errorf("a command deletes %d rows", d.Len())
		}
		if b := state.AppendCommand(nil, d); len(b) > 64<<10 {
			t.Errorf("a command takes %d bytes", len(b))
		}
		if r := tx.Apply(d); r.Err != nil {
			t.Fatal(r.Err)
		}
		rows.Add(d)
	}
	left := tx.Seal()
	if rows.Jobs != 30 || rows.Allocs != 30*90 || left.Count(state.Allocs)+left.Count(state.Evals)+left.Count(state.Jobs) > 0 || len(c.Delete) != 3 {
		t.Errorf("%d commands: %s", len(c.Delete), rows)
	}
	if part := schedule.Collect(snap, schedule.DefaultAges, true, time.Unix(1e6, 0), 100); !part.More || len(part.Delete) != 1 || len(part.Delete[0].Jobs) != 2 {
		t.Errorf("asked for about 100 rows: %+v", part)
	}
}

// ended is a state with batch jobs that are done, of so many allocations each.
func ended(t testing.TB, jobs, count int) *state.Snapshot { return batches(t, jobs, count, count) }

// batches is a state with batch jobs of which so many allocations have ended.
func batches(t testing.TB, jobs, count, done int) *state.Snapshot {
	t.Helper()
	tx := state.Begin(state.New().Snapshot())
	apply := func(c state.Command) {
		if r := tx.Apply(c); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	apply(statetest.AddNode(1, 1<<40, 1<<40, func(n *berth.Node) { n.NodeResources.Disk.DiskMB = 1 << 40 }))
	for i := range jobs {
		j := statetest.Job(t, fmt.Sprintf(`{"ID":"b%d","Type":"batch","TaskGroups":[{"Name":"g","Count":%d}]}`, i, count))
		apply(statetest.Register(j, i+1))
		plan := &state.ApplyPlan{Eval: statetest.ID[berth.Eval](i + 1), Now: 1, End: &state.EvalEnd{Status: berth.EvalComplete}}
		for k := range count {
			plan.Place = append(plan.Place, berth.Placement{Index: uint32(k), NodeID: statetest.ID[berth.Node](1)})
		}
		apply(plan)
		report := &state.ReportAllocs{Node: statetest.ID[berth.Node](1), Now: 2}
		for a := range tx.AllocsBy(plan.Eval) {
			if len(report.Updates) < done {
				report.Updates = append(report.Updates, state.AllocUpdate{ID: a.ID, Client: berth.ClientComplete})
			}
		}
		apply(report)
	}
	return tx.Seal()
}

// What a look at the rows costs when nothing is to be deleted, and per row
// when all is.
func BenchmarkCollect(b *testing.B) {
	snap := ended(b, 1000, 1000)
	young, old := time.Unix(1, 0), time.Unix(1e6, 0)
	b.Run("1,000,000 allocations, none old", func(b *testing.B) {
		for b.Loop() {
			if schedule.Collectable(snap, schedule.DefaultAges, young) {
				b.Fatal("something is old")
			}
		}
	})
	b.Run("1,000,000 allocations, all old and needed", func(b *testing.B) {
		snap := batches(b, 1000, 1000, 999)
		for b.Loop() {
			if schedule.Collectable(snap, schedule.DefaultAges, old) {
				b.Fatal("something is free")
			}
		}
	})
	b.Run("1,000,000 allocations, 50,000 chosen", func(b *testing.B) {
		for b.Loop() {
			schedule.Collect(snap, schedule.DefaultAges, false, old, 50_000)
		}
	})
	b.Run("a command of 1,000", func(b *testing.B) {
		cmds := schedule.Collect(snap, schedule.DefaultAges, false, old, 50_000).Delete
		for i := 0; b.Loop(); i++ {
			if i%len(cmds) == 0 { // they follow each other
				b.StopTimer()
				tx = state.Begin(snap)
				b.StartTimer()
			}
			if r := tx.Apply(cmds[i%len(cmds)]); r.Err != nil {
				b.Fatal(r.Err)
			}
		}
	})
}

var tx *state.Tx

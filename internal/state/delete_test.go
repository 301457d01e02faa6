package state_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"berth"
	"berth/internal/invariant"
	"berth/internal/state"
	"berth/internal/state/statetest"

	"pgregory.net/rapid"
)

// placed is a batch job of two instances on a node, each in a place that an
// explanation tells about; of the first the agent says that it is done.
func placed(t *testing.T) (*state.Store, *statetest.Log, []*berth.Alloc) {
	t.Helper()
	j := statetest.Job(t, `{"ID":"sum","Type":"batch","TaskGroups":[{"Name":"g","Count":2}]}`)
	store, log := statetest.New(t, statetest.AddNode(1, 4000, 4000), statetest.AddNode(2, 4000, 4000), statetest.Register(j, 1),
		&state.ApplyPlan{Eval: statetest.ID[berth.Eval](1), Now: 1, End: &state.EvalEnd{Status: berth.EvalComplete},
			Place:   []berth.Placement{{NodeID: statetest.ID[berth.Node](1)}, {Index: 1, NodeID: statetest.ID[berth.Node](1)}},
			Explain: map[string]*berth.AllocMetric{"g": {NodesEvaluated: 2}},
		})
	var all []*berth.Alloc
	for a := range store.Snapshot().Allocs() {
		all = append(all, a)
	}
	log.Must(t, ends(all[0]))
	return store, log, all
}

func ends(a *berth.Alloc) *state.ReportAllocs {
	return &state.ReportAllocs{Node: a.NodeID, Now: 2, Updates: []state.AllocUpdate{{ID: a.ID, Client: berth.ClientComplete}}}
}

// What is needed refuses the deletion of all that the command names, and says
// so; what is gone is passed over.
func TestDeletionsAreRefused(t *testing.T) {
	store, log, all := placed(t)
	web := state.JobRef{Key: berth.JobKey{Namespace: "default", ID: "sum"}, UID: all[0].Job.UID}
	n1, n2 := statetest.ID[berth.Node](1), statetest.ID[berth.Node](2)
	e1 := statetest.ID[berth.Eval](1)
	log.Must(t, &state.SetNodeStatus{ID: n2, Status: berth.NodeDown, Now: 3})
	for what, c := range map[string]struct {
		del  *state.DeleteRows
		want string // "" if it is accepted
	}{
		"nothing":                       {&state.DeleteRows{}, "delete: must name 1 to 1000 rows, got 0"},
		"too much":                      {&state.DeleteRows{Evals: make([]berth.EvalID, 1001)}, "rows, got 1001"},
		"a job that runs":               {&state.DeleteRows{Jobs: []state.JobRef{web}}, `job sum cannot be deleted: it is running`},
		"a task that runs":              {&state.DeleteRows{Allocs: []berth.AllocID{all[1].ID}}, "cannot be deleted: it is pending"},
		"a finished batch instance":     {&state.DeleteRows{Allocs: []berth.AllocID{all[0].ID}}, "the instance would run again"},
		"the evaluation of what runs":   {&state.DeleteRows{Evals: []berth.EvalID{e1}}, "belongs to it"},
		"a node that is ready":          {&state.DeleteRows{Nodes: []berth.NodeID{n1}}, "cannot be deleted: it is ready"},
		"a node, and one that is ready": {&state.DeleteRows{Nodes: []berth.NodeID{n2, n1}}, "it is ready"},
		"what is not there":             {&state.DeleteRows{Allocs: []berth.AllocID{{1}}, Jobs: []state.JobRef{{Key: web.Key}}}, ""},
	} {
		_, err := log.Propose(context.Background(), c.del)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v; wanted is %q", what, err, c.want)
		}
	}
	if s := store.Snapshot(); s.Count(state.Nodes) != 2 || s.Count(state.Allocs) != 2 || s.Count(state.Evals) != 1 {
		t.Error("something is gone")
	}
}

// A job goes with its versions, counts and explanations in one command, and
// those who watch any of it are told; the events are changes without a new row.
func TestADeletionIsSeen(t *testing.T) {
	store, log, all := placed(t)
	log.Must(t, ends(all[1]))
	key, e1 := all[0].Key(), statetest.ID[berth.Eval](1)
	watches := map[string]*state.Watch{
		"job": store.Watch(state.OnJob(key)), "evaluation": store.Watch(state.OnEval(e1)), "its evaluations": store.Watch(state.OnEvalsOf(key)),
		"allocation": store.Watch(state.OnAlloc(all[0].ID)), "its allocations": store.Watch(state.OnAllocsOf(key)),
		"allocations on the node": store.Watch(state.OnAllocsOn(all[0].NodeID)), "of the evaluation": store.Watch(state.OnAllocsBy(e1)),
		"table": store.Watch(state.OnTable(state.Allocs)), "another job": store.Watch(state.OnJob(berth.JobKey{Namespace: "default", ID: "x"})),
	}
	at := store.Commit()
	log.Must(t, &state.DeleteRows{Jobs: []state.JobRef{{Key: key, UID: all[0].Job.UID}}, Allocs: []berth.AllocID{all[0].ID, all[1].ID, all[0].ID}, Evals: []berth.EvalID{e1}})
	for what, w := range watches {
		woken := false
		select {
		case <-w.C():
			woken = true
		default:
		}
		if woken == (what == "another job") {
			t.Errorf("who watches the %s is told: %v", what, woken)
		}
		w.Stop()
	}
	gone := map[state.Table]int{}
	for _, c := range at.TryNext().Changes {
		if c.Old == nil {
			t.Errorf("a change of %s is of nothing", c.Table)
		}
		if c.New == nil {
			gone[c.Table]++
		}
	}
	if fmt.Sprint(gone) != fmt.Sprint(map[state.Table]int{state.Jobs: 1, state.Allocs: 2, state.Evals: 1, state.Summaries: 1}) {
		t.Errorf("told as gone are %v", gone)
	}
	s := store.Snapshot()
	left := 0
	for range s.JobVersions(key) {
		left++
	}
	for range s.Explanations() {
		left++
	}
	n := s.Node(all[0].NodeID)
	if left > 0 || s.Summary(key) != nil || s.Explanation(e1) != nil || s.Usage(n.Number).Changed != s.Index {
		t.Errorf("%d rows are left, the counts are %v, the node's agent is told at %d of %d", left, s.Summary(key), s.Usage(n.Number).Changed, s.Index)
	}
	for _, v := range invariant.Check(s) {
		t.Error(v)
	}
}

// Of the system's own evaluations a timer raises one at a time; those of users
// are in its way as little as it is in theirs.
func TestCoreEvaluations(t *testing.T) {
	store, log := statetest.New(t)
	raise := func(n int, force bool) error {
		_, err := log.Propose(context.Background(), &state.RaiseCore{ID: statetest.ID[berth.Eval](n), Force: force, Cause: berth.Cause{Kind: berth.CauseSystem}, Now: 1})
		return err
	}
	for n, c := range []struct {
		force bool
		want  berth.Kind
	}{{true, ""}, {false, ""}, {false, berth.Conflict}, {true, ""}} {
		if err := raise(n+1, c.force); berth.KindOf(err) != c.want || c.want == "" && err != nil {
			t.Errorf("number %d: %v", n+1, err)
		}
	}
	if err := raise(1, true); berth.KindOf(err) != berth.Conflict {
		t.Errorf("an ID for the second time: %v", err)
	}
	s := store.Snapshot()
	if e := s.OpenCore(false); e == nil || e.ID != statetest.ID[berth.Eval](2) || e.Type != berth.TypeCore || s.Namespace(e.Namespace) != nil {
		t.Errorf("the timer's is %+v", e)
	}
}

// Whatever nodes come and go: a server that loads the state gives out the same
// numbers as the one that saved it.
func TestNodeNumbersAreGivenBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		snap := state.New().Snapshot()
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			n := rapid.IntRange(1, 9).Draw(t, "node")
			id := statetest.ID[berth.Node](n)
			var cmds []state.Command
			if snap.Node(id) == nil {
				cmds = append(cmds, statetest.AddNode(n, 1000, 1000, func(x *berth.Node) { x.NodeClass = fmt.Sprint(n % 3) }))
			} else {
				cmds = append(cmds, &state.SetNodeStatus{ID: id, Status: berth.NodeDown}, &state.DeleteRows{Nodes: []berth.NodeID{id}})
			}
			var saved bytes.Buffer
			if err := snap.Save(&saved); err != nil {
				t.Fatal(err)
			}
			loaded, err := state.Load(&saved)
			if err != nil {
				t.Fatal(err)
			}
			var after []*state.Snapshot
			for _, base := range []*state.Snapshot{snap, loaded} {
				tx := state.Begin(base)
				for _, c := range cmds {
					if r := tx.Apply(c); r.Err != nil {
						t.Fatal(r.Err)
					}
				}
				s := tx.Seal()
				for _, v := range invariant.Check(s) {
					t.Fatal(v)
				}
				after = append(after, s)
			}
			if a, b := after[0], after[1]; a.Hash() != b.Hash() || a.NodeNumbers() != b.NodeNumbers() {
				t.Fatalf("the one has %d lines, the other %d", a.NodeNumbers(), b.NodeNumbers())
			}
			snap = after[0]
			if most := uint32(snap.Count(state.Nodes)); most == 0 && snap.NodeNumbers() != 0 {
				t.Fatalf("without nodes there are %d lines", snap.NodeNumbers())
			}
		}
	})
}

package state_test

import (
	"slices"
	"testing"

	"berth"
	"berth/internal/invariant"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// away is a cluster of three nodes; the job web waits for clients that are not
// heard, and its only instance runs on the first.
type away struct {
	t     *testing.T
	store *state.Store
	log   *statetest.Log
	evals int
	first *berth.Alloc
}

func newAway(t *testing.T, jobType string) *away {
	store, log := statetest.New(t, &state.BeginTerm{Term: 1}, statetest.AddNode(1, 1000, 1000), statetest.AddNode(2, 1000, 1000), statetest.AddNode(3, 1000, 1000))
	w := &away{t: t, store: store, log: log}
	w.register(`{"ID":"web","Type":"` + jobType + `","TaskGroups":[{"Name":"g","Count":1,"Disconnect":{"LostAfter":3600000000000}}]}`)
	w.plan(&state.ApplyPlan{Place: []berth.Placement{{NodeID: node(1)}}})
	w.first = w.alloc(1)
	w.says(w.first, berth.ClientRunning)
	return w
}

func node(n int) berth.NodeID { return statetest.ID[berth.Node](n) }

func (w *away) register(text string) {
	w.t.Helper()
	w.evals++
	w.log.Must(w.t, statetest.Register(statetest.Job(w.t, text), w.evals))
}

// plan applies a plan of a new evaluation, and says what was refused of it.
func (w *away) plan(p *state.ApplyPlan) []berth.Refusal {
	w.t.Helper()
	if w.evals > 1 || p.Place == nil {
		w.evals++
		w.log.Must(w.t, &state.CreateEvals{Evals: []state.EvalFor{{
			EvalSeed: state.EvalSeed{ID: statetest.ID[berth.Eval](w.evals), TriggeredBy: berth.TriggerNodeUpdate, Cause: berth.Cause{Kind: berth.CauseSystem}},
			Key:      berth.JobKey{Namespace: berth.DefaultNamespace, ID: "web"},
		}}})
	}
	p.Eval, p.End = statetest.ID[berth.Eval](w.evals), &state.EvalEnd{Status: berth.EvalComplete}
	if p.Now == 0 {
		p.Now = 100
	}
	base := w.store.Snapshot()
	w.log.Must(w.t, p)
	w.holds(base)
	return p.Refused
}

// holds checks what must hold of any state.
func (w *away) holds(*state.Snapshot) {
	w.t.Helper()
	for _, v := range invariant.Check(w.store.Snapshot()) {
		w.t.Error(v)
	}
}

func (w *away) status(n int, status string) *state.SetNodeStatus {
	w.t.Helper()
	c := &state.SetNodeStatus{ID: node(n), Status: status, Seed: [16]byte{byte(w.evals), byte(len(status))}, Now: 50}
	w.log.Must(w.t, c)
	return c
}

// alloc returns the allocation on a node.
func (w *away) alloc(n int) *berth.Alloc {
	w.t.Helper()
	all := slices.Collect(w.store.Snapshot().AllocsOn(node(n)))
	if len(all) != 1 {
		w.t.Fatalf("%d allocations on node %d", len(all), n)
	}
	return all[0]
}

func (w *away) says(a *berth.Alloc, c berth.ClientStatus) *state.ReportAllocs {
	w.t.Helper()
	r := &state.ReportAllocs{Node: a.NodeID, Updates: []state.AllocUpdate{{ID: a.ID, Client: c}}, Now: 200}
	w.log.Must(w.t, r)
	w.holds(nil)
	return r
}

func (w *away) unknown(a *berth.Alloc) {
	w.t.Helper()
	w.plan(&state.ApplyPlan{Stop: []berth.AllocStop{{ID: a.ID, StopReason: berth.UnknownAway, Client: berth.ClientUnknown}}})
}

func (w *away) is(id berth.AllocID, c berth.ClientStatus, d berth.DesiredStatus) *berth.Alloc {
	w.t.Helper()
	a := w.store.Snapshot().Alloc(id)
	if a.Client != c || a.Desired != d {
		w.t.Fatalf("%s is %s, desired %s; want %s, %s", a.Name(), a.Client, a.Desired, c, d)
	}
	return a
}

// What is not heard is unknown, keeps its room, and its job runs; when its
// agent says how it fares, it is that, and its job is looked at once.
func TestUnknownAndBack(t *testing.T) {
	w := newAway(t, "service")
	w.status(1, berth.NodeDisconnected)
	w.unknown(w.first)
	a := w.is(w.first.ID, berth.ClientUnknown, berth.DesiredRun)
	s := w.store.Snapshot()
	if a.Rest().UnknownSince != 100 || a.Rest().ClientDescription != berth.UnknownAway.String() || a.AllocModifyIndex <= w.first.AllocModifyIndex {
		t.Errorf("unknown since %d, %q; its agent sees it at %d", a.Rest().UnknownSince, a.Rest().ClientDescription, a.AllocModifyIndex)
	}
	if u := s.Usage(s.Node(node(1)).Number); u.Allocs != 1 || u.Used.CPU != 100 || u.Changed != a.AllocModifyIndex {
		t.Errorf("its node uses %+v for %d allocations", u.Used, u.Allocs)
	}
	sum := s.Summary(a.Key())
	if status, _ := sum.Status(a.Job); status != berth.JobRunning || sum.Groups[0].Unknown != 1 || sum.Groups[0].Running != 0 {
		t.Errorf("the job is %s with %+v", status, sum.Groups)
	}
	// Again: nothing new, and not since later.
	w.plan(&state.ApplyPlan{Now: 900, Stop: []berth.AllocStop{{ID: a.ID, Client: berth.ClientUnknown}}})
	if again := w.is(a.ID, berth.ClientUnknown, berth.DesiredRun); again.Rest().UnknownSince != 100 {
		t.Errorf("unknown since %d", again.Rest().UnknownSince)
	}

	if c := w.status(1, berth.NodeReady); len(c.Evals) != 1 {
		t.Errorf("the node that is back raised %v", c.Evals)
	}
	w.says(a, berth.ClientUnknown) // which is not for an agent to say
	w.is(a.ID, berth.ClientUnknown, berth.DesiredRun)
	r := w.says(a, berth.ClientRunning)
	if b := w.is(a.ID, berth.ClientRunning, berth.DesiredRun); b.Rest().UnknownSince != 0 || b.Rest().ClientDescription != "" {
		t.Errorf("it runs, and is unknown since %d: %q", b.Rest().UnknownSince, b.Rest().ClientDescription)
	}
	if len(r.Evals) != 1 {
		t.Fatalf("the report raised %v", r.Evals)
	}
	e := w.store.Snapshot().Eval(r.Evals[0])
	if e.TriggeredBy != berth.TriggerReconnect || e.Cause != (berth.Cause{Kind: berth.CauseNode, ID: node(1).String()}) || e.NodeID != node(1) || e.JobID != "web" {
		t.Errorf("%+v", e)
	}
	if again := w.says(a, berth.ClientRunning); len(again.Evals) != 0 {
		t.Error("a second report raised an evaluation")
	}
	for _, ev := range w.store.Snapshot().Node(node(1)).Events {
		if ev.Message == "Node reconnected" {
			return
		}
	}
	t.Error("the node does not tell that it came back")
}

// However it fared meanwhile, one evaluation sees to it.
func TestBackAndEnded(t *testing.T) {
	for _, c := range []berth.ClientStatus{berth.ClientFailed, berth.ClientComplete, berth.ClientPending} {
		w := newAway(t, "batch")
		w.status(1, berth.NodeDisconnected)
		w.unknown(w.first)
		r := w.says(w.first, c)
		w.is(w.first.ID, c, berth.DesiredRun)
		if len(r.Evals) != 1 || w.store.Snapshot().Eval(r.Evals[0]).TriggeredBy != berth.TriggerReconnect {
			t.Errorf("%s: it raised %v", c, r.Evals)
		}
	}
}

// A plan made before the node was heard again, or given up, makes nothing
// unknown; nor is anything unknown that ended or is to end.
func TestUnknownOnlyWhileDisconnected(t *testing.T) {
	for _, status := range []string{berth.NodeReady, berth.NodeInit, berth.NodeDown} {
		w := newAway(t, "service")
		w.status(1, status)
		w.unknown(w.first)
		w.is(w.first.ID, berth.ClientRunning, berth.DesiredRun)
	}
	w := newAway(t, "service")
	w.status(1, berth.NodeDisconnected)
	w.plan(&state.ApplyPlan{Stop: []berth.AllocStop{{ID: w.first.ID, StopReason: berth.StopSurplus}}})
	w.unknown(w.first)
	w.is(w.first.ID, berth.ClientRunning, berth.DesiredStop)
	w.says(w.first, berth.ClientComplete)
	w.unknown(w.first)
	w.is(w.first.ID, berth.ClientComplete, berth.DesiredStop)
}

// What is not heard for too long is lost, and leaves its room; not if its node
// is heard: then it is stopped, and its agent says when it has.
func TestUnknownIsLost(t *testing.T) {
	for status, want := range map[string]berth.ClientStatus{
		berth.NodeDisconnected: berth.ClientLost, berth.NodeDown: berth.ClientLost, berth.NodeReady: berth.ClientUnknown,
	} {
		w := newAway(t, "service")
		w.status(1, berth.NodeDisconnected)
		w.unknown(w.first)
		w.status(1, status)
		w.plan(&state.ApplyPlan{Stop: []berth.AllocStop{{ID: w.first.ID, StopReason: berth.StopAway, Client: berth.ClientLost}}})
		w.is(w.first.ID, want, berth.DesiredStop)
		s := w.store.Snapshot()
		if used := s.Usage(s.Node(node(1)).Number).Allocs; (used == 0) != (want == berth.ClientLost) {
			t.Errorf("%s: %d allocations hold room", status, used)
		}
		r := w.says(w.first, berth.ClientComplete)
		if want == berth.ClientLost {
			w.is(w.first.ID, berth.ClientLost, berth.DesiredStop)
		} else {
			w.is(w.first.ID, berth.ClientComplete, berth.DesiredStop)
		}
		if len(r.Evals) != 0 {
			t.Errorf("%s: what should end and did raised %v", status, r.Evals)
		}
	}
}

// Only what stands in for an unknown allocation shares its name, and what
// replaces that; the evaluation at its time is waited for all the same.
func TestUnknownSharesItsName(t *testing.T) {
	w := newAway(t, "service")
	w.status(1, berth.NodeDisconnected)
	later := statetest.ID[berth.Eval](77)
	w.unknown(w.first)
	w.evals++
	w.log.Must(t, &state.CreateEvals{Evals: []state.EvalFor{{
		EvalSeed: state.EvalSeed{ID: statetest.ID[berth.Eval](w.evals), TriggeredBy: berth.TriggerNodeUpdate, Cause: berth.Cause{Kind: berth.CauseSystem}},
		Key:      w.first.Key(),
	}}})
	w.log.Must(t, &state.ApplyPlan{
		Eval: statetest.ID[berth.Eval](w.evals), Stop: []berth.AllocStop{{ID: w.first.ID, FollowupEval: later}},
		End: &state.EvalEnd{Status: berth.EvalComplete, Later: []state.NewEval{{ID: later, TriggeredBy: berth.TriggerMaxDisconnectTimeout, WaitUntil: 3600}}},
	})
	if e := w.store.Snapshot().Eval(later); e.TriggeredBy != berth.TriggerMaxDisconnectTimeout || e.PreviousEval != statetest.ID[berth.Eval](w.evals) {
		t.Errorf("%+v", e)
	}
	if r := w.plan(&state.ApplyPlan{Place: []berth.Placement{{NodeID: node(2)}}}); len(r) != 1 {
		t.Fatal("another allocation took the name of an unknown one")
	}
	if r := w.plan(&state.ApplyPlan{Place: []berth.Placement{{NodeID: node(2), Previous: w.first.ID}}}); len(r) != 0 {
		t.Fatalf("nothing can stand in for an unknown allocation: %+v", r)
	}
	second := w.alloc(2)
	if a := w.is(w.first.ID, berth.ClientUnknown, berth.DesiredRun); a.Rest().Next != second.ID || a.Rest().FollowupEval != later {
		t.Errorf("%+v", a.Rest())
	}
	if r := w.plan(&state.ApplyPlan{Place: []berth.Placement{{NodeID: node(3)}}}); len(r) != 1 {
		t.Fatal("a third allocation has the name")
	}
	// The one that stands in fails and is replaced.
	w.says(second, berth.ClientFailed)
	if r := w.plan(&state.ApplyPlan{Place: []berth.Placement{{NodeID: node(3), Previous: second.ID}}, Stop: []berth.AllocStop{{ID: second.ID, StopReason: berth.StopFailed}}}); len(r) != 0 {
		t.Fatalf("what stands in cannot be replaced: %+v", r)
	}
	third := w.alloc(3)
	// The first comes back: both run under one name until the evaluation has
	// decided, and it does not wait for its time any more.
	w.status(1, berth.NodeReady)
	w.says(w.first, berth.ClientRunning)
	if a := w.is(w.first.ID, berth.ClientRunning, berth.DesiredRun); !a.Rest().FollowupEval.IsZero() {
		t.Error("it still waits to be lost")
	}
	w.says(third, berth.ClientRunning)
	if r := w.plan(&state.ApplyPlan{Place: []berth.Placement{{NodeID: node(2)}}}); len(r) != 1 {
		t.Fatal("a third allocation has the name")
	}
	w.plan(&state.ApplyPlan{Stop: []berth.AllocStop{{ID: third.ID, StopReason: berth.StopRejoined}}})
	if r := w.plan(&state.ApplyPlan{Place: []berth.Placement{{NodeID: node(2)}}}); len(r) != 1 {
		t.Fatal("another allocation took the name of one that came back")
	}
}

// What runs cannot be replaced beside itself, whatever it was before.
func TestWhatIsBackIsNotReplaced(t *testing.T) {
	w := newAway(t, "service")
	w.status(1, berth.NodeDisconnected)
	w.unknown(w.first)
	w.status(1, berth.NodeReady)
	w.says(w.first, berth.ClientRunning)
	if r := w.plan(&state.ApplyPlan{Place: []berth.Placement{{NodeID: node(2), Previous: w.first.ID}}}); len(r) != 1 {
		t.Error("a plan made before it came back replaced it")
	}
}

// A node that changes raises an evaluation of the job that there is, also for
// what is left there of an earlier job of its name: one of the earlier job would
// be taken for older than others of the job, which may have been decided already.
func TestNodeAsksForTheJobThatThereIs(t *testing.T) {
	w := newAway(t, berth.TypeService)
	gone := w.store.Snapshot().Job(w.first.Key())
	w.log.Must(t, &state.StopJob{Key: gone.Key(), Purge: true, Now: 150, Eval: state.EvalSeed{
		ID: statetest.ID[berth.Eval](50), TriggeredBy: berth.TriggerJobDeregister, Cause: berth.Cause{Kind: berth.CauseUser},
	}})
	one := func(c *state.SetNodeStatus) *berth.Eval {
		t.Helper()
		if len(c.Evals) != 1 {
			t.Fatalf("%d evaluations are raised", len(c.Evals))
		}
		return w.store.Snapshot().Eval(c.Evals[0])
	}
	if e := one(w.status(1, berth.NodeDisconnected)); e.JobUID != gone.UID {
		t.Errorf("nothing but the job that was purged left something, and %v is looked at", e.JobUID)
	}
	w.register(`{"ID":"web","Type":"batch","TaskGroups":[{"Name":"g","Count":1}]}`)
	now := w.store.Snapshot().Job(gone.Key())
	if e := one(w.status(1, berth.NodeDown)); e.JobUID != now.UID || e.Type != berth.TypeBatch {
		t.Errorf("job %v of type %s is looked at, not the %s %v", e.JobUID, e.Type, now.Type, now.UID)
	}
}

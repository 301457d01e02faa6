package invariant_test

import (
	"slices"
	"strings"
	"testing"

	"berth"
	"berth/internal/invariant"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// A small cluster in which all is well: two nodes, a job of two instances of
// which one failed and found no place again, an evaluation that was given up,
// and the two that follow from them.
func cluster(t *testing.T) *state.Snapshot {
	t.Helper()
	tx := state.Begin(state.New().Snapshot())
	cause := berth.Cause{Kind: berth.CauseUser}
	for _, c := range []state.Command{
		statetest.AddNode(1, 1000, 1000), statetest.AddNode(2, 1000, 1000),
		statetest.Register(statetest.Job(t, `{"ID":"web","TaskGroups":[{"Name":"g","Count":2,"Resources":{"CPU":600,"MemoryMB":100}}]}`), first),
		&state.ApplyPlan{
			Eval: statetest.ID[berth.Eval](first), Now: 2,
			Place: []berth.Placement{{NodeID: statetest.ID[berth.Node](1)}, {Index: 1, NodeID: statetest.ID[berth.Node](2)}},
			End: &state.EvalEnd{
				Status: berth.EvalComplete, Failed: map[string]*berth.AllocMetric{"g": {NodesExhausted: 1}}, Missed: &berth.Missed{},
				Blocked: &state.NewEval{ID: statetest.ID[berth.Eval](blocked), TriggeredBy: berth.TriggerQueuedAllocs},
			},
		},
		&state.CreateEvals{Now: 3, Evals: []state.EvalFor{{
			EvalSeed: state.EvalSeed{ID: statetest.ID[berth.Eval](failed), TriggeredBy: berth.TriggerJobRegister, Cause: cause},
			Key:      berth.JobKey{Namespace: berth.DefaultNamespace, ID: "web"},
		}}},
		&state.FailEval{ID: statetest.ID[berth.Eval](failed), Why: "too often", FollowUp: statetest.ID[berth.Eval](followUp), Wait: 9, Now: 4},
	} {
		if r := tx.Apply(c); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	return tx.Seal()
}

// The numbers of its evaluations.
const (
	first    = 10
	blocked  = 11
	failed   = 12
	followUp = 13
)

func eval(s *state.Snapshot, n int) *berth.Eval { return s.Eval(statetest.ID[berth.Eval](n)) }

func allocs(s *state.Snapshot) []*berth.Alloc { return slices.Collect(s.Allocs()) }

func ids(found []invariant.Violation) (out []string) {
	for _, v := range found {
		if !slices.Contains(out, v.ID) {
			out = append(out, v.ID)
		}
	}
	slices.Sort(out)
	return out
}

// expect fails unless the violations found are of the one that was planted.
func expect(t *testing.T, what, id string, found []invariant.Violation) {
	t.Helper()
	if !slices.Contains(ids(found), id) {
		t.Errorf("%s: %s is not found, only %v", what, id, found)
	}
}

func TestSoundStateIsSound(t *testing.T) {
	if v := invariant.Check(cluster(t)); v != nil {
		t.Error(v)
	}
}

// What is wrong with a state is found under its number. Rows are changed in
// place here, as no command would.
func TestCheckFinds(t *testing.T) {
	for _, x := range []struct {
		what, id string
		plant    func(s *state.Snapshot)
	}{
		{"a status that there is not", "I-01", func(s *state.Snapshot) { eval(s, first).Status = "odd" }},
		{"a second blocked evaluation", "I-04", func(s *state.Snapshot) { *eval(s, failed) = withID(eval(s, blocked), failed) }},
		{"a blocked evaluation without a reason", "I-04", func(s *state.Snapshot) { eval(s, blocked).FailedTGAllocs = nil }},
		{"a blocked evaluation of a job that was stopped", "I-04", func(s *state.Snapshot) { s.Job(eval(s, first).Key()).Stop = true }},
		{"an evaluation that placed a name twice", "I-05", func(s *state.Snapshot) { allocs(s)[1].Index = allocs(s)[0].Index }},
		{"no cause", "I-06", func(s *state.Snapshot) { eval(s, first).Cause = berth.Cause{} }},
		{"a cause that is not what it comes of", "I-06", func(s *state.Snapshot) { eval(s, followUp).Cause.ID = eval(s, first).ID.String() }},
		{"a pointer forward to nothing", "I-06", func(s *state.Snapshot) { eval(s, first).BlockedEval[0] ^= 1 }},
		{"a pointer forward that was dropped", "I-06", func(s *state.Snapshot) { eval(s, failed).NextEval = berth.EvalID{} }},
		{"a pointer back that was dropped", "I-06", func(s *state.Snapshot) { eval(s, blocked).PreviousEval = berth.EvalID{} }},
		{"a pointer back that leads elsewhere", "I-06", func(s *state.Snapshot) { eval(s, blocked).PreviousEval = eval(s, failed).ID }},
		{"a chain that leads from job to job", "I-06", func(s *state.Snapshot) { eval(s, followUp).JobID = "other" }},
		{"a circle", "I-06", func(s *state.Snapshot) { eval(s, first).PreviousEval = eval(s, followUp).ID }},
		{"two follow-ups", "I-07", func(s *state.Snapshot) {
			b := eval(s, blocked)
			b.TriggeredBy, b.PreviousEval = berth.TriggerFailedFollowUp, eval(s, failed).ID
		}},
		{"more on a node than it has room for", "I-08", func(s *state.Snapshot) { allocs(s)[1].NodeID = allocs(s)[0].NodeID }},
		{"a node that has less room than it gave", "I-08", func(s *state.Snapshot) { allocs(s)[0].Group.Tasks[0].Resources.CPU = 1100 }},
		{"a port given out twice", "I-09", func(s *state.Snapshot) { allocs(s)[0].Ports = []uint16{25000, 25000} }},
		{"a core given out twice", "I-09", func(s *state.Snapshot) {
			allocs(s)[0].More = &berth.AllocMore{Cores: []uint16{3, 3}}
		}},
		{"a device given out twice", "I-09", func(s *state.Snapshot) {
			allocs(s)[0].More = &berth.AllocMore{Devices: []berth.DeviceGrant{{Type: "gpu", IDs: []string{"a"}}, {Type: "gpu", IDs: []string{"a"}}}}
		}},
		{"a stopped job that waits for a place", "I-24", func(s *state.Snapshot) {
			k := eval(s, first).Key()
			s.Job(k).Stop, s.Summary(k).Groups[0].Queued = true, 1
		}},
		{"an evaluation about no deployment", "I-11", func(s *state.Snapshot) { eval(s, first).DeploymentID[0] = 1 }},
		{"an allocation of no deployment", "I-11", func(s *state.Snapshot) {
			a, more := allocs(s)[0].With()
			more.DeploymentID[0] = 1
			*allocs(s)[0] = *a
		}},
		{"a node in no pool", "I-12", func(s *state.Snapshot) {
			for n := range s.Nodes() {
				n.NodePool = "nowhere"
			}
		}},
		{"a job in no pool", "I-12", func(s *state.Snapshot) { s.Job(eval(s, first).Key()).NodePool = "nowhere" }},
		{"an allocation of no evaluation", "I-12", func(s *state.Snapshot) { allocs(s)[0].EvalID[0] ^= 1 }},
	} {
		s := cluster(t)
		x.plant(s)
		expect(t, x.what, x.id, invariant.Check(s))
	}
}

// withID returns a copy of an evaluation under another number.
func withID(e *berth.Eval, n int) berth.Eval {
	c := *e
	c.ID = statetest.ID[berth.Eval](n)
	return c
}

// What commands must not do is found under its number.
func TestChangedFinds(t *testing.T) {
	change := func(table state.Table, by state.Command, old, new any) state.Change {
		return state.Change{Table: table, By: state.NumberOf(by), Index: 100, Old: old, New: new}
	}
	moved := func(e *berth.Eval, status string) *berth.Eval {
		c := *e
		c.Status, c.ModifyIndex = status, 100
		return &c
	}
	for _, x := range []struct {
		what, id string // "" is all well
		plant    func(s *state.Snapshot) []state.Change
	}{
		{"what was blocked is complete", "", func(s *state.Snapshot) []state.Change {
			return []state.Change{change(state.Evals, &state.ApplyPlan{}, eval(s, blocked), moved(eval(s, blocked), berth.EvalComplete))}
		}},
		{"what is complete is pending again", "I-01", func(s *state.Snapshot) []state.Change {
			return []state.Change{change(state.Evals, &state.ApplyPlan{}, eval(s, first), moved(eval(s, first), berth.EvalPending))}
		}},
		{"what is pending is blocked", "I-01", func(s *state.Snapshot) []state.Change {
			return []state.Change{change(state.Evals, &state.ApplyPlan{}, eval(s, followUp), moved(eval(s, followUp), berth.EvalBlocked))}
		}},
		{"what failed is pending again", "I-01", func(s *state.Snapshot) []state.Change {
			return []state.Change{change(state.Evals, &state.ApplyPlan{}, eval(s, failed), moved(eval(s, failed), berth.EvalPending))}
		}},
		{"an evaluation is born complete", "I-01", func(s *state.Snapshot) []state.Change {
			e := withID(eval(s, first), 20)
			return []state.Change{change(state.Evals, &state.CreateEvals{}, nil, &e)}
		}},
		{"a job is registered without an evaluation", "I-02", func(s *state.Snapshot) []state.Change {
			j := *s.Job(eval(s, first).Key())
			return []state.Change{change(state.Jobs, &state.RegisterJob{}, s.Job(j.Key()), &j)}
		}},
		{"a job is purged without an evaluation", "I-02", func(s *state.Snapshot) []state.Change {
			return []state.Change{change(state.Jobs, &state.StopJob{}, s.Job(eval(s, first).Key()), nil)}
		}},
		{"one command places a name twice", "I-05", func(s *state.Snapshot) []state.Change {
			a, b := *allocs(s)[0], *allocs(s)[0]
			a.EvalID, b.EvalID = eval(s, followUp).ID, eval(s, followUp).ID
			return []state.Change{change(state.Allocs, &state.ApplyPlan{}, nil, &a), change(state.Allocs, &state.ApplyPlan{}, nil, &b)}
		}},
		{"an evaluation is given up without a follow-up", "I-07", func(s *state.Snapshot) []state.Change {
			return []state.Change{change(state.Evals, &state.FailEval{}, eval(s, followUp), moved(eval(s, followUp), berth.EvalFailed))}
		}},
		{"one of a job that is gone has a follow-up", "I-07", func(s *state.Snapshot) []state.Change {
			e := moved(eval(s, followUp), berth.EvalFailed)
			e.JobID, e.NextEval = "gone", statetest.ID[berth.Eval](20)
			return []state.Change{change(state.Evals, &state.FailEval{}, eval(s, followUp), e)}
		}},
		{"something is put on a node that is down", "I-10", func(s *state.Snapshot) []state.Change {
			n, a := *s.Node(allocs(s)[0].NodeID), *allocs(s)[0]
			n.Status, a.EvalID = berth.NodeDown, eval(s, followUp).ID
			return []state.Change{change(state.Nodes, &state.SetNodeStatus{}, s.Node(n.ID), &n), change(state.Allocs, &state.ApplyPlan{}, nil, &a)}
		}},
		{"an evaluation that ended places something", "I-11", func(s *state.Snapshot) []state.Change {
			return []state.Change{change(state.Allocs, &state.ApplyPlan{}, nil, allocs(s)[0])}
		}},
		{"a blocked evaluation is made apart from the end of the one before", "I-11", func(s *state.Snapshot) []state.Change {
			e := withID(eval(s, blocked), 20)
			e.CreateIndex = 100
			return []state.Change{change(state.Evals, &state.CreateEvals{}, nil, &e)}
		}},
		{"what was to stop is to run", "I-18", func(s *state.Snapshot) []state.Change {
			a := *allocs(s)[0]
			a.Desired = berth.DesiredStop
			return []state.Change{change(state.Allocs, &state.ApplyPlan{}, &a, allocs(s)[0])}
		}},
		{"what was lost runs", "I-18", func(s *state.Snapshot) []state.Change {
			a := *allocs(s)[0]
			a.Client = berth.ClientLost
			return []state.Change{change(state.Allocs, &state.ReportAllocs{}, &a, allocs(s)[0])}
		}},
		{"a version is left out", "I-20", func(s *state.Snapshot) []state.Change {
			j := *s.Job(eval(s, first).Key())
			j.Version += 2
			return []state.Change{change(state.Jobs, &state.RegisterJob{}, s.Job(j.Key()), &j)}
		}},
	} {
		s := cluster(t)
		found := invariant.Changed(s, x.plant(s))
		if x.id == "" {
			if found != nil {
				t.Errorf("%s: %v", x.what, found)
			}
			continue
		}
		expect(t, x.what, x.id, found)
	}
}

// What must not lie between two states is found, and so is a deletion of what
// is needed.
func TestBetweenAndStepFind(t *testing.T) {
	s := cluster(t)
	tx := state.Begin(s)
	if r := tx.Apply(&state.CancelEvals{IDs: []berth.EvalID{statetest.ID[berth.Eval](blocked)}}); r.Err != nil {
		t.Fatal(r.Err)
	}
	expect(t, "what was canceled is blocked", "I-01", invariant.Between(tx.Seal(), s))
	expect(t, "the index falls", "I-37", invariant.Between(tx.Seal(), s))
	expect(t, "what runs is deleted", "I-31", invariant.Step(s, state.New().Snapshot()))
	if v := invariant.Between(s, tx.Seal()); v != nil {
		t.Error(v)
	}
}

// A stable version that is forgotten is found, since the log version that keeps it.
func TestStepFindsAForgottenStableVersion(t *testing.T) {
	apply := func(s *state.Snapshot, c state.Command) *state.Snapshot {
		tx := state.Begin(s)
		if r := tx.Apply(c); r.Err != nil {
			t.Fatal(r.Err)
		}
		return tx.Seal()
	}
	before := apply(later(t), &state.SetJobStability{Key: web, Version: 2, Stable: true})
	after := apply(before, statetest.Register(statetest.Job(t, strings.Replace(webText, "VERSION", "8", 1)), 800))
	if v := invariant.Step(before, after); v != nil || after.JobVersion(web, 2) != nil {
		t.Errorf("%v; version 2 is kept: %v", v, after.JobVersion(web, 2) != nil)
	}
	raised := *before
	raised.LogVersion = 11
	expect(t, "the stable version is forgotten", "I-21", invariant.Step(&raised, after))
}

// A violation reads as its number and what is wrong.
func TestViolationReads(t *testing.T) {
	s := cluster(t)
	eval(s, first).Status = "odd"
	if got := invariant.Check(s)[0].String(); !strings.HasPrefix(got, "I-01: evaluation ") || !strings.Contains(got, `"odd"`) {
		t.Error(got)
	}
}

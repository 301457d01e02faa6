package state_test

import (
	"strings"
	"testing"

	"berth"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// A job is registered, planned, made kind by kind, launched, placed and then
// submitted; what is out of turn is refused.
func TestSubmission(t *testing.T) {
	f := newFlow(t)
	f.must(f.registers(2, 100, ""))
	f.want("Submission 0.0 version 0; 0 PEs of 0")
	if n := f.store.Snapshot().Count(state.Evals); n != 0 {
		t.Errorf("%d evaluations were raised", n)
	}
	f.refused(&state.CompleteSubmission{Key: flowKey, UID: f.row().UID}, "stale-generation: job")
	f.refused(&state.EnsureResources{Key: flowKey, UID: f.row().UID, Kind: berth.KindPE, Names: []string{"flow.src[0]"}}, "stale-generation: job")

	wrong := f.plans()
	wrong.Plan.Version++
	f.refused(wrong, "stale-generation: the plan of job")
	wrong = f.plans()
	wrong.Plan.Objects[0], wrong.Plan.Objects[1] = wrong.Plan.Objects[1], wrong.Plan.Objects[0]
	f.refused(wrong, "plan: ")
	wrong = f.plans()
	wrong.Plan.Objects[0].Config = nil
	f.refused(wrong, "plan: ")
	wrong = f.plans()
	wrong.UID.Index--
	f.refused(wrong, "owner-missing: job")
	f.must(f.plans())
	f.want("Submission 1.0 version 0; 0 PEs of 0")
	f.refused(f.plans(), "stale-generation: job")

	first := f.plans() // of generation 0 again, as of a leader that did not see it
	first.Plan = f.row().Plan
	f.refused(first, "already-done: job")

	wrongName := f.ensures(berth.KindPE)
	wrongName.Names = append(wrongName.Names, "flow.src[1]")
	f.refused(wrongName, "Names: no ProcessingElement")
	late := f.ensures(berth.KindPE)
	late.Generation++
	f.refused(late, "stale-generation: job")
	f.must(f.ensures(berth.KindConfig))
	f.refused(f.ensures(berth.KindConfig), "already-done: job")
	f.ensureAll()
	f.want("Submission 1.0 version 0; 3 PEs of 13; src[0] 0; work[0] 0; work[1] 0")
	f.refused(f.completes(), "incomplete: job \"flow\"")

	pe := f.launches("src[0]")
	pe.Expect = 1
	f.refused(pe, "stale-launch: flow.src[0]")
	pe = f.launches("src[0]")
	pe.Generation = 1
	f.refused(pe, "stale-generation: flow.src[0]")
	f.run("src[0]", 1)
	e := f.store.Snapshot().Eval(statetest.ID[berth.Eval](f.evals))
	if e.TriggeredBy != berth.TriggerPELaunch || e.Cause != (berth.Cause{Kind: berth.CausePE, ID: f.pe("src[0]").UID.Text('p')}) || e.Type != berth.TypeStream {
		t.Errorf("the evaluation is %+v", e)
	}
	f.run("work[0]", 2)
	f.refused(f.completes(), "incomplete: job")
	f.run("work[1]", 3)
	f.must(f.completes())
	f.want("Submitted 1.0 version 0; 3 PEs of 13; src[0] 1 run/pending; work[0] 1 run/pending; work[1] 1 run/pending")
	f.refused(f.completes(), "already-done: job")
	f.refused(f.recovers(state.RecoverInterrupted), "already-done: none")
	f.refused(&state.FailSubmission{Key: flowKey, UID: f.row().UID, Error: "late"}, "already-done: job")
	if r := f.of("src[0]")[0].Rest().PE; r == nil || *r != (berth.PERef{UID: f.pe("src[0]").UID, Launch: 1}) {
		t.Errorf("the allocation is of %+v", r)
	}
	f.refused(&state.CollectResources{UIDs: []berth.UID{f.pe("src[0]").UID}}, "stale-generation: ProcessingElement")
}

// What a placement of a processing element must meet when it comes to the log,
// whatever its scheduler saw.
func TestPlacementOfElements(t *testing.T) {
	f := newFlow(t)
	f.must(f.registers(1, 100, ""))
	f.must(f.plans())
	f.ensureAll()
	refused := func(c *state.ApplyPlan, why string) {
		t.Helper()
		f.must(c)
		if len(c.Refused) != 1 || !strings.Contains(c.Refused[0].Reason, why) {
			t.Errorf("it is refused for %+v; wanted is %q", c.Refused, why)
		}
	}
	f.must(f.launches("src[0]"))
	refused(f.places("work[0]", 1), "was not launched")
	config := f.resource(berth.KindConfig, "flow.src[0]")
	f.must(&state.DeleteResource{UID: config.UID, Propagation: berth.Background})
	refused(f.places("src[0]", 1), "the configuration that flow.src[0] was launched with")
	f.ensureAll()
	f.must(f.places("src[0]", 1))

	f.must(&state.CreateEvals{Evals: []state.EvalFor{{EvalSeed: f.seed(), Key: flowKey}}})
	refused(f.places("src[0]", 2), "instance 0 already exists")
	f.must(report(f.store, 1, berth.ClientFailed))
	refused(f.places("src[0]", 2), "already has an allocation of launch 1")
	f.run("src[0]", 2) // the next launch can be placed at once
	f.must(&state.StopAlloc{ID: f.of("src[0]")[1].ID, Eval: f.seed()})
	f.want("Submission 1.0 version 0; 2 PEs of 9; src[0] 2 run/failed stop/pending; work[0] 0")
	if a := f.of("src[0]")[1]; !a.Rest().Relocate {
		t.Error("it does not say that a user stopped it")
	}
	c := f.launches("src[0]")
	f.must(c)
	if f.store.Snapshot().Eval(c.Eval.ID) != nil {
		t.Error("an evaluation is raised while what ran has not ended")
	}
	f.must(&state.CreateEvals{Evals: []state.EvalFor{{EvalSeed: f.seed(), Key: flowKey}}})
	refused(f.places("src[0]", 3), "an earlier allocation of flow.src[0] has not ended")
	f.must(report(f.store, 2, berth.ClientComplete), f.places("src[0]", 3))
	f.want("Submission 1.0 version 0; 2 PEs of 9; src[0] 3 run/failed stop/complete run/pending; work[0] 0")
	last := f.of("src[0]")[2]
	f.must(report(f.store, 3, berth.ClientComplete))
	refusedAs(t, f.log, &state.DeleteRows{Allocs: []berth.AllocID{last.ID}}, berth.Conflict, "current launch of its processing element")
	f.must(&state.DeleteRows{Allocs: []berth.AllocID{f.of("src[0]")[0].ID}})

	// A plan for a version that is not the planned one.
	f.must(f.registers(1, 200, ""))
	f.must(f.launches("work[0]"))
	newest := f.places("work[0]", 1)
	newest.JobVersion = 1
	f.refused(newest, "superseded: job")
	f.must(f.places("work[0]", 1))
	if v := f.of("work[0]")[0].Job.Version; v != 0 {
		t.Errorf("version %d was placed", v)
	}
}

// A change of the width is another generation: what is of both stays, what
// changed is launched again, what is not planned any more is collected. One that
// comes before the first is whole waits for it.
func TestGenerations(t *testing.T) {
	f := newFlow(t)
	f.must(f.registers(2, 100, ""))
	f.must(f.plans(), f.registers(3, 100, "")) // R10
	f.ensureAll()
	for i, name := range []string{"src[0]", "work[0]", "work[1]"} {
		f.run(name, i+1)
	}
	f.must(f.completes())
	f.must(&state.ScaleJob{Key: flowKey, Group: "work", Change: true, Count: 1, Eval: f.seed()})
	f.want("Submitted 1.0 version 2; 3 PEs of 13; src[0] 1 run/pending; work[0] 1 run/pending; work[1] 1 run/pending")
	if n := f.job().Stream.Regions[0].Width; n != 1 || f.job().TaskGroups[1].Count != 1 {
		t.Errorf("the width is %d", n)
	}
	f.refused(&state.ScaleJob{Key: flowKey, Group: "src", Change: true, Count: 2}, "Target: group \"src\"")
	f.refused(&state.ScaleJob{Key: flowKey, Group: "work", Change: true, Count: 0}, "Count: the width of a parallel region must be 1 to 1000, got 0")
	was := f.pe("src[0]").UID
	f.must(f.plans())
	f.want("Submission 1.1 version 2; 3 PEs of 13; src[0] 1 run/pending; work[0] 1 run/pending; work[1] 1 run/pending")
	f.ensureAll()
	gone := f.store.Snapshot().ResourceNamed(f.row().UID, berth.KindPE, "flow.work[1]")
	f.refused(&state.CollectResources{UIDs: []berth.UID{gone.UID}}, "not-empty: flow.work[1]")
	old := f.launches("work[0]")
	old.Generation = 0
	f.refused(old, "stale-generation")
	for n := range 3 {
		f.must(f.launches([]string{"src[0]", "work[0]"}[n%2]), report(f.store, n+1, berth.ClientComplete))
	}
	f.must(&state.CreateEvals{Evals: []state.EvalFor{{EvalSeed: f.seed(), Key: flowKey}}}, f.places("src[0]", 1))
	f.must(&state.CreateEvals{Evals: []state.EvalFor{{EvalSeed: f.seed(), Key: flowKey}}}, f.places("work[0]", 2))
	f.refused(f.completes(), "incomplete: job \"flow\"") // something of generation 0 is left
	f.sweep()
	f.must(f.completes())
	if f.pe("src[0]").UID != was || f.pe("work[1]") != nil {
		t.Error("it is another processing element")
	}
	f.refused(&state.RevertJob{Key: flowKey, Version: 2, Eval: f.seed()}, "JobVersion: job")
	f.must(&state.RevertJob{Key: flowKey, Version: 0, Eval: f.seed()})
	if n := f.job().Stream.Regions[0].Width; n != 2 || f.job().Version != 3 {
		t.Errorf("it is at version %d, of width %d", f.job().Version, n)
	}
}

// No node is in two exclusive pools, nor in one and in another job's pool
// besides, and what is in one runs nothing of another job.
func TestExclusivePools(t *testing.T) {
	pool := `{"Name": "p", "Hosts": ["n1", "n2"], "Mode": "exclusive"}`
	f := newFlow(t)
	f.must(f.registers(1, 100, pool))
	f.must(f.plans())
	nodes := [][]berth.NodeID{{statetest.ID[berth.Node](1), statetest.ID[berth.Node](2)}}
	c := f.ensures(berth.KindHostPool)
	c.Nodes = nodes
	twice := f.ensures(berth.KindHostPool)
	twice.Nodes = [][]berth.NodeID{{nodes[0][0], nodes[0][0]}}
	f.refused(twice, "Nodes: pool")
	f.must(c)
	f.ensureAll()
	f.must(f.launches("src[0]"))
	out := f.places("src[0]", 3)
	f.must(out)
	if len(out.Refused) != 1 || out.Refused[0].Reason != "the node is not in the pool p" {
		t.Errorf("it is refused for %+v", out.Refused)
	}
	f.must(f.places("src[0]", 1))

	other := &flow{T: t, store: f.store, log: f.log, evals: 500}
	mine := flowKey
	flowKey.ID = "other"
	defer func() { flowKey = mine }()
	text := strings.ReplaceAll(statetest.StreamText("other", 1, 100, pool), "flow.", "other.")
	other.must(&state.RegisterJob{Job: statetest.Job(t, text), Now: 1})
	other.must(other.plans())
	c = other.ensures(berth.KindHostPool)
	c.Nodes = nodes[:1]
	other.refused(c, "node-held: node")
	c.Nodes = [][]berth.NodeID{{statetest.ID[berth.Node](3)}}
	other.must(c)
	others := flowKey
	flowKey.ID = "shared"
	shared := &flow{T: t, store: f.store, log: f.log, evals: 700}
	text = strings.ReplaceAll(statetest.StreamText("shared", 1, 100, `{"Name": "p", "Hosts": ["n1", "n2"]}`), "flow.", "shared.")
	shared.must(&state.RegisterJob{Job: statetest.Job(t, text), Now: 1})
	shared.must(shared.plans())
	c = shared.ensures(berth.KindHostPool)
	c.Nodes = [][]berth.NodeID{{statetest.ID[berth.Node](4), statetest.ID[berth.Node](3)}}
	shared.refused(c, "node-held: node "+statetest.ID[berth.Node](3).String()+" is in the exclusive pool")
	c.Nodes = [][]berth.NodeID{{statetest.ID[berth.Node](4)}}
	shared.must(c)
	flowKey = others
	other.must(&state.DeleteResource{UID: f.store.Snapshot().Holder(statetest.ID[berth.Node](3)).UID, Propagation: berth.Background, Now: 1})
	c = other.ensures(berth.KindHostPool)
	c.Nodes = [][]berth.NodeID{{statetest.ID[berth.Node](4)}}
	other.refused(c, "node-held: node "+statetest.ID[berth.Node](4).String()+" is in the pool")
	c.Nodes = [][]berth.NodeID{{statetest.ID[berth.Node](3)}}
	other.must(c)
	flowKey = mine
	f.must(f.deletes(berth.Background))
	h := f.store.Snapshot().Holder(nodes[0][0])
	if h == nil || h.Job != mine {
		t.Errorf("the node is held by %+v", h)
	}
	f.end()
	if h := f.store.Snapshot().Holder(nodes[0][0]); h != nil {
		t.Errorf("the node is held by %+v", h)
	}
}

// A stream job stays one, and others do not become one.
func TestTypeOfStreams(t *testing.T) {
	f := newFlow(t)
	f.must(f.registers(1, 100, ""))
	f.refused(&state.RegisterJob{Job: statetest.Job(t, `{"ID": "flow", "TaskGroups": [{"Name": "g"}]}`), Now: 1}, "job.type: job \"flow\" is of type stream")
}

// Reports of connections are of the present launch of a processing element, and
// a launch has none.
func TestConnectivity(t *testing.T) {
	f := newFlow(t)
	f.must(f.registers(1, 100, ""))
	f.must(f.plans())
	f.ensureAll()
	f.run("src[0]", 1)
	says := func(connectivity string) *state.SetConnectivity {
		a := f.of("src[0]")[0]
		return &state.SetConnectivity{Alloc: a.ID, PE: a.Rest().PE.UID, Launch: a.Rest().PE.Launch, State: connectivity, Now: 9}
	}
	f.must(says(berth.ConnectivityPartial), says(berth.ConnectivityFull))
	at := f.pe("src[0]").ModifyIndex
	f.must(says(berth.ConnectivityFull))
	if pe := f.pe("src[0]"); pe.PE.Connectivity != berth.ConnectivityFull || pe.ModifyIndex != at {
		t.Errorf("it is %s at index %d", pe.PE.Connectivity, pe.ModifyIndex)
	}
	f.refused(says("odd"), "State: unknown state \"odd\"")
	other := says(berth.ConnectivityNone)
	other.Launch++
	f.refused(other, "stale-launch: allocation")
	f.must(f.launches("src[0]"))
	if is := f.pe("src[0]").PE; is.Connectivity != berth.ConnectivityNone || is.Launch != 2 || is.LaunchIndex != f.store.Snapshot().Index {
		t.Errorf("launched again it is %+v", is)
	}
	f.refused(says(berth.ConnectivityFull), "stale-launch: allocation")
}

// Bad requests are refused by name.
func TestBadRequestsForStreams(t *testing.T) {
	f := newFlow(t)
	f.must(f.registers(1, 100, ""))
	f.must(f.plans())
	many := make([]berth.UID, state.MaxResources+1)
	odd := f.ensures(berth.KindConfig)
	odd.Nodes = [][]berth.NodeID{nil, nil}
	twice := f.ensures(berth.KindConfig)
	twice.Names[1] = twice.Names[0]
	pool := f.ensures(berth.KindConfig)
	pool.Kind = "Odd"
	for _, x := range []struct {
		c    state.Command
		text string
	}{
		{&state.CollectResources{}, "collect: must name 1 to 512 resources, got 0"},
		{&state.CollectResources{UIDs: many}, "collect: must name 1 to 512 resources, got 513"},
		{&state.RecoverJobs{}, "recover: must name 1 to 100 jobs, got 0"},
		{&state.RecoverJobs{Jobs: make([]state.JobRef, 1)}, "Cause: must be 1 to 4096 bytes, got 0"},
		{&state.PlanSubmission{Key: flowKey, UID: f.row().UID}, "plan: must not be empty"},
		{&state.EnsureResources{Key: flowKey, UID: f.row().UID, Kind: berth.KindPE}, "Names: must be 1 to 512, got 0"},
		{odd, "Nodes: got 2 entries of kind \"Config\" for 2 names; only host pools have nodes"},
		{twice, "Names: \"flow.src[0]\" is named twice"},
		{pool, "Kind: unknown kind \"Odd\": want one of [Config"},
		{&state.RegisterJob{Job: func() *berth.Job { j := *f.job(); j.ID, j.Stream = "x", nil; return &j }()}, "job \"x\": a job has the blocks of stream jobs if it is one"},
	} {
		refusedAs(t, f.log, x.c, berth.Invalid, x.text)
	}
	refusedAs(t, f.log, &state.DeleteResource{UID: berth.UID{Index: 1}, Propagation: berth.Background}, berth.NotFound, "not found")
	f.ensureAll()
	refusedAs(t, f.log, &state.DeleteResource{UID: f.pe("src[0]").UID, Propagation: "odd"}, berth.Invalid, "unknown propagation \"odd\": want one of")
	refusedAs(t, f.log, &state.LaunchPE{PE: f.resource(berth.KindConfig, "flow.src[0]").UID}, berth.Invalid, "PE: o-")
	refusedAs(t, f.log, &state.DeleteRows{Jobs: []state.JobRef{{Key: flowKey, UID: f.row().UID}}}, berth.Conflict, "it is pending")
	f.must(&state.StopJob{Key: flowKey, Eval: f.seed()}, &state.CancelEvals{IDs: []berth.EvalID{statetest.ID[berth.Eval](f.evals)}})
	refusedAs(t, f.log, &state.DeleteRows{Jobs: []state.JobRef{{Key: flowKey, UID: f.row().UID}}}, berth.Conflict, "it still owns resources")
	f.end()
	f.must(&state.DeleteRows{Jobs: []state.JobRef{{Key: flowKey, UID: f.row().UID}}})
	f.want()
}

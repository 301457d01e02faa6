package invariant_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"berth"
	"berth/internal/invariant"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

const exclusivePool = `{"Name": "p", "Hosts": ["n1"], "Mode": "exclusive"}`

// streaming is a small cluster in which a stream job is submitted, and the
// changes of the command that said so.
func streaming(t *testing.T) (before, after *state.Snapshot, changes []state.Change) {
	t.Helper()
	tx := state.Begin(state.New().Snapshot())
	must := func(c state.Command) {
		t.Helper()
		if r := tx.Apply(c); r.Err != nil {
			t.Fatalf("%T: %v", c, r.Err)
		}
	}
	must(statetest.AddNode(1, 4000, 4000))
	must(statetest.AddNode(2, 4000, 4000))
	must(&state.RegisterJob{Job: statetest.Job(t, statetest.StreamText("web", 1, 100, exclusivePool)), Now: 1})
	other := `{"ID": "other", "Type": "stream", "Stream": {"HostPools": [{"Name": "p", "Hosts": ["n2"]}]}, "TaskGroups": [{"Name": "g", "Stream": {"Placement": {"Pool": "p"}}}]}`
	must(&state.RegisterJob{Job: statetest.Job(t, other), Now: 1})
	beside := tx.StreamOf(key("other"))
	plan, err := statetest.Planned(tx.Snapshot, beside)
	if err != nil {
		t.Fatal(err)
	}
	must(&state.PlanSubmission{Key: beside.Key, UID: beside.UID, Plan: plan, Now: 2})
	must(&state.EnsureResources{
		Key: beside.Key, UID: beside.UID, Kind: berth.KindHostPool, Names: []string{"p"}, Nodes: [][]berth.NodeID{{statetest.ID[berth.Node](2)}}, Now: 3,
	})
	row := tx.StreamOf(key("web"))
	p, err := statetest.Planned(tx.Snapshot, row)
	if err != nil {
		t.Fatal(err)
	}
	must(&state.PlanSubmission{Key: row.Key, UID: row.UID, Plan: p, Now: 2})
	for _, kind := range berth.StreamKinds {
		c := &state.EnsureResources{Key: row.Key, UID: row.UID, Kind: kind, Now: 3}
		for _, o := range p.Of(kind) {
			c.Names = append(c.Names, o.Name)
		}
		if kind == berth.KindHostPool {
			c.Nodes = [][]berth.NodeID{{statetest.ID[berth.Node](1)}}
		}
		if c.Names != nil {
			must(c)
		}
	}
	for i, pe := range slices.Collect(tx.ResourcesOf(row.UID, berth.KindPE)) {
		must(&state.LaunchPE{PE: pe.UID, Eval: state.EvalSeed{ID: statetest.ID[berth.Eval](first + i)}, Now: 4})
		place := berth.Placement{Group: i, NodeID: statetest.ID[berth.Node](1)}
		place.Ports = []uint16{uint16(20000 + i)}
		c := &state.ApplyPlan{Eval: statetest.ID[berth.Eval](first + i), Place: []berth.Placement{place}, End: &state.EvalEnd{Status: berth.EvalComplete}, Now: 5}
		if must(c); len(c.Refused) > 0 {
			t.Fatal(c.Refused)
		}
	}
	before = tx.Seal()
	last := state.Begin(before)
	if r := last.Apply(&state.CompleteSubmission{Key: row.Key, UID: row.UID, Now: 6}); r.Err != nil {
		t.Fatal(r.Err)
	}
	b := last.End()
	return before, b.Snapshot, b.Changes
}

// goes applies one command to a state.
func goes(t *testing.T, s *state.Snapshot, c state.Command) (*state.Snapshot, []state.Change) {
	t.Helper()
	tx := state.Begin(s)
	if r := tx.Apply(c); r.Err != nil {
		t.Fatalf("%T: %v", c, r.Err)
	}
	b := tx.End()
	return b.Snapshot, b.Changes
}

func stream(s *state.Snapshot) *berth.StreamJob { return s.StreamOf(key("web")) }

func has(s *state.Snapshot, kind string) *berth.Object {
	return slices.Collect(s.ResourcesOf(stream(s).UID, kind))[0]
}

func userDeletes(policy berth.Propagation) *state.DeleteJob {
	return &state.DeleteJob{Key: key("web"), Policy: policy, Intent: berth.IntentUser, Now: 9, Eval: state.EvalSeed{
		ID: statetest.ID[berth.Eval](30), TriggeredBy: berth.TriggerJobDeregister, Cause: berth.Cause{Kind: berth.CauseUser},
	}}
}

func recovers(s *state.Snapshot) *state.RecoverJobs {
	return &state.RecoverJobs{Jobs: []state.JobRef{{Key: key("web"), UID: stream(s).UID}}, Cause: state.RecoverTimeout, Now: 9}
}

// What is done for stream jobs is sound.
func TestStreamsAreSound(t *testing.T) {
	before, after, changes := streaming(t)
	found := slices.Concat(invariant.Check(before), invariant.Check(after), invariant.Changed(before, changes), invariant.Between(before, after), invariant.Step(before, after))
	if found != nil {
		t.Error(found)
	}
	for _, p := range berth.Propagations {
		gone, changes := goes(t, after, userDeletes(p))
		if found := slices.Concat(invariant.Check(gone), invariant.Changed(after, changes), invariant.Between(after, gone), invariant.Step(after, gone)); found != nil {
			t.Errorf("%s: %v", p, found)
		}
	}
}

func TestCheckFindsStreams(t *testing.T) {
	for _, x := range []struct {
		what, id string
		plant    func(s *state.Snapshot)
	}{
		{"what an owner has that is not there", "I-44", func(s *state.Snapshot) { has(s, berth.KindConfig).Owner.Index++ }},
		{"what is of a later generation than its job", "I-44", func(s *state.Snapshot) { has(s, berth.KindConfig).Generation++ }},
		{"what is something else than it says", "I-44", func(s *state.Snapshot) { has(s, berth.KindPE).PE = nil }},
		{"a plan of another generation", "I-44", func(s *state.Snapshot) { stream(s).Plan.Generation++ }},
		{"a number that was not given", "I-44", func(s *state.Snapshot) { stream(s).StreamID++ }},
		{"a job that is stopped, and submitted", "I-44", func(s *state.Snapshot) { s.Job(key("web")).Stop = true }},
		{"a stream job without a submission", "I-44", func(s *state.Snapshot) { s.Job(key("web")).UID.Ordinal++ }},
		{"an allocation of no processing element", "I-44", func(s *state.Snapshot) { allocs(s)[0].More.PE = nil }},
		{"an allocation of one that is not there", "I-44", func(s *state.Snapshot) { allocs(s)[0].More.PE.UID.Index = 3 }},
		{"what is older than its owner", "I-47", func(s *state.Snapshot) {
			r := has(s, berth.KindExport)
			r.UID.Index, r.CreateIndex = r.Owner.Index, r.Owner.Index
		}},
		{"an allocation that is older than its processing element", "I-47", func(s *state.Snapshot) { allocs(s)[0].CreateIndex = 1 }},
		{"two allocations of one processing element", "I-48", func(s *state.Snapshot) { allocs(s)[0].More.PE.UID = allocs(s)[1].More.PE.UID }},
		{"an allocation of a launch to come", "I-49", func(s *state.Snapshot) { allocs(s)[0].More.PE.Launch++ }},
		{"a launch that was never", "I-49", func(s *state.Snapshot) { has(s, berth.KindPE).PE.LaunchIndex = 0 }},
		{"a submitted job without a plan", "I-50", func(s *state.Snapshot) { stream(s).Plan = nil }},
		{"a pool that has a node it is not said to", "I-53", func(s *state.Snapshot) { has(s, berth.KindHostPool).Nodes[0] = statetest.ID[berth.Node](2) }},
		{"an exclusive pool of what another job's pool was given", "I-53", func(s *state.Snapshot) {
			for r := range s.ResourcesOf(s.StreamOf(key("other")).UID, berth.KindHostPool) {
				r.Nodes[0] = statetest.ID[berth.Node](1)
			}
		}},
		{"another job's processing element in an exclusive pool", "I-53", func(s *state.Snapshot) {
			j := *allocs(s)[0].Job
			j.UID.Index--
			allocs(s)[0].Job = &j
		}},
	} {
		_, s, _ := streaming(t)
		x.plant(s)
		expect(t, x.what, x.id, invariant.Check(s))
	}
	before, _, _ := streaming(t)
	s, _ := goes(t, before, recovers(before))
	has(s, berth.KindPE).PE.LaunchIndex = s.Index
	expect(t, "what was launched after its job was marked", "I-45", invariant.Check(s))
}

func TestBetweenFindsStreams(t *testing.T) {
	for what, x := range map[string]struct {
		id    string
		plant func(s *state.Snapshot)
	}{
		"launches are forgotten":       {"I-49", func(s *state.Snapshot) { has(s, berth.KindPE).PE.Launch = 0 }},
		"a generation is taken back":   {"I-44", func(s *state.Snapshot) { stream(s).Generation-- }},
		"a number is another":          {"I-44", func(s *state.Snapshot) { stream(s).StreamID++ }},
		"a resource has another owner": {"I-44", func(s *state.Snapshot) { has(s, berth.KindExport).Job.ID = "other" }},
	} {
		_, old, _ := streaming(t)
		stream(old).Generation = 1
		_, s, _ := streaming(t)
		stream(s).Generation = 1
		x.plant(s)
		expect(t, what, x.id, invariant.Between(old, s))
	}
}

func TestStepFindsStreams(t *testing.T) {
	for what, plant := range map[string]func(s *state.Snapshot){
		"something is not there as planned": func(s *state.Snapshot) { stream(s).Plan.Objects[0].Hash = "sha256:other" },
		"something is not planned":          func(s *state.Snapshot) { stream(s).Plan.Objects = stream(s).Plan.Objects[1:] },
		"an allocation does not run":        func(s *state.Snapshot) { allocs(s)[0].Client = berth.ClientFailed },
		"one was launched since":            func(s *state.Snapshot) { has(s, berth.KindPE).PE.Launch++ },
	} {
		before, s, _ := streaming(t)
		plant(s)
		expect(t, what, "I-50", invariant.Step(before, s))
	}
}

func TestChangedFindsStreams(t *testing.T) {
	_, s, _ := streaming(t)
	pe := has(s, berth.KindPE)
	put := func(change func(r *berth.Object)) state.Change {
		r, launched := *pe, *pe.PE
		r.PE = &launched
		change(&r)
		return state.Change{Table: state.Resources, Index: s.Index + 1, Old: pe, New: &r}
	}
	changed := func(what, id string, c ...state.Change) {
		t.Helper()
		expect(t, what, id, invariant.Changed(s, c))
	}
	changed("a launch counts two", "I-49", put(func(r *berth.Object) { r.PE.Launch += 2 }))
	born := put(func(r *berth.Object) { r.UID.Ordinal += 9 })
	born.Old = nil
	changed("it is made as launched", "I-49", born)
	born = put(func(r *berth.Object) { r.Owner.Index++ })
	born.Old = nil
	changed("it is made for a job that is gone", "I-45", born)
	gone := state.Change{Table: state.Resources, By: state.NumberOf(&state.CollectResources{}), Index: s.Index + 1, Old: pe}
	changed("it is collected, and runs", "I-46", gone)

	row := *stream(s)
	row.Phase = berth.PhaseSubmission
	changed("a submitted job is not", "I-50", state.Change{Table: state.Streams, Index: s.Index + 1, Old: stream(s), New: &row})

	j, finalize := s.Job(key("web")), state.NumberOf(&state.FinalizeDeletions{})
	next := *j
	next.UID.Index = s.Index + 1
	away := state.Change{Table: state.Jobs, By: finalize, Index: s.Index + 1, Old: j}
	again := state.Change{Table: state.Jobs, By: finalize, Index: s.Index + 1, New: &next}
	changed("a job goes before what it owns", "I-46", away)
	changed("a job that a user deleted is there again", "I-51", away, again)

	before, _, _ := streaming(t)
	marked, _ := goes(t, before, recovers(before))
	if found := fmt.Sprint(invariant.Changed(marked, []state.Change{away})); !strings.Contains(found, "I-52") {
		t.Errorf("a job that was to begin anew is lost, and %s is found", found)
	}
	if found := fmt.Sprint(invariant.Changed(marked, []state.Change{away, again})); strings.Contains(found, "I-52") || strings.Contains(found, "I-51") {
		t.Errorf("a job begins anew, and %s is found", found)
	}
}

package state_test

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

var flowKey = berth.JobKey{Namespace: berth.DefaultNamespace, ID: "flow"}

// flow is a cluster of three nodes and a stream job, with what a leader would
// do for it.
type flow struct {
	*testing.T
	store *state.Store
	log   *statetest.Log
	evals int
}

func newFlow(t *testing.T, cmds ...state.Command) *flow {
	store, log := statetest.New(t, statetest.AddNode(1, 4000, 4000), statetest.AddNode(2, 4000, 4000), statetest.AddNode(3, 4000, 4000))
	f := &flow{T: t, store: store, log: log, evals: 100}
	f.must(cmds...)
	return f
}

func (f *flow) seed() state.EvalSeed {
	f.evals++
	return byUser(f.evals, berth.TriggerJobDeregister)
}

// must applies commands, after each of which all must be well.
func (f *flow) must(cmds ...state.Command) {
	f.Helper()
	for _, c := range cmds {
		before := f.store.Snapshot()
		commit := f.store.Commit()
		f.log.Must(f.T, c)
		after := f.store.Snapshot()
		found := slices.Concat(invariant.Check(after), invariant.Between(before, after), invariant.Step(before, after))
		if next := commit.TryNext(); next != nil {
			found = append(found, invariant.Changed(before, next.Changes)...)
		}
		for _, v := range found {
			f.Errorf("%T: %s", c, v)
		}
	}
}

func (f *flow) refused(c state.Command, text string) {
	f.Helper()
	kind := berth.Conflict
	if text[0] >= 'A' && text[0] <= 'Z' || strings.HasPrefix(text, "plan:") || strings.HasPrefix(text, "propagation") || strings.HasPrefix(text, "job.type") {
		kind = berth.Invalid
	}
	refusedAs(f.T, f.log, c, kind, text)
}

func (f *flow) registers(width, cpu int, pool string) *state.RegisterJob {
	text := statetest.StreamText("flow", width, cpu, pool)
	return &state.RegisterJob{Job: statetest.Job(f.T, text), Submission: &berth.JobSubmission{Source: text, Format: "json"}, Now: 1}
}

func (f *flow) job() *berth.Job       { return f.store.Snapshot().Job(flowKey) }
func (f *flow) row() *berth.StreamJob { return f.store.Snapshot().StreamOf(flowKey) }

func (f *flow) plans() *state.PlanSubmission {
	f.Helper()
	p, err := statetest.Planned(f.store.Snapshot(), f.row())
	if err != nil {
		f.Fatal(err)
	}
	return &state.PlanSubmission{Key: flowKey, UID: f.row().UID, Plan: p, Deadline: 50, Now: 2}
}

// ensures names all objects of a kind that the plan has.
func (f *flow) ensures(kind string) *state.EnsureResources {
	row := f.row()
	c := &state.EnsureResources{Key: flowKey, UID: row.UID, Generation: row.Generation, Kind: kind, Now: 3}
	for _, o := range row.Plan.Of(kind) {
		c.Names = append(c.Names, o.Name)
	}
	return c
}

// ensureAll makes all that is planned, but what is there.
func (f *flow) ensureAll() {
	f.Helper()
	for _, kind := range berth.StreamKinds {
		if c := f.ensures(kind); len(c.Names) > 0 {
			if _, err := f.log.Propose(f.Context(), c); err != nil && !strings.HasPrefix(err.Error(), "already-done") {
				f.Fatal(err)
			}
		}
	}
}

func (f *flow) resource(kind, name string) *berth.Object {
	return f.store.Snapshot().ResourceNamed(f.row().UID, kind, name)
}

func (f *flow) pe(name string) *berth.Object { return f.resource(berth.KindPE, "flow."+name) }

func (f *flow) launches(name string) *state.LaunchPE {
	f.evals++
	pe := f.pe(name)
	return &state.LaunchPE{PE: pe.UID, Expect: pe.PE.Launch, Generation: f.row().Generation, Why: "submission", Eval: byUser(f.evals, ""), Now: 4}
}

// places is the plan of the evaluation that was raised last.
func (f *flow) places(name string, node int) *state.ApplyPlan {
	s := f.store.Snapshot()
	pe := f.pe(name).Object.PE
	job := s.PlannedJob(f.row())
	p := berth.Placement{
		Group: slices.IndexFunc(job.TaskGroups, func(g *berth.TaskGroup) bool { return g.Name == pe.Group }), Index: pe.Index, NodeID: statetest.ID[berth.Node](node),
	}
	p.Ports = []uint16{uint16(20000 + f.evals)}
	return &state.ApplyPlan{
		Eval: statetest.ID[berth.Eval](f.evals), JobVersion: f.row().Version, Place: []berth.Placement{p},
		End: &state.EvalEnd{Status: berth.EvalComplete}, Now: 5,
	}
}

// run launches a processing element and places it.
func (f *flow) run(name string, node int) {
	f.Helper()
	f.must(f.launches(name))
	c := f.places(name, node)
	f.must(c)
	if len(c.Refused) > 0 {
		f.Errorf("%s is not placed: %s", name, c.Refused[0].Reason)
	}
}

// submit takes the job through its submission.
func (f *flow) submit() {
	f.Helper()
	f.must(f.plans())
	f.ensureAll()
	for pe := range f.store.Snapshot().ResourcesOf(f.row().UID, berth.KindPE) {
		if pe.PE.ContentID != pe.Object.PE.ContentID {
			f.run(strings.TrimPrefix(pe.Name, "flow."), 1)
		}
	}
	f.sweep()
	f.must(f.completes())
}

// sweep collects what is free to go.
func (f *flow) sweep() {
	f.Helper()
	s := f.store.Snapshot()
	c := &state.CollectResources{}
	for r := range s.Resources() {
		if row := s.StreamJob(r.Owner); row != nil && (!s.Managed(r) || state.Swept(row, r)) && (r.PE == nil || !s.PEOccupies(r)) {
			c.UIDs = append(c.UIDs, r.UID)
		}
	}
	if c.UIDs != nil {
		f.must(c)
	}
}

func (f *flow) completes() *state.CompleteSubmission {
	return &state.CompleteSubmission{Key: flowKey, UID: f.row().UID, Generation: f.row().Generation, Now: 6}
}

func (f *flow) recovers(cause string) *state.RecoverJobs {
	return &state.RecoverJobs{Jobs: []state.JobRef{{Key: flowKey, UID: f.row().UID}}, Cause: cause, Now: 7}
}

func (f *flow) deletes(p berth.Propagation) *state.DeleteJob {
	return &state.DeleteJob{Key: flowKey, Policy: p, Intent: berth.IntentUser, Eval: f.seed(), Now: 8}
}

// end ends all that runs, and removes what is free to go then.
func (f *flow) end() {
	f.Helper()
	for n := range 3 {
		f.must(report(f.store, n+1, berth.ClientComplete))
	}
	f.sweep()
}

// of returns the allocations of a processing element, oldest first.
func (f *flow) of(name string) (out []*berth.Alloc) {
	for a := range f.store.Snapshot().Allocs() {
		if a.Name() == "flow."+name {
			out = append(out, a)
		}
	}
	return out
}

// told says in lines how the stream jobs and what they own are.
func (f *flow) told() string {
	var b strings.Builder
	s := f.store.Snapshot()
	for row := range s.StreamJobs() {
		state := "gone"
		if j := s.Job(row.Key); j != nil && j.UID == row.UID {
			state = fmt.Sprintf("version %d", j.Version)
			if d := s.Deletion(row.Key); d != nil {
				state += ", deleting to " + d.Deletion.Intent
			}
		}
		kinds := map[string]int{}
		for r := range s.ResourcesOf(row.UID, "") {
			kinds[r.Kind]++
		}
		fmt.Fprintf(&b, "%s %d.%d %s; %d PEs of %d", row.Phase, row.StreamID, row.Generation, state, kinds[berth.KindPE], s.Dependents(row.UID))
		if row.Recovery.Count > 0 || row.Retries > 0 {
			fmt.Fprintf(&b, "; recovery %d by %s, retries %d", row.Recovery.Count, row.Recovery.LastCause, row.Retries)
		}
		for pe := range s.ResourcesOf(row.UID, berth.KindPE) {
			fmt.Fprintf(&b, "; %s %d", strings.TrimPrefix(pe.Name, "flow."), pe.PE.Launch)
			for _, a := range f.of(strings.TrimPrefix(pe.Name, "flow.")) {
				if a.Rest().PE.UID == pe.UID {
					fmt.Fprintf(&b, " %s/%s", a.Desired, a.Client)
				}
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

func (f *flow) want(lines ...string) {
	f.Helper()
	want := ""
	if len(lines) > 0 {
		want = strings.Join(lines, "\n") + "\n"
	}
	if got := f.told(); got != want {
		f.Errorf("it is\n%swanted is\n%s", got, want)
	}
}

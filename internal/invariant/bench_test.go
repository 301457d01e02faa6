package invariant_test

import (
	"fmt"
	"sync"
	"testing"

	"berth"
	"berth/internal/invariant"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// crowd is a state of 2,000 nodes and 100,000 allocations, of jobs of 1,000
// each, a tenth of which replace one that was stopped.
var crowd = sync.OnceValue(func() *state.Snapshot {
	const nodes, jobs, each = 2000, 100, 900
	tx := state.Begin(state.New().Snapshot())
	apply := func(c state.Command) {
		if r := tx.Apply(c); r.Err != nil {
			panic(r.Err)
		}
	}
	for n := range nodes {
		apply(statetest.AddNode(n+1, 1_000_000, 1_000_000, func(x *berth.Node) { x.NodeResources.Disk.DiskMB = 1 << 30 }))
	}
	on := func(i int) berth.NodeID { return statetest.ID[berth.Node](i%nodes + 1) }
	for j := range jobs {
		apply(statetest.Register(statetest.Job(&testing.B{}, fmt.Sprintf(
			`{"ID":"job%d","TaskGroups":[{"Name":"g","Count":%d,"Resources":{"CPU":100,"MemoryMB":100}}]}`, j, each)), 2*j+1))
		first := &state.ApplyPlan{Eval: statetest.ID[berth.Eval](2*j + 1), Now: 2, End: &state.EvalEnd{Status: berth.EvalComplete}}
		for i := range each {
			first.Place = append(first.Place, berth.Placement{Index: uint32(i), NodeID: on(j*each + i)})
		}
		apply(first)
		apply(&state.CreateEvals{Now: 3, Evals: []state.EvalFor{{
			EvalSeed: state.EvalSeed{ID: statetest.ID[berth.Eval](2*j + 2), TriggeredBy: berth.TriggerJobRegister, Cause: berth.Cause{Kind: berth.CauseUser}},
			Key:      berth.JobKey{Namespace: berth.DefaultNamespace, ID: berth.JobID(fmt.Sprint("job", j))},
		}}})
		second := &state.ApplyPlan{Eval: statetest.ID[berth.Eval](2*j + 2), Now: 4, End: &state.EvalEnd{Status: berth.EvalComplete}}
		for a := range tx.AllocsBy(first.Eval) {
			if len(second.Stop) < each/9 {
				second.Stop = append(second.Stop, berth.AllocStop{ID: a.ID, StopReason: berth.StopWanted})
				second.Place = append(second.Place, berth.Placement{Index: a.Index, NodeID: on(j), Previous: a.ID})
			}
		}
		apply(second)
	}
	return tx.Seal()
})

// What it costs to check a state of 100,000 allocations.
func BenchmarkCheck(b *testing.B) {
	s := crowd()
	b.ReportAllocs()
	for b.Loop() {
		if v := invariant.Check(s); v != nil {
			b.Fatal(v[0], len(v))
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*s.Count(state.Allocs)), "ns/alloc")
}

// What it costs to check what schedulers made, and two states that follow each
// other.
func BenchmarkOthers(b *testing.B) {
	s := crowd()
	tx := state.Begin(s)
	tx.Apply(&state.BeginTerm{Term: 1})
	next := tx.Seal()
	for name, check := range map[string]func() []invariant.Violation{
		"scheduled": func() []invariant.Violation { return invariant.Scheduled(s) },
		"between":   func() []invariant.Violation { return invariant.Between(s, next) },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if v := check(); v != nil {
					b.Fatal(v[0], len(v))
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*s.Count(state.Allocs)), "ns/alloc")
		})
	}
}

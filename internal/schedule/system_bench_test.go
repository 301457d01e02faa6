package schedule_test

import (
	"fmt"
	"testing"
	"time"

	"berth"
	"berth/internal/schedule"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// What system jobs cost on 5,000 nodes: to place one, to find that all is well,
// and for one node that joins with ten of them.
func BenchmarkPerNode(b *testing.B) {
	const nodes, jobs = 5000, 10
	tx := state.Begin(state.New().Snapshot())
	do := func(cmds ...state.Command) {
		for _, c := range cmds {
			if r := tx.Apply(c); r.Err != nil {
				b.Fatal(r.Err)
			}
		}
	}
	job := func(name string) *berth.Job {
		return statetest.Job(b, fmt.Sprintf(`{"ID":%q,"Type":"system","TaskGroups":[{"Name":"g","Tasks":[{"Name":"task","Driver":"mock_driver",
			"Resources":{"CPU":100,"MemoryMB":100}}]}]}`, name))
	}
	for n := range nodes {
		do(statetest.AddNode(n+1, 64_000, 256_000))
	}
	decide := func(s *state.Snapshot, id berth.EvalID) *state.ApplyPlan {
		return schedule.Decide(s, s.Eval(id), 0, time.Unix(1000, 0)).Plan
	}
	for i := range jobs {
		do(statetest.Register(job(fmt.Sprint("log", i)), i+1))
		if i < jobs-1 {
			do(decide(tx.Snapshot, statetest.ID[berth.Eval](i+1)))
		}
	}
	fresh := tx.Seal()
	last := statetest.ID[berth.Eval](jobs)
	b.Run("place one job", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if plan := decide(fresh, last); len(plan.Place) != nodes {
				b.Fatalf("%d places", len(plan.Place))
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*nodes), "ns/node")
	})
	do(decide(fresh, last), statetest.Register(job("log0"), jobs+1))
	settled := tx.Seal()
	b.Run("nothing to do", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if plan := decide(settled, statetest.ID[berth.Eval](jobs+1)); len(plan.Place) != 0 {
				b.Fatalf("%d places", len(plan.Place))
			}
		}
	})
	join := statetest.AddNode(nodes+1, 64_000, 256_000)
	join.Seed = statetest.ID[berth.Eval](jobs + 2)
	b.Run("a node joins: raise ten", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			at := state.Begin(settled)
			if r := at.Apply(join); r.Err != nil || len(join.Evals) != jobs {
				b.Fatal(r.Err, len(join.Evals))
			}
		}
	})
	do(join)
	joined := tx.Seal()
	b.Run("a node joins: decide ten", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for _, id := range join.Evals {
				if plan := decide(joined, id); len(plan.Place) != 1 {
					b.Fatalf("%d places", len(plan.Place))
				}
			}
		}
	})
}

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

// What it costs to decide about a job of 100 on 2,000 nodes: when it is new,
// when all of it runs, and when its tasks changed so that all are replaced.
func BenchmarkDecide(b *testing.B) {
	const nodes, count = 2000, 100
	job := func(name, env string) *berth.Job {
		return statetest.Job(b, fmt.Sprintf(`{"ID":%q,"TaskGroups":[{"Name":"g","Count":%d,"Tasks":[{"Name":"task","Driver":"mock_driver",
			"Env":{"A":%q},"Resources":{"CPU":100,"MemoryMB":100}}]}]}`, name, count, env))
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
	decide := func(s *state.Snapshot, eval int) *state.ApplyPlan {
		return schedule.Decide(s, s.Eval(statetest.ID[berth.Eval](eval)), 0, time.Unix(1000, 0)).Plan
	}
	for i := range 200 { // others run there too
		do(statetest.Register(job(fmt.Sprint("fill", i), ""), i+1))
		do(decide(tx.Seal(), i+1))
	}
	do(statetest.Register(job("web", "one"), 1001))
	fresh := tx.Seal()
	do(decide(fresh, 1001), statetest.Register(job("web", "one"), 1002))
	runs := tx.Seal()
	do(statetest.Register(job("web", "two"), 1003))
	changed := tx.Seal()
	for _, c := range []struct {
		name         string
		snap         *state.Snapshot
		eval, places int
	}{{"new", fresh, 1001, count}, {"nothing", runs, 1002, 0}, {"changed", changed, 1003, count}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if plan := decide(c.snap, c.eval); len(plan.Place) != c.places {
					b.Fatalf("%d places", len(plan.Place))
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*count), "ns/instance")
		})
	}
}

// What it costs to decide about a new version of 4,000 instances that has no
// room, or not enough, beside the old one, which fills the nodes.
func BenchmarkDecideSpared(b *testing.B) {
	const nodes = 400
	for _, c := range []struct {
		name              string
		capacity, is, was int
		apart             string
	}{{"two on each node", 1000, 700, 400, ""}, {"ten on each node", 1000, 110, 100, ""}, {"some have room", 1000, 450, 300, ""}, {"distinct hosts", 1000, 1200, 700, `"Constraints":[{"Operand":"distinct_hosts"}],`},
		{"some racks have room", 1000, 450, 300, `"Constraints":[{"Operand":"distinct_property","LTarget":"${meta.rack}","RTarget":"30"}],`}} {
		b.Run(c.name, func(b *testing.B) {
			tx := state.Begin(state.New().Snapshot())
			do := func(cmds ...state.Command) {
				for _, c := range cmds {
					if r := tx.Apply(c); r.Err != nil {
						b.Fatal(r.Err)
					}
				}
			}
			count := nodes * (c.capacity / c.was)
			version := func(cpu, eval int) *state.RegisterJob {
				return statetest.Register(statetest.Job(b, fmt.Sprintf(`{"ID":"web","TaskGroups":[{"Name":"g","Count":%d,%s"Resources":{"CPU":%d,"MemoryMB":100}}]}`, count, c.apart, cpu)), eval)
			}
			for n := range nodes {
				add := statetest.AddNode(n+1, int64(c.capacity), 64_000)
				add.Node.Meta = map[string]string{"rack": fmt.Sprint(n / 10)}
				do(add)
			}
			do(version(c.was, 1))
			s := tx.Seal()
			do(schedule.Decide(s, s.Eval(statetest.ID[berth.Eval](1)), 0, time.Unix(1000, 0)).Plan, version(c.is, 2))
			s = tx.Seal()
			for b.Loop() {
				schedule.Decide(s, s.Eval(statetest.ID[berth.Eval](2)), 0, time.Unix(1000, 0))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*count), "ns/instance")
		})
	}
}

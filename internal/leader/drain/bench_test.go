package drain_test

import (
	"fmt"
	"testing"
	"time"

	"berth"
	"berth/internal/leader/drain"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// BenchmarkStep is one look after one change among many drains: an allocation
// on a draining node is heard of. With the sizes of the design, 1,000,000
// allocations and 1,000 draining nodes, it is to take at most 100 µs.
func BenchmarkStep(b *testing.B) {
	for _, size := range []struct{ nodes, draining, jobs, count int }{{500, 100, 100, 100}, {5000, 1000, 1000, 1000}} {
		b.Run(fmt.Sprintf("draining=%d/allocs=%d", size.draining, size.jobs*size.count), func(b *testing.B) {
			if size.draining > 100 && testing.Short() {
				b.Skip("it takes a while to make so many")
			}
			now := time.Unix(1_000_000, 0)
			tx := state.Begin(state.New().Snapshot())
			apply := func(c state.Command) {
				b.Helper()
				if r := tx.Apply(c); r.Err != nil {
					b.Fatal(r.Err)
				}
			}
			fillNodes(b, tx, apply, size.nodes, size.jobs, size.count, now.UnixNano())
			for n := range size.draining {
				apply(&state.UpdateDrain{ID: statetest.ID[berth.Node](n + 1), Spec: &berth.DrainSpec{Deadline: time.Hour}, Now: now.UnixNano()})
			}
			snap := tx.Seal()
			c := drain.New([32]byte{1})
			settle := func() {
				for do, _ := c.Step(snap, now); len(do) > 0; do, _ = c.Step(snap, now) {
					for _, x := range do {
						apply(x)
					}
					snap = tx.Seal()
				}
			}
			settle()
			var looked time.Duration
			least := time.Hour
			n := 0
			for b.Loop() {
				node := statetest.ID[berth.Node](n%size.draining + 1)
				for a := range snap.AllocsOn(node) {
					apply(&state.ReportAllocs{Node: node, Now: now.UnixNano(), Updates: []state.AllocUpdate{{ID: a.ID, Client: berth.ClientRunning, Tasks: state.PackTaskStates(map[string]*berth.TaskState{
						"task": {State: berth.TaskRunning, Restarts: uint64(n) + 1, StartedAt: now},
					})}}})
					break
				}
				snap = tx.Seal()
				now = now.Add(time.Millisecond)
				begin := time.Now()
				do, _ := c.Step(snap, now)
				took := time.Since(begin)
				looked += took
				least = min(least, took)
				for _, x := range do {
					apply(x)
				}
				snap = tx.Seal()
				n++
			}
			b.ReportMetric(float64(looked.Nanoseconds())/float64(n), "ns/step")
			b.ReportMetric(float64(least.Nanoseconds()), "ns/least-step")
		})
	}
}

// fillNodes makes nodes, and services whose instances all run, spread over
// them.
func fillNodes(b *testing.B, tx *state.Tx, apply func(state.Command), nodes, jobs, count int, now int64) {
	for n := range nodes {
		apply(statetest.AddNode(n+1, 1_000_000, 1_000_000, func(x *berth.Node) { x.NodeResources.Disk.DiskMB = 1 << 30 }))
	}
	byNode := map[berth.NodeID][]state.AllocUpdate{}
	for j := range jobs {
		job := statetest.Job(b, fmt.Sprintf(`{"ID":"job%d","TaskGroups":[{"Name":"g","Count":%d,"Resources":{"CPU":100,"MemoryMB":100}}]}`, j, count))
		apply(statetest.Register(job, j+1))
		p := &state.ApplyPlan{Eval: statetest.ID[berth.Eval](j + 1), Now: now, End: &state.EvalEnd{Status: berth.EvalComplete}}
		for i := range count {
			p.Place = append(p.Place, berth.Placement{Index: uint32(i), NodeID: statetest.ID[berth.Node]((j*997+i*7919)%nodes + 1), Score: 0.5})
		}
		apply(p)
		if len(p.Refused) > 0 {
			b.Fatal(p.Refused[0])
		}
		for a := range tx.AllocsBy(p.Eval) {
			byNode[a.NodeID] = append(byNode[a.NodeID], state.AllocUpdate{ID: a.ID, Client: berth.ClientRunning})
		}
	}
	for n, updates := range byNode {
		apply(&state.ReportAllocs{Node: n, Updates: updates, Now: now})
	}
}

package state_test

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"berth"
	"berth/internal/state"
	"berth/internal/state/codec"
	"berth/internal/state/statetest"
)

const benchNodes = 2000

// plenty is a state of 2,000 nodes with room for all.
var plenty = sync.OnceValue(func() *state.Snapshot {
	tx := state.Begin(state.New().Snapshot())
	for n := range benchNodes {
		mustApply(tx, statetest.AddNode(n+1, 1_000_000, 1_000_000, func(x *berth.Node) { x.NodeResources.Disk.DiskMB = 1 << 30 }))
	}
	return tx.Seal()
})

func mustApply(tx *state.Tx, cmds ...state.Command) {
	for _, c := range cmds {
		if r := tx.Apply(c); r.Err != nil {
			panic(r.Err)
		}
	}
}

func benchJob(b testing.TB, name string, count int) *berth.Job {
	return statetest.Job(b, fmt.Sprintf(`{"ID":%q,"TaskGroups":[{"Name":"g","Count":%d,"Resources":{"CPU":100,"MemoryMB":100}}]}`, name, count))
}

var benchNow = time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC).UnixNano()

// benchPlan is the plan of a job of that many instances, as schedulers make it.
func benchPlan(eval, count int) *state.ApplyPlan {
	c := &state.ApplyPlan{
		Eval: statetest.ID[berth.Eval](eval), Now: benchNow, Explain: map[string]*berth.AllocMetric{"g": {
			NodesEvaluated: benchNodes, NodesInPool: benchNodes, NodePool: "default", NodesAvailable: map[string]int{"dc1": benchNodes},
			AllocationTime: 200 * time.Microsecond,
		}},
		End: &state.EvalEnd{Status: berth.EvalComplete, SnapshotIndex: benchNodes + 1000, Timeline: berth.Timeline{
			Enqueued: benchNow - 3e6, Dequeued: benchNow - 2e6, Planned: benchNow - 1e6, Applied: benchNow - 1e6, Deliveries: 1,
		}},
	}
	for i := range count {
		c.Place = append(c.Place, berth.Placement{
			Index: uint32(i), NodeID: statetest.ID[berth.Node]((eval*997+i*7919)%benchNodes + 1), Score: 0.7312,
		})
	}
	return c
}

// filled is plenty with that many allocations, of jobs of 1,000, and a report of
// each that it runs.
func filled(b testing.TB, allocs int) *state.Snapshot {
	tx := state.Begin(plenty())
	byNode := map[berth.NodeID][]state.AllocUpdate{}
	for j := range allocs / 1000 {
		p := benchPlan(j+1, 1000)
		mustApply(tx, statetest.Register(benchJob(b, fmt.Sprint("fill", j), 1000), j+1), p)
		for a := range tx.AllocsBy(p.Eval) {
			byNode[a.NodeID] = append(byNode[a.NodeID], runs(a.ID))
		}
	}
	for n, updates := range byNode {
		mustApply(tx, &state.ReportAllocs{Node: n, Updates: updates, Now: benchNow + 1e9})
	}
	return tx.Seal()
}

var hundredThousand = sync.OnceValue(func() *state.Snapshot { return filled(&testing.B{}, 100_000) })

// runs is the report of an agent that started a task.
func runs(id berth.AllocID) state.AllocUpdate {
	at := time.Unix(0, benchNow)
	return state.AllocUpdate{ID: id, Client: berth.ClientRunning, Tasks: state.PackTaskStates(map[string]*berth.TaskState{"task": {
		State: berth.TaskRunning, StartedAt: at,
		Events: []berth.TaskEvent{berth.NewTaskEvent(berth.EventReceived, at), berth.NewTaskEvent(berth.EventStarted, at)},
	}})}
}

// per reports a figure of time and one of memory for each of the things that
// one round handles.
func per(b *testing.B, what string, each int, bytes uint64) {
	n := float64(b.N * each)
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/n, "ns/"+what)
	b.ReportMetric(float64(bytes)/n, "B/"+what)
}

// counted runs the loop and returns how many bytes it allocated.
func counted(b *testing.B, round func()) uint64 {
	b.ReportAllocs()
	return allocated(func() {
		for b.Loop() {
			round()
		}
	})
}

// What it costs to apply a plan beside 100,000 allocations.
func BenchmarkApplyPlan(b *testing.B) {
	for _, count := range []int{1, 100, 1000} {
		b.Run(fmt.Sprint("place=", count), func(b *testing.B) {
			const eval = 1 << 20
			tx := state.Begin(hundredThousand())
			mustApply(tx, statetest.Register(benchJob(b, "web", count), eval))
			before := tx.Seal()
			plan := benchPlan(eval, count)
			per(b, "alloc", count, counted(b, func() {
				tx := state.Begin(before)
				mustApply(tx, plan)
				if tx.End().Count(state.Allocs) != 100_000+count {
					b.Fatal(plan.Refused)
				}
			}))
		})
	}
}

// What it costs to take in a report of 100 allocations of one node.
func BenchmarkReport(b *testing.B) {
	tx := state.Begin(hundredThousand())
	c := &state.ReportAllocs{Node: statetest.ID[berth.Node](7), Now: benchNow + 2e9}
	mustApply(tx, statetest.Register(benchJob(b, "web", 100), 1<<20))
	p := benchPlan(1<<20, 100)
	for i := range p.Place {
		p.Place[i].NodeID = c.Node
	}
	mustApply(tx, p)
	for a := range tx.AllocsBy(p.Eval) {
		c.Updates = append(c.Updates, runs(a.ID))
	}
	before := tx.Seal()
	per(b, "update", len(c.Updates), counted(b, func() {
		tx := state.Begin(before)
		mustApply(tx, c)
		tx.End()
	}))
	b.ReportMetric(float64(len(state.AppendCommand(nil, c)))/float64(len(c.Updates)), "logB/update")
}

func BenchmarkRegisterJob(b *testing.B) {
	before := hundredThousand()
	for _, what := range []string{"new", "changed"} {
		b.Run(what, func(b *testing.B) {
			job := benchJob(b, map[string]string{"new": "web", "changed": "fill3"}[what], 1001)
			c := statetest.Register(job, 1<<20)
			per(b, "job", 1, counted(b, func() {
				tx := state.Begin(before)
				mustApply(tx, c)
				tx.End()
			}))
			b.ReportMetric(float64(len(codec.EncodeEntry(state.AppendCommand(nil, c)))), "logB/job")
		})
	}
}

func BenchmarkSnapshot(b *testing.B) {
	store := state.New()
	store.Reset(hundredThousand())
	b.ReportAllocs()
	for b.Loop() {
		if store.Snapshot().Index == 0 {
			b.Fatal("nothing")
		}
	}
}

func BenchmarkLookUp(b *testing.B) {
	s := hundredThousand()
	var ids []berth.AllocID
	for a := range s.Allocs() {
		ids = append(ids, a.ID)
	}
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n += 7919
		if s.Alloc(ids[n%len(ids)]) == nil {
			b.Fatal("it is not there")
		}
	}
}

func BenchmarkScan(b *testing.B) {
	s := hundredThousand()
	b.Run("node", func(b *testing.B) {
		rows, n := 0, 0
		bytes := counted(b, func() {
			n++
			for a := range s.AllocsOn(statetest.ID[berth.Node](n%benchNodes + 1)) {
				rows += sign(a.Occupies())
			}
		})
		per(b, "alloc", rows/b.N, bytes)
	})
	b.Run("job", func(b *testing.B) {
		rows, n := 0, 0
		bytes := counted(b, func() {
			n++
			for a := range s.AllocsOf(berth.JobKey{Namespace: berth.DefaultNamespace, ID: berth.JobID(fmt.Sprint("fill", n%100))}) {
				rows += sign(a.Occupies())
			}
		})
		per(b, "alloc", rows/b.N, bytes)
	})
}

func sign(b bool) int {
	if b {
		return 1
	}
	return 0
}

func BenchmarkSave(b *testing.B) {
	s := hundredThousand()
	var size counter
	bytes := counted(b, func() {
		size = 0
		if err := s.Save(&size); err != nil {
			b.Fatal(err)
		}
	})
	per(b, "alloc", s.Count(state.Allocs), bytes)
	b.ReportMetric(float64(size)/float64(s.Count(state.Allocs)), "fileB/alloc")
}

type counter int

func (c *counter) Write(p []byte) (int, error) { *c += counter(len(p)); return len(p), nil }

func BenchmarkLoad(b *testing.B) {
	var saved bytes.Buffer
	if err := hundredThousand().Save(&saved); err != nil {
		b.Fatal(err)
	}
	var s *state.Snapshot
	n := counted(b, func() {
		var err error
		if s, err = state.Load(bytes.NewReader(saved.Bytes())); err != nil {
			b.Fatal(err)
		}
	})
	per(b, "alloc", s.Count(state.Allocs), n)
}

func BenchmarkHash(b *testing.B) {
	s := hundredThousand()
	per(b, "alloc", s.Count(state.Allocs), counted(b, func() {
		if s.Hash() == 0 {
			b.Fatal("no hash")
		}
	}))
}

// BenchmarkHeap measures how much an allocation holds on to that runs and was
// reported once, its share of job, evaluation and explanation included.
func BenchmarkHeap(b *testing.B) {
	const allocs = 100_000
	plenty()
	var before, after runtime.MemStats
	for b.Loop() {
		runtime.GC()
		runtime.ReadMemStats(&before)
		s := filled(b, allocs)
		runtime.GC()
		runtime.ReadMemStats(&after)
		runtime.KeepAlive(s)
	}
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/allocs, "heapB/alloc")
	b.ReportMetric(0, "ns/op")
}

// What a plan costs in the log, and to get there and back.
func BenchmarkPlanCodec(b *testing.B) {
	for _, count := range []int{100, 1000} {
		tx := state.Begin(plenty())
		mustApply(tx, statetest.Register(benchJob(b, "web", count), 1))
		plan := benchPlan(1, count)
		mustApply(tx, plan) // which learns the numbers of nodes
		cmds := state.AppendCommand(nil, plan)
		entry := codec.EncodeEntry(cmds)
		b.Run(fmt.Sprintf("pack/place=%d", count), func(b *testing.B) {
			buf := make([]byte, 0, 2*len(cmds))
			per(b, "placement", count, counted(b, func() { buf = state.AppendCommand(buf[:0], plan) }))
			b.ReportMetric(float64(len(cmds))/float64(count), "packedB/placement")
			b.ReportMetric(float64(len(entry))/float64(count), "logB/placement")
		})
		b.Run(fmt.Sprintf("unpack/place=%d", count), func(b *testing.B) {
			per(b, "placement", count, counted(b, func() {
				if _, err := state.DecodeEntry(entry); err != nil {
					b.Fatal(err)
				}
			}))
		})
	}
}

// One command that is about all that a job of 10,000 instances runs.
func BenchmarkDeleteJobOf10000(b *testing.B) {
	tx := state.Begin(plenty())
	mustApply(tx, statetest.Register(benchJob(b, "web", 10_000), 1), benchPlan(1, 10_000))
	full := tx.Seal()
	seed := state.EvalSeed{ID: statetest.ID[berth.Eval](2), TriggeredBy: berth.TriggerJobDeregister, Cause: berth.Cause{Kind: berth.CauseUser}}
	for name, c := range map[string]state.DeleteJob{
		"background": {Policy: berth.Background, Eval: seed},
		"foreground": {Policy: berth.Foreground, Eval: seed},
		"force":      {Policy: berth.Foreground, Force: true, Eval: seed},
		"orphan":     {Policy: berth.Orphan},
	} {
		c.Key, c.Intent, c.Now = webKey, berth.IntentUser, benchNow
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				tx := state.Begin(full)
				mustApply(tx, &c)
				tx.End()
			}
		})
	}
}

// One command that is about all that a stream job of 1,001 processing elements
// owns.
func BenchmarkOrphansOfAStream(b *testing.B) {
	tx := state.Begin(plenty())
	mustApply(tx, &state.RegisterJob{Job: statetest.Job(b, statetest.StreamText("flow", 1000, 100, "")), Now: 1})
	row := tx.StreamOf(flowKey)
	plan, err := statetest.Planned(tx.Snapshot, row)
	if err != nil {
		b.Fatal(err)
	}
	mustApply(tx, &state.PlanSubmission{Key: flowKey, UID: row.UID, Plan: plan, Now: 2})
	for _, kind := range berth.StreamKinds {
		for list := range slices.Chunk(plan.Of(kind), state.MaxResources) {
			c := &state.EnsureResources{Key: flowKey, UID: row.UID, Kind: kind, Now: 3}
			for _, o := range list {
				c.Names = append(c.Names, o.Name)
			}
			mustApply(tx, c)
		}
	}
	full := tx.Seal()
	for b.Loop() {
		tx := state.Begin(full)
		mustApply(tx, &state.DeleteJob{Key: flowKey, Policy: berth.Orphan, Intent: berth.IntentUser, Now: benchNow})
		tx.End()
	}
	b.ReportMetric(float64(full.Dependents(row.UID)), "objects")
}

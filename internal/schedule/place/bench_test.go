package place_test

import (
	"fmt"
	"runtime"
	"sync"
	"testing"

	"berth"
	"berth/internal/schedule/place"
	"berth/internal/state"
	"berth/internal/state/statetest"

	"golang.org/x/sys/unix"
)

// cluster returns a state of 5,000 nodes in 50 racks with so many allocations
// on each.
func cluster(b *testing.B, each int) *state.Snapshot {
	b.Helper()
	const nodes = 5000
	tx := state.Begin(state.New().Snapshot())
	do := func(c state.Command) {
		if r := tx.Apply(c); r.Err != nil {
			b.Fatal(r.Err)
		}
	}
	for n := range nodes {
		do(statetest.AddNode(n+1, 64_000, 256_000, func(x *berth.Node) {
			x.Meta = map[string]string{"rack": fmt.Sprint("r", n%50)}
			x.Attributes["cpu.arch"] = []string{"amd64", "arm64"}[n%2]
		}))
	}
	for i := range each {
		job := statetest.Job(b, fmt.Sprintf(`{"ID":"fill%d","TaskGroups":[{"Name":"g","Count":5000,"Resources":{"CPU":100,"MemoryMB":100}}]}`, i))
		do(statetest.Register(job, i+1))
		p := &state.ApplyPlan{Eval: statetest.ID[berth.Eval](i + 1), Now: 1, End: &state.EvalEnd{Status: berth.EvalComplete}}
		for n := range nodes {
			p.Place = append(p.Place, berth.Placement{Index: uint32(n), NodeID: statetest.ID[berth.Node](n + 1)})
		}
		do(p)
		if len(p.Refused) > 0 {
			b.Fatal(p.Refused[0].Reason)
		}
	}
	return tx.Seal()
}

// threadTime is the processor time that the thread has used, in nanoseconds:
// what a shared machine does beside it counts less there.
func threadTime(b *testing.B) int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		b.Fatal(err)
	}
	return t.Nano()
}

// What a placement costs, on empty and on full nodes, alone and in a group, and
// with each thing a job can say that makes it dearer.
func BenchmarkPlace(b *testing.B) {
	const group = `{"ID":"web","TaskGroups":[{"Name":"g","Count":%d,"Resources":{"CPU":100,"MemoryMB":100}%s}]}`
	for _, each := range []int{0, 16, 48, 200} {
		snap := sync.OnceValue(func() *state.Snapshot { return cluster(b, each) })
		for _, with := range []struct{ name, text string }{
			{"plain", ``},
			{"constraint", `,"Constraints":[{"LTarget":"${attr.cpu.arch}","Operand":"regexp","RTarget":"^amd"},{"LTarget":"${meta.rack}","Operand":"!=","RTarget":"r7"}]`},
			{"affinity", `,"Affinities":[{"LTarget":"${meta.rack}","Operand":"=","RTarget":"r1","Weight":50},{"LTarget":"${meta.rack}","Operand":"=","RTarget":"r2","Weight":30},{"LTarget":"${attr.cpu.arch}","Operand":"=","RTarget":"arm64","Weight":-20}]`},
			{"spread", `,"Spreads":[{"Attribute":"${meta.rack}"}]`},
			{"ports", `,"Networks":[{"DynamicPorts":[{"Label":"a"},{"Label":"b"}]}]`},
			{"distinct_hosts", `,"Constraints":[{"Operand":"distinct_hosts"}]`},
		} {
			for _, count := range []int{1, 100, 1000} {
				b.Run(fmt.Sprintf("each=%d/%s/group=%d", each, with.name, count), func(b *testing.B) {
					job := statetest.Job(b, fmt.Sprintf(group, count, with.text))
					job.UID = berth.UID{Index: 1 << 40}
					instances := make([]place.Instance, count)
					for i := range instances {
						instances[i].Index = uint32(i)
					}
					b.ReportAllocs()
					runtime.LockOSThread()
					defer runtime.UnlockOSThread()
					n, snap := 0, snap()
					began := threadTime(b)
					for b.Loop() {
						n++
						p := place.New(snap, job, nil, uint64(n))
						if out := p.Group(0, instances); len(out.Placed) != count {
							b.Fatalf("%d are placed: %+v", len(out.Placed), out.Why)
						}
						p.Close()
					}
					b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n*count), "ns/placement")
					b.ReportMetric(float64(threadTime(b)-began)/float64(n*count), "cpu-ns/placement")
					b.ReportMetric(0, "ns/op")
				})
			}
		}
	}
}

package worker_test

import (
	"context"
	"fmt"
	"testing"

	"berth"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// What the whole path from a registered job to its committed plan costs on one
// worker with 2,000 nodes, but for disk and wire. A deployed job is one with
// the update block of who says nothing of updates: its plan makes a deployment.
func BenchmarkJobs(b *testing.B) {
	for _, x := range []struct {
		count    int
		deployed bool
	}{{1, false}, {1, true}, {100, false}, {100, true}} {
		count, name, update := x.count, fmt.Sprint("count=", x.count), ""
		if x.deployed {
			name, update = name+"/deployed", `"Update":{},`
		}
		b.Run(name, func(b *testing.B) {
			store, log := statetest.New(b, &state.BeginTerm{Term: 1})
			for n := range 2000 {
				log.Must(b, statetest.AddNode(n+1, 1<<40, 1<<40, func(x *berth.Node) { x.NodeResources.Disk.DiskMB = 1 << 40 }))
			}
			ctx, stop := context.WithCancel(b.Context())
			queue := newBroker(b, store, log)
			w := newWorker(b, queue, newPlanner(b, log, queue))
			ended := make(chan error, 2)
			go func() { ended <- queue.Run(ctx) }()
			go func() { ended <- w.Run(ctx) }()
			b.ReportAllocs()
			const together = 100
			n, at := 0, store.Commit()
			for b.Loop() {
				var cmds []state.Command
				for range together {
					n++
					job := statetest.Job(b, fmt.Sprintf(`{"ID":"j%d",%s"TaskGroups":[{"Name":"g","Count":%d,"Resources":{"CPU":10,"MemoryMB":10}}]}`, n, update, count))
					cmds = append(cmds, statetest.Register(job, n))
				}
				log.Must(b, cmds...)
				for at.Count(state.Allocs) < n*count {
					var err error
					if at, err = at.Next(ctx); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "jobs/s")
			b.ReportMetric(float64(n*count)/b.Elapsed().Seconds(), "allocs/s")
			stop()
			<-ended
			<-ended
		})
	}
}

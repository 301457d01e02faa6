//go:build faults

package terms

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"berth"
	"berth/internal/state"
	"berth/internal/streams/submit"
)

// A job of so many processing elements is registered, in real time, with three
// servers that agree in memory and keep their logs on disk: how long until it is
// submitted. docs/decisions/0007-stream-launches.md holds what it printed.
func BenchmarkSubmission(b *testing.B) {
	for _, pes := range []int{5, 50, 500, 1000} {
		b.Run(fmt.Sprint("pes=", pes), func(b *testing.B) {
			c := newRegion(b, "global", "10.0.0", 3, 1, &wires{}, &pool{})
			ctx, cancel := context.WithCancel(context.Background())
			ended := make(chan struct{}, 4)
			for n := range cap(ended) {
				a := c.agent(n + 1)
				go func() { a.run(ctx); ended <- struct{}{} }()
			}
			b.Cleanup(func() {
				for i := range c.list {
					c.halt(i)
				}
				cancel()
				for range cap(ended) {
					<-ended
				}
			})
			leader := c.list[c.leader()]
			until(b, leader.Store(), func(s *state.Snapshot) bool {
				ready := 0
				for n := range s.Nodes() {
					if n.Ready() {
						ready++
					}
				}
				return ready == cap(ended)
			})
			for n := 0; b.Loop(); n++ {
				k := berth.JobKey{Namespace: berth.DefaultNamespace, ID: berth.JobID(fmt.Sprint("wide", n))}
				c.must(http.MethodPut, "/v1/jobs", wide(k.ID, pes))
				until(b, leader.Store(), func(s *state.Snapshot) bool {
					row := s.StreamOf(k)
					return row != nil && row.Phase == berth.PhaseSubmitted
				})
				b.StopTimer() // what is gone does not hold up the next
				plan, _ := json.Marshal(leader.Store().Snapshot().StreamOf(k).Plan)
				b.ReportMetric(float64(len(plan))/1024, "plan-KiB") // as JSON
				c.must(http.MethodDelete, "/v1/job/"+string(k.ID)+"?purge=true&propagation=foreground", "")
				until(b, leader.Store(), func(s *state.Snapshot) bool { return s.Job(k) == nil })
				b.StartTimer()
			}
		})
	}
}

// wide is a job of a source and of a region of so many channels less one.
func wide(id berth.JobID, pes int) string {
	task := `{"Name":"t","Driver":"raw_exec","Config":{"command":"x"},"Resources":{"CPU":1,"MemoryMB":10}}`
	return fmt.Sprintf(`{"Job":{"ID":%q,"Type":"stream","Datacenters":["dc1"],"Stream":{
		"Regions":[{"Name":"score","Groups":["transform"],"Width":%d}],
		"Streams":[{"Name":"raw","From":"source.raw","To":["transform.in"]}]},
	"TaskGroups":[
		{"Name":"source","Stream":{"Outputs":[{"Name":"raw"}]},"Tasks":[%s]},
		{"Name":"transform","Networks":[{"DynamicPorts":[{"Label":"in"}]}],"Stream":{"Inputs":[{"Name":"in","Port":"in"}]},"Tasks":[%s]}]}}`,
		id, pes-1, task, task)
}

// until waits, in real time, until something holds of a state.
func until(b *testing.B, store *state.Store, cond func(*state.Snapshot) bool) {
	b.Helper()
	w := store.Watch(state.OnTable(state.Streams), state.OnTable(state.Jobs), state.OnTable(state.Nodes))
	defer w.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	for !cond(store.Snapshot()) {
		if err := w.Wait(ctx); err != nil {
			now := store.Snapshot()
			for row := range now.StreamJobs() {
				p := submit.Position(now, row)
				b.Logf("%s %s %s, %d missing, %d stale, %s", row.Key, row.Phase, p.State, len(p.Missing), len(p.Stale), row.LastError)
			}
			for e := range now.Evals() {
				if !e.Terminal() {
					b.Logf("evaluation %s %s %v", e.TriggeredBy, e.Status, e.FailedTGAllocs)
				}
			}
			for n := range now.Nodes() {
				b.Logf("node %s %s", n.Name, n.Status)
			}
			b.Fatal(err)
		}
	}
}

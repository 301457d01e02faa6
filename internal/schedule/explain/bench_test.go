package explain_test

import (
	"fmt"
	"testing"

	"berth"
	"berth/internal/schedule/explain"
	"berth/internal/state"
	"berth/internal/state/statetest"
	"berth/op"
)

// What an explanation costs that tries many changes: a group that finds no
// place on any of so many nodes, whose memory and constraint both stand in the
// way somewhere.
func BenchmarkJob(b *testing.B) {
	for _, nodes := range []int{100, 1000, 10000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			var cmds []state.Command
			for n := range nodes {
				cmds = append(cmds, statetest.AddNode(n+1, 4000, 500, func(n *berth.Node) { n.Meta = map[string]string{"rack": "r1"} }))
			}
			cmds = append(cmds, statetest.AddNode(nodes+1, 4000, 8000, func(n *berth.Node) { n.Meta = map[string]string{"rack": "r2"} }))
			job := statetest.Job(b, `{"ID":"web","TaskGroups":[{"Name":"g","Count":4,"Resources":{"CPU":100,"MemoryMB":700},
				"Constraints":[{"LTarget":"${meta.rack}","Operand":"=","RTarget":"r1"}]}]}`)
			store, log := statetest.New(b, append(cmds, statetest.Register(job, 1))...)
			c := &cluster{Log: log}
			for b.Loop() {
				x := explain.Job(store.Snapshot(), key("web"), nowhere, c.now)
				if x.Verdict != op.WhyRoom || len(x.Groups[0].Changes) != 3 {
					b.Fatalf("%+v", x)
				}
			}
		})
	}
}

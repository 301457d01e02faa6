package submit_test

import (
	"fmt"
	"testing"

	"berth"
	"berth/internal/state"
	"berth/internal/streams/submit"
)

// Something happens to one of 1,000 jobs: the step after it looks at that one.
func BenchmarkOneChange(b *testing.B) {
	w := newWorld(b, 0)
	var k berth.JobKey
	for n := range 1000 {
		k = w.register(telemetry(`"ID": "telemetry"`, fmt.Sprintf(`"ID": "t%d"`, n), `{"Name": "edge", "Tags": ["ssd"], "Size": 2}`, ``, `"Pool": "edge", `, ``))
	}
	for w.step() {
	}
	w.do(&state.CreateEvals{Evals: []state.EvalFor{{EvalSeed: w.seed(berth.TriggerJobScaling), Key: k}}})
	other := w.tip()
	w.do(&state.CreateEvals{Evals: []state.EvalFor{{EvalSeed: w.seed(berth.TriggerJobScaling), Key: k}}})
	for n := 0; b.Loop(); n++ {
		snap := w.tip()
		if n%2 == 0 {
			snap = other
		}
		if do, _ := w.ctrl.Step(snap, w.now); len(do) > 0 {
			b.Fatal("there is something to do")
		}
	}
}

// What one look costs at a job of 1,000 processing elements that is submitted,
// and what counting where it stands does.
func BenchmarkWideJob(b *testing.B) {
	w := newWorld(b, 1, func(n *berth.Node) {
		n.Meta = map[string]string{"tags": "ssd"}
		n.NodeResources.Cpu.CpuShares, n.NodeResources.Memory.MemoryMB, n.NodeResources.Disk.DiskMB = 1_000_000, 1_000_000, 10_000_000
	})
	k := w.register(telemetry(`"Width": 3`, `"Width": 998`, `{"Name": "edge", "Tags": ["ssd"], "Size": 2}`, ``, `"Pool": "edge", `, ``, `"Exlocate": ["ingest"]`, ``, `{"Isolated": true}`, `{}`))
	for w.row(k).Phase != berth.PhaseSubmitted {
		a := w.step()
		s := w.schedule()
		if !a && !s {
			b.Fatalf("it is not submitted: %+v", submit.Position(w.tip(), w.row(k)).State)
		}
	}
	w.agents()
	for w.step() {
	}
	b.Run("step", func(b *testing.B) {
		for b.Loop() {
			if do, _ := submit.New([32]byte{1}).Step(w.tip(), w.now); len(do) > 0 {
				b.Fatal("there is something to do")
			}
		}
	})
	b.Run("position", func(b *testing.B) {
		for b.Loop() {
			if s := submit.Position(w.tip(), w.row(k)); s.State != submit.StateSubmitted {
				b.Fatal(s.State)
			}
		}
	})
}

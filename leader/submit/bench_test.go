package submit_test

import (
	"fmt"
	"testing"

	"berth"
	"berth/state"
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

package cli

import (
	"slices"
	"testing"

	"berth"
	"berth/op"
)

// The steps of an evaluation that ended do not change when the leader restarts,
// which alone knew when its plan was applied: only how long that took is lost.
func TestStepsOutliveTheLeader(t *testing.T) {
	e := &op.Eval{Status: berth.EvalComplete, CreateTime: 100, ModifyTime: 320}
	e.Timeline.Timeline = berth.Timeline{Enqueued: 110, Dequeued: 300, Planned: 350, Applied: 350, Deliveries: 1}
	e.Timeline.Acked = 900
	before := steps(e)
	e.Timeline.Acked = 0
	after := steps(e)
	if len(before) != 5 || before[4].name != "acknowledged" || len(after) != 4 {
		t.Fatalf("before %+v, after %+v", before, after)
	}
	for i := range after {
		want := before[i]
		if i == 3 {
			want.to, want.last = 0, true
		}
		if after[i] != want {
			t.Errorf("step %d was %+v, is %+v", i, before[i], after[i])
		}
	}
}

// An evaluation that was failed ends with that, also if a worker acknowledged it
// later.
func TestAFailedEvaluationIsNotAcknowledged(t *testing.T) {
	e := &op.Eval{Status: berth.EvalFailed, CreateTime: 100, ModifyTime: 500}
	e.Timeline.Timeline = berth.Timeline{Enqueued: 110, Dequeued: 300, Deliveries: 3}
	e.Timeline.Acked = 900
	var names []string
	for _, s := range steps(e) {
		names = append(names, s.name)
	}
	if want := []string{"created", "queued, tried", "scheduling", "failed"}; !slices.Equal(names, want) {
		t.Errorf("the steps are %q, not %q", names, want)
	}
}

package explain_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"berth"
	"berth/internal/schedule/explain"
	"berth/internal/state"
	"berth/internal/state/statetest"
	"berth/op"
)

// A job that takes too much work to schedule is neither explained nor planned
// without bound: both say so, and name the quarantine.
func TestAJobThatTakesTooMuchWorkIsNotExplainedForEver(t *testing.T) {
	tx := state.Begin(state.New().Snapshot())
	apply := func(c state.Command) {
		t.Helper()
		if r := tx.Apply(c); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	for i := range 200 { // no two are alike
		apply(statetest.AddNode(i+1, 4000, 4000, func(x *berth.Node) { x.Attributes["kernel.version"] = fmt.Sprintf("5.%d", i) }))
	}
	j := statetest.Job(t, `{"ID":"poison","TaskGroups":[{"Name":"g"}]}`)
	j.Constraints = []berth.Constraint{{LTarget: "${attr.kernel.version}", Operand: berth.OpVersion, RTarget: ">= 1.0" + strings.Repeat(", >= 1.0", 75_000)}}
	now := time.Unix(1e9, 0)
	c := statetest.Register(j, 1)
	_, err := explain.Plan(tx.Snapshot, c, now)
	if berth.KindOf(err) != berth.Invalid || !strings.Contains(err.Error(), "would be quarantined") || !strings.Contains(err.Error(), "kernel.version") {
		t.Errorf("planned: %v", err)
	}
	apply(c)
	key := j.Key()
	x := explain.Job(tx.Snapshot, key, nowhere, now)
	if x.Verdict != op.WhyFailed || !strings.Contains(x.Summary, "too much work") || strings.Contains(x.Summary, "quarantined") {
		t.Errorf("explained: %s: %s", x.Verdict, x.Summary)
	}
	apply(&state.ApplyPlan{Eval: c.Eval.ID, Now: now.UnixNano(), End: &state.EvalEnd{
		Status: berth.EvalFailed, Failure: berth.FailureTooMuchWork, Description: "too much work",
		Later: []state.NewEval{{ID: statetest.ID[berth.Eval](2), TriggeredBy: berth.TriggerFailedFollowUp, WaitUntil: now.Add(time.Minute).UnixNano()}},
	}})
	x = explain.Job(tx.Snapshot, key, nowhere, now)
	if !strings.Contains(x.Summary, "is quarantined") || !strings.Contains(x.Summary, now.Add(time.Minute).UTC().Format(time.RFC3339)) {
		t.Errorf("quarantined: %s", x.Summary)
	}
}

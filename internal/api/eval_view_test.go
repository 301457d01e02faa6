package api_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"berth"
	"berth/internal/api"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// acked is a leader that saw every evaluation acknowledged.
type acked struct{ leader }

func (acked) Acked(berth.EvalID) int64      { return 7 }
func (a acked) Leader() (api.Leader, error) { return a, nil }

// A worker that acknowledges an evaluation which has failed meanwhile did not
// decide it: the evaluation is not shown as acknowledged. One that a worker
// decided is.
func TestAFailedEvaluationIsNotAcknowledged(t *testing.T) {
	s, _ := serve(t, func(c *api.Config) { c.Cluster = acked{c.Cluster.(leader)} },
		statetest.Register(statetest.Job(t, `{"ID":"web","TaskGroups":[{"Name":"g","Count":1}]}`), 1),
		statetest.Register(statetest.Job(t, `{"ID":"db","TaskGroups":[{"Name":"g","Count":0}]}`), 2),
		&state.FailEval{ID: statetest.ID[berth.Eval](1), Why: "it was delivered too often", Timeline: berth.Timeline{Enqueued: 1, Dequeued: 2, Deliveries: 3}, Now: 3},
		&state.ApplyPlan{Eval: statetest.ID[berth.Eval](2), Now: 5,
			End: &state.EvalEnd{Status: berth.EvalComplete, Timeline: berth.Timeline{Enqueued: 1, Dequeued: 2, Planned: 3, Applied: 4, Deliveries: 1}}},
	)
	for id, want := range map[int]int64{1: 0, 2: 7} {
		w := ask(s, http.MethodGet, "/v1/evaluation/"+statetest.ID[berth.Eval](id).String(), "")
		var got struct {
			Status   string
			Timeline struct{ Acked int64 }
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || got.Timeline.Acked != want {
			t.Errorf("evaluation %d: acknowledged %d, want %d: %s", id, got.Timeline.Acked, want, w.Body)
		}
	}
}

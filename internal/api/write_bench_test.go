package api_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"berth"
	"berth/internal/state"
	"berth/internal/state/statetest"
	"berth/op"
)

// What a registration costs the API and the state, without the log.
func BenchmarkRegisterJob(b *testing.B) {
	s, _ := serve(b, nil, statetest.AddNode(1, 4000, 4000))
	body := `{"Job": {"ID": "web%d", "TaskGroups": [{"Name": "g", "Count": 3, "Tasks": [{"Name": "app", "Driver": "mock_driver", "Env": {"A": "b"}}]}]}}`
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(http.MethodPut, "/v1/jobs", strings.NewReader(fmt.Sprintf(body, i%100))))
		if w.Code != http.StatusOK {
			b.Fatal(w.Body)
		}
	}
}

// reported is a call with a report of a node's agent.
type reported struct{ op.ReportAllocs }

func (r *reported) Decode(in any) error    { *in.(*op.ReportAllocs) = r.ReportAllocs; return nil }
func (*reported) Remote() string           { return "10.0.0.1:1" }
func (*reported) Progress() *atomic.Uint64 { return nil }

// What an agent's report of ten allocations costs the API and the state,
// without the wire and the log.
func BenchmarkReportAllocs(b *testing.B) {
	node := statetest.Node(1, 1_000_000, 1_000_000)
	job := statetest.Job(b, `{"ID": "web", "TaskGroups": [{"Name": "g", "Count": 10}]}`)
	s, log := serve(b, nil, &state.RegisterNode{Node: node, Now: 1}, statetest.Register(job, 1))
	plan := &state.ApplyPlan{Eval: statetest.ID[berth.Eval](1), Now: 2, End: &state.EvalEnd{Status: berth.EvalComplete}}
	for i := range 10 {
		plan.Place = append(plan.Place, berth.Placement{Index: uint32(i), NodeID: node.ID})
	}
	log.Must(b, plan)
	call := &reported{op.ReportAllocs{Write: op.Write{AuthToken: node.SecretID}}}
	for a := range log.Tip().Allocs() {
		call.Alloc = append(call.Alloc, &op.AllocReport{ID: a.ID, NodeID: a.NodeID, ClientStatus: berth.ClientRunning})
	}
	if len(call.Alloc) != 10 {
		b.Fatalf("%d allocations", len(call.Alloc))
	}
	report := s.RPC()[op.AllocReporter.RPC]
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		for _, a := range call.Alloc {
			a.ClientDescription = [2]string{"Tasks are running", "Some task is restarting"}[i%2]
		}
		if _, err := report(b.Context(), call); err != nil {
			b.Fatal(err)
		}
	}
}

package place

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"berth"
	"berth/internal/state"
)

// An explanation stays within its 4 KiB however odd the cluster is, and keeps
// what there is most of; so does what a blocked evaluation missed.
func TestExplanationsAreBounded(t *testing.T) {
	tx := state.Begin(state.New().Snapshot())
	for n := range 3000 {
		node := &berth.Node{
			ID: berth.NodeID{byte(n >> 8), byte(n), 1}, SecretID: "s", Name: fmt.Sprint("n", n), Status: berth.NodeReady,
			Datacenter: fmt.Sprint("dc", n), NodeClass: strings.Repeat("c", 300) + fmt.Sprint(n/2), NodePool: berth.DefaultNodePool,
			Meta:          map[string]string{"x": fmt.Sprint(n % 100)},
			NodeResources: &berth.NodeResources{}, Drivers: map[string]*berth.DriverInfo{"mock_driver": {Detected: true, Healthy: n%3 > 0}},
		}
		if r := tx.Apply(&state.RegisterNode{Node: node, Now: 1}); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	g := &berth.TaskGroup{
		Name: "g", Count: 1, RestartPolicy: &berth.RestartPolicy{}, EphemeralDisk: &berth.EphemeralDisk{},
		Tasks:    []*berth.Task{{Name: "t", Driver: "mock_driver", Resources: &berth.Resources{CPU: 100, MemoryMB: 100}, RestartPolicy: &berth.RestartPolicy{}, LogConfig: &berth.LogConfig{}}},
		Networks: []berth.NetworkResource{{}},
	}
	for i := range 200 {
		g.Constraints = append(g.Constraints, berth.Constraint{LTarget: "${meta.x}", Operand: berth.OpRegexp, RTarget: fmt.Sprintf("^[^%d]|%s", i%10, strings.Repeat("y", 900))})
	}
	job := &berth.Job{ID: "web", Namespace: berth.DefaultNamespace, Datacenters: []string{"*"}, NodePool: "all", TaskGroups: []*berth.TaskGroup{g}}
	out := New(tx.Snapshot, job, nil, 1).Group(0, []Instance{{}})
	text, err := json.Marshal(out.Why)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > 4096+1024 { // JSON says more about the same than the state does
		t.Errorf("the explanation has %d bytes: %s", len(text), text)
	}
	if out.Why.NodesEvaluated != 3000 || len(out.Why.ConstraintFiltered) == 0 || out.Why.ConstraintFiltered["unhealthy drivers: mock_driver"] == 0 {
		t.Errorf("it says too little: %s", text)
	}
	if n := len(out.Missed.Classes); n > classesKept || !out.Missed.Escaped {
		t.Errorf("%d classes are remembered; escaped is %v", n, out.Missed.Escaped)
	}
}

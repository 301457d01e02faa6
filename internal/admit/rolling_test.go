package admit_test

import (
	"strings"
	"testing"

	"berth/internal/admit"
	"berth/internal/decode"
)

// A template can restart allocations in turn only where an update block says how
// many at a time, and when one of them is healthy.
func TestTemplatesThatRestartInTurn(t *testing.T) {
	for _, c := range []struct{ name, kind, update, template, want string }{
		{"good", "service", `{"MaxParallel":2}`, ``, ""},
		{"by default", "service", `null`, ``, ""},
		{"of tasks", "service", `{"HealthCheck":"task_states"}`, ``, ""},
		{"all at once", "service", `{"MaxParallel":0}`, ``, "needs an update block whose max_parallel is at least 1"},
		{"manual", "service", `{"HealthCheck":"manual"}`, ``, "health_check is checks or task_states, not manual"},
		{"batch", "batch", `null`, ``, "is only for jobs of type service, not batch"},
		{"system", "system", `null`, ``, "is only for jobs of type service, not system"},
		{"signal", "service", `null`, `,"ChangeMode":"signal","ChangeSignal":"SIGHUP"`, "has no effect unless change_mode is restart"},
		{"once", "service", `null`, `,"Once":true`, "has no effect unless change_mode is restart, without once"},
	} {
		tree, err := decode.ParseJSON([]byte(`{"ID":"web","Type":"` + c.kind + `","TaskGroups":[{"Name":"g","Update":` + c.update +
			`,"Tasks":[{"Name":"t","Driver":"mock_driver","Templates":[{"EmbeddedTmpl":"x","DestPath":"local/x","Rolling":true` + c.template + `}]}]}]}`))
		if err != nil {
			t.Fatal(err)
		}
		_, err = admit.DecodeJob(tree, admit.FromJSON)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), "job.group[g].task[t].template[0].rolling: ") || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: got %v, want %s", c.name, err, c.want)
		}
	}
}

package admit

import (
	"fmt"
	"strings"
	"testing"

	"berth/internal/decode"
)

// What an update block cannot say is refused by name; what Nomad documents is
// taken.
func TestUpdateBlock(t *testing.T) {
	const s = int64(1_000_000_000)
	for _, tt := range []struct{ kind, update, problem string }{
		{"service", `{"MaxParallel":2}`, ""},
		{"service", `{"MaxParallel":0}`, ""},
		{"service", `{"MaxParallel":2,"Canary":2,"AutoPromote":true,"AutoRevert":true,"HealthCheck":"task_states"}`, ""},
		{"service", `{"HealthCheck":"manual","ProgressDeadline":0}`, ""},
		{"service", `{"MaxParallel":-1}`, "update.max_parallel: -1 is out of range"},
		{"service", `{"Canary":-1}`, "update.canary: -1 is out of range"},
		{"service", `{"HealthCheck":"vibes"}`, `update.health_check: "vibes" is not allowed; allowed are checks, task_states, manual`},
		{"service", fmt.Sprintf(`{"MinHealthyTime":%d,"HealthyDeadline":%d}`, 10*s, 10*s), "update.min_healthy_time: 10s is too long"},
		{"service", fmt.Sprintf(`{"HealthyDeadline":%d}`, 600*s), "update.healthy_deadline: 10m0s is too long; allowed is less than progress_deadline, 10m0s"},
		{"service", fmt.Sprintf(`{"HealthyDeadline":%d,"ProgressDeadline":0}`, 3600*s), ""},
		{"service", `{"AutoPromote":true}`, "update.auto_promote: needs canaries"},
		{"service", fmt.Sprintf(`{"Stagger":%d}`, -s), "update.stagger: -1s is out of range"},
		{"batch", `{"MaxParallel":1}`, "update: is not for jobs of type batch"},
		{"batch", `{"MaxParallel":0}`, ""},
		{"system", `{"MaxParallel":1,"Canary":100,"AutoPromote":true,"AutoRevert":true}`, ""},
		{"system", `{"Canary":101}`, "update.canary: 101 is out of range; allowed are 0 to 100"},
		{"system", `{"HealthCheck":"vibes"}`, `update.health_check: "vibes" is not allowed`},
	} {
		for _, at := range []string{"job", "group"} {
			job, group := fmt.Sprintf(`"Update":%s,`, tt.update), ""
			if at == "group" {
				job, group = group, job
			}
			tree, err := decode.ParseJSON([]byte(fmt.Sprintf(`{"ID":"web","Type":%q,%s"TaskGroups":[{"Name":"g",%s"Tasks":[{"Name":"t","Driver":"mock_driver"}]}]}`, tt.kind, job, group)))
			if err != nil {
				t.Fatal(err)
			}
			_, err = DecodeJob(tree, FromJSON)
			if (err == nil) != (tt.problem == "") || err != nil && !strings.Contains(err.Error(), tt.problem) {
				t.Errorf("%s, %s of the %s: %v, not %q", tt.kind, tt.update, at, err, tt.problem)
			}
		}
	}
}

package admit

import (
	"fmt"
	"strings"
	"testing"

	"berth/internal/decode"
)

// Invalid update blocks are refused by name; what Nomad documents is accepted.
func TestUpdateBlock(t *testing.T) {
	const s = int64(1_000_000_000)
	for _, tt := range []struct{ kind, update, problem string }{
		{"service", `{"MaxParallel":2}`, ""},
		{"service", `{"MaxParallel":0}`, ""},
		{"service", `{"MaxParallel":2,"Canary":2,"AutoPromote":true,"AutoRevert":true,"HealthCheck":"task_states"}`, ""},
		{"service", `{"HealthCheck":"manual","ProgressDeadline":0}`, ""},
		{"service", `{"MaxParallel":-1}`, "update.max_parallel: must be 0 to 50000, got -1"},
		{"service", `{"Canary":-1}`, "update.canary: must be 0 to 50000, got -1"},
		{"service", `{"HealthCheck":"vibes"}`, `update.health_check: unknown health_check "vibes": want checks, task_states or manual`},
		{"service", fmt.Sprintf(`{"MinHealthyTime":%d,"HealthyDeadline":%d}`, 10*s, 10*s), "update.min_healthy_time: must be below healthy_deadline, 10s, got 10s"},
		{"service", fmt.Sprintf(`{"HealthyDeadline":%d}`, 600*s), "update.healthy_deadline: must be below progress_deadline, 10m0s, got 10m0s"},
		{"service", fmt.Sprintf(`{"HealthyDeadline":%d,"ProgressDeadline":0}`, 3600*s), ""},
		{"service", `{"AutoPromote":true}`, "update.auto_promote: needs canary to be above 0"},
		{"service", fmt.Sprintf(`{"Stagger":%d}`, -s), "update.stagger: must be 0s to 876000h0m0s, got -1s"},
		{"batch", `{"MaxParallel":1}`, "update: is not for jobs of type batch"},
		{"batch", `{"MaxParallel":0}`, ""},
		{"system", `{"MaxParallel":1,"Canary":100,"AutoPromote":true,"AutoRevert":true}`, ""},
		{"system", `{"Canary":101}`, "update.canary: must be 0 to 100, got 101"},
		{"system", `{"HealthCheck":"vibes"}`, `update.health_check: unknown health_check "vibes"`},
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

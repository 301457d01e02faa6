package admit

import (
	"strings"
	"testing"

	"berth/internal/decode"
)

// Valid and refused migrate blocks, by job type.
func TestMigrate(t *testing.T) {
	for _, c := range []struct{ job, group, want string }{
		{"", `{}`, ""},
		{"", `{"MaxParallel": 0, "HealthCheck": "task_states", "MinHealthyTime": 0, "HealthyDeadline": 1, "StartFirst": true}`, ""},
		{"", `{"MaxParallel": -1}`, "job.group[g].migrate.max_parallel: must be 0 to 50000, got -1"},
		{"", `{"HealthCheck": "manual"}`, `job.group[g].migrate.health_check: unknown health_check "manual": want checks or task_states`},
		{"", `{"MinHealthyTime": -1}`, "job.group[g].migrate.min_healthy_time: must be 0s to 876000h0m0s, got -1ns"},
		{"", `{"MinHealthyTime": 300000000000}`, ""},
		{"", `{"MinHealthyTime": 300000000001}`, "job.group[g].migrate.min_healthy_time: must be at most healthy_deadline, 5m0s, got 5m0.000000001s"},
		{`"Type": "batch",`, `{}`, "job.group[g].migrate: is not for jobs of type batch"},
		{`"Type": "system",`, `{}`, "job.group[g].migrate: is not for jobs of type system"},
	} {
		tree, err := decode.ParseJSON([]byte(`{"ID": "j", ` + c.job + ` "TaskGroups": [{"Name": "g", "Migrate": ` + c.group + `, "Tasks": [{"Name": "t", "Driver": "mock_driver"}]}]}`))
		if err != nil {
			t.Fatal(err)
		}
		_, err = DecodeJob(tree, FromJSON)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s %s: %v", c.job, c.group, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s %s: %v; want %s", c.job, c.group, err, c.want)
		}
	}
}

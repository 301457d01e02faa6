package admit

import (
	"strings"
	"testing"

	"berth/internal/decode"
)

// What a migrate block can say, and what is refused of it, by job type.
func TestMigrate(t *testing.T) {
	for _, c := range []struct{ job, group, want string }{
		{"", `{}`, ""},
		{"", `{"MaxParallel": 0, "HealthCheck": "task_states", "MinHealthyTime": 0, "HealthyDeadline": 1, "StartFirst": true}`, ""},
		{"", `{"MaxParallel": -1}`, "job.group[g].migrate.max_parallel: -1 is out of range"},
		{"", `{"HealthCheck": "manual"}`, `job.group[g].migrate.health_check: "manual" is not allowed; allowed are checks, task_states`},
		{"", `{"MinHealthyTime": -1}`, "job.group[g].migrate.min_healthy_time: -1ns is out of range"},
		{"", `{"MinHealthyTime": 300000000000}`, "job.group[g].migrate.min_healthy_time: 5m0s is not below healthy_deadline, 5m0s"},
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
			t.Errorf("%s %s: %v; wanted %s", c.job, c.group, err, c.want)
		}
	}
}

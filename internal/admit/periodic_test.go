package admit

import (
	"strings"
	"testing"

	"berth/internal/decode"
)

const periodicJob = `{"ID": "nightly", "Type": "batch", %s, "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "app", "Driver": "raw_exec", "Config": {"command": "/bin/true"}%s}]}]}`

// Invalid periodic and parameterized blocks are refused with their path.
func TestPeriodicAndParameterizedBlocks(t *testing.T) {
	for _, c := range []struct{ job, task, want string }{
		{`"Periodic": {"Spec": "0 3 * * *"}`, ``, ``},
		{`"Periodic": {"Specs": ["@daily", "*/5 * * * * * *"], "TimeZone": "Europe/Berlin"}`, ``, ``},
		{`"Periodic": {"Enabled": false}`, ``, ``},
		{`"Periodic": {}`, ``, `job.periodic.crons: is missing: want at least one cron expression, such as "0 3 * * *"`},
		{`"Periodic": {"Spec": "61 * * * *"}`, ``, `job.periodic.cron: "61 * * * *" cannot be parsed: syntax error in minute field: '61'`},
		{`"Periodic": {"Spec": "* * * * * * * *"}`, ``, `job.periodic.cron: "* * * * * * * *" has 8 fields; 5 to 7 are allowed`},
		{`"Periodic": {"Specs": ["0 0 30 2 *"]}`, ``, `job.periodic.crons: "0 0 30 2 *" is never due`},
		{`"Periodic": {"Spec": "@daily", "Specs": ["@daily"]}`, ``, `job.periodic.crons: cannot be combined with cron`},
		{`"Periodic": {"Spec": "@daily", "TimeZone": "Europe/Atlantis"}`, ``, `job.periodic.time_zone: must be a time zone such as "UTC" or "Europe/Berlin", got "Europe/Atlantis"`},
		{`"Periodic": {"Spec": "@daily", "TimeZone": "Local"}`, ``, `job.periodic.time_zone: must be the same on every server, such as "UTC" or "Europe/Berlin", got "Local"`},
		{`"Periodic": {"Spec": "@daily", "SpecType": "sun"}`, ``, `job.periodic.type: unknown type "sun": want cron`},
		{`"Periodic": {"Spec": "@daily"}, "ParameterizedJob": {}`, ``, `job.periodic: is not supported together with parameterized`},
		{`"ParameterizedJob": {}`, `, "DispatchPayload": {"File": "in/input.json"}`, ``},
		{`"ParameterizedJob": {"Payload": "sometimes"}`, ``, `job.parameterized.payload: unknown payload "sometimes": want optional, required or forbidden`},
		{`"ParameterizedJob": {"MetaRequired": ["a"], "MetaOptional": ["b", "a", ""]}`, ``,
			`job.parameterized.meta_optional: "a" is listed twice;   * job.parameterized.meta_optional: must not have an empty key`},
		{`"ParameterizedJob": {}`, `, "DispatchPayload": {"File": "../../etc/passwd"}`,
			`job.group[g].task[app].dispatch_payload.file: must be the path of a file below the task's local directory, got "../../etc/passwd"`},
		{`"Priority": 50`, `, "DispatchPayload": {"File": "x"}`, `job.group[g].task[app].dispatch_payload: is only for parameterized jobs; others have no payload`},
	} {
		text := strings.Replace(strings.Replace(periodicJob, "%s", c.job, 1), "%s", c.task, 1)
		tree, err := decode.ParseJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		_, err = DecodeJob(tree, FromJSON)
		got := ""
		if err != nil {
			got = strings.ReplaceAll(err.Error(), "\n", "; ")
		}
		if got != c.want && !(c.want != "" && strings.Contains(got, c.want)) {
			t.Errorf("%s%s: %s\nwant %s", c.job, c.task, got, c.want)
		}
	}
	text := strings.Replace(strings.Replace(periodicJob, `"batch"`, `"service"`, 1), "%s", `"Periodic": {"Spec": "@daily"}`, 1)
	tree, _ := decode.ParseJSON([]byte(strings.Replace(text, "%s", "", 1)))
	if _, err := DecodeJob(tree, FromJSON); err == nil || !strings.Contains(err.Error(), "job.periodic: is only for jobs of type batch or sysbatch, not service, whose children would never end") {
		t.Error(err)
	}
}

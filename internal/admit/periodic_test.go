package admit

import (
	"strings"
	"testing"

	"berth/internal/decode"
)

const periodicJob = `{"ID": "nightly", "Type": "batch", %s, "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "app", "Driver": "raw_exec", "Config": {"command": "/bin/true"}%s}]}]}`

// What cannot be due, and what cannot be dispatched, is said with its place.
func TestFamiliesAreChecked(t *testing.T) {
	for _, c := range []struct{ job, task, want string }{
		{`"Periodic": {"Spec": "0 3 * * *"}`, ``, ``},
		{`"Periodic": {"Specs": ["@daily", "*/5 * * * * * *"], "TimeZone": "Europe/Berlin"}`, ``, ``},
		{`"Periodic": {"Enabled": false}`, ``, ``},
		{`"Periodic": {}`, ``, `job.periodic.crons: is missing; at least one cron expression is wanted, such as "0 3 * * *"`},
		{`"Periodic": {"Spec": "61 * * * *"}`, ``, `job.periodic.cron: "61 * * * *" cannot be read: syntax error in minute field: '61'`},
		{`"Periodic": {"Spec": "* * * * * * * *"}`, ``, `job.periodic.cron: "* * * * * * * *" has 8 fields; allowed are 5 to 7`},
		{`"Periodic": {"Specs": ["0 0 30 2 *"]}`, ``, `job.periodic.crons: "0 0 30 2 *" is never due`},
		{`"Periodic": {"Spec": "@daily", "Specs": ["@daily"]}`, ``, `job.periodic.crons: cron and crons cannot both be given`},
		{`"Periodic": {"Spec": "@daily", "TimeZone": "Europe/Atlantis"}`, ``, `job.periodic.time_zone: "Europe/Atlantis" is not a time zone; one is wanted such as "UTC" or "Europe/Berlin"`},
		{`"Periodic": {"Spec": "@daily", "TimeZone": "Local"}`, ``, `job.periodic.time_zone: "Local" is not the same on every server; name a zone such as "Europe/Berlin"`},
		{`"Periodic": {"Spec": "@daily", "SpecType": "sun"}`, ``, `job.periodic.type: "sun" is not allowed; allowed are cron`},
		{`"Periodic": {"Spec": "@daily"}, "ParameterizedJob": {}`, ``, `job.periodic: is not supported together with parameterized`},
		{`"ParameterizedJob": {}`, `, "DispatchPayload": {"File": "in/input.json"}`, ``},
		{`"ParameterizedJob": {"Payload": "sometimes"}`, ``, `job.parameterized.payload: "sometimes" is not allowed; allowed are optional, required, forbidden`},
		{`"ParameterizedJob": {"MetaRequired": ["a"], "MetaOptional": ["b", "a", ""]}`, ``,
			`job.parameterized.meta_optional: "a" is there twice;   * job.parameterized.meta_optional: a key is empty`},
		{`"ParameterizedJob": {}`, `, "DispatchPayload": {"File": "../../etc/passwd"}`,
			`job.group[g].task[app].dispatch_payload.file: "../../etc/passwd" is not the path of a file below the task's local directory`},
		{`"Priority": 50`, `, "DispatchPayload": {"File": "x"}`, `job.group[g].task[app].dispatch_payload: is for jobs that are parameterized; nothing else has a payload`},
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
	if _, err := DecodeJob(tree, FromJSON); err == nil || !strings.Contains(err.Error(), "job.periodic: is not for jobs of type service, whose children would never end; allowed are batch and sysbatch") {
		t.Error(err)
	}
}

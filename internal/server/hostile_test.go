package server_test

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"berth/internal/invariant"
	"berth/internal/state"
)

// Ten bodies that are no jobs are refused, each with a sentence that names the
// place, and the server serves on as if nothing had been.
func TestBrokenBodies(t *testing.T) {
	r := start(t, t.TempDir())
	body := func(group, task string) string {
		return `{"Job": {"ID": "web", "TaskGroups": [{"Name": "g"` + group + `, "Tasks": [{"Name": "app", "Driver": "raw_exec", "Config": {"command": "/bin/true"}` + task + `}]}]}}`
	}
	deep := func(n int) string {
		return body("", `, "Meta": `+strings.Repeat(`{"a":`, n)+`1`+strings.Repeat(`}`, n))
	}
	before := r.server.Store().Snapshot().Hash()
	for _, c := range []struct {
		name, body string
		code       int
		want       string // a regular expression
	}{
		{"a wrong type", body(`, "Count": "three"`, ""), 400, `^job\.group\[g\]\.count: must be an integer, got "three"`},
		{"a list for an object", body("", `, "Resources": [1]`), 400, `^job\.group\[g\]\.task\[app\]\.resources: must be an object`},
		{"an object for a list", `{"Job": {"ID": "web", "TaskGroups": {"Name": "g"}}}`, 400, `job\.group: must be a list`},
		{"a job that is a text", `{"Job": "web"}`, 400, `^body\.job: must be an object, got "web"`},
		{"an unknown block", body("", `, "Sidecars": {"Name": "x"}`), 400, `^job\.group\[g\]\.task\[app\]\.Sidecars: unknown field`},
		{"an unknown field beside the job", `{"Job": {"ID": "web"}, "Force": true}`, 400, `^body\.Force: unknown field`},
		{"a block that is not built", body(`, "Services": [{"Name": "x", "Provider": "consul"}]`, ""), 400, `job\.group\[g\]\.service`},
		{"a negative count", body(`, "Count": -1`, ""), 400, `job\.group\[g\]\.count: .*-1`},
		{"a huge count", body(`, "Count": 1000000`, ""), 400, `job\.group\[g\]\.count: .*1000000`},
		{"a count beyond all numbers", body(`, "Count": 1e400`, ""), 400, `line 1, column \d+.*out of range`},
		{"a count with a fraction", body(`, "Count": 1.5`, ""), 400, `job\.group\[g\]\.count: `},
		{"ten megabytes", `{"Job": {"ID": "` + strings.Repeat("x", 10<<20) + `"}}`, 413, `^the body is larger than 4194304 bytes$`},
		{"invalid UTF-8", body("", ", \"Meta\": {\"a\": \"\xff\xfe\"}"), 400, `line 1, column \d+ at /Job/TaskGroups/0/Tasks/0/Meta/a.*UTF-8`},
		{"no driver", strings.Replace(body("", ""), "raw_exec", "", 1), 400, `job\.group\[g\]\.task\[app\]\.driver: is missing`},
		{"truncated JSON", body("", "")[:100], 400, `line 1, column \d+.*unexpected end of text`},
		{"a duplicate name", body(`, "Count": 1, "Count": 2`, ""), 400, `line 1, column \d+ at /Job/TaskGroups/0/Count.*duplicate`},
		{"a name in two spellings", body(`, "Count": 1, "count": 2`, ""), 400, `^job\.group\[g\]\.count: is given twice, as "Count" and "count"`},
		{"two jobs", `{"Job": {"ID": "a"}, "job": {"ID": "b"}}`, 400, `^body\.job: is given twice`},
		{"deep nesting", deep(60), 400, `line 1, column \d+.*nested deeper than 64`},
		{"very deep nesting", deep(100_000), 400, `nested deeper than 64`},
		{"wrong content", "job \"web\" {\n  group \"g\" {}\n}\n", 400, `line 1, column 1`},
		{"a list", `[1, 2]`, 400, `must be an object, got a list`},
		{"text after the object", `{"Job": {"ID": "web"}} {}`, 400, `unexpected text after the object`},
		{"nothing", "", 400, `^body\.job: is missing`},
		{"null", "null", 400, `must be an object, got null`},
		{"a job that is null", `{"Job": null}`, 400, `^body\.job: is missing`},
		{"a job of nothing", `{"Job": {}}`, 400, `job\.id`},
		{"another region", strings.Replace(body("", ""), `"ID"`, `"Region": "moon", "ID"`, 1), 400, `^No path to region: "moon"; this is region "global"`},
		{"another namespace", strings.Replace(body("", ""), `"ID"`, `"Namespace": "moon", "ID"`, 1), 400, `job\.namespace: namespace "moon" not found`},
		{"a namespace that is a number", strings.Replace(body("", ""), `"ID"`, `"Namespace": 7, "ID"`, 1), 400, `job\.namespace: .* got 7`},
		{"a priority out of range", strings.Replace(body("", ""), `"Job"`, `"EvalPriority": 101, "Job"`, 1), 400, `^EvalPriority: must be from 1 to 100`},
		{"a flag that is a text", strings.Replace(body("", ""), `"Job"`, `"EnforceIndex": "yes", "Job"`, 1), 400, `^body\.enforce_index: `},
	} {
		for _, path := range []string{"/v1/jobs", "/v1/job/web"} {
			// As a client sends it that knows the length, and as one that does
			// not.
			for _, from := range []io.Reader{strings.NewReader(c.body), struct{ io.Reader }{strings.NewReader(c.body)}} {
				code, h, text := r.send("PUT", path, from)
				if code != c.code || !regexp.MustCompile(c.want).MatchString(text) || len(text) > 2000 || !strings.HasPrefix(h.Get("Content-Type"), "text/plain") {
					t.Errorf("%s to %s: %d %.400s", c.name, path, code, text)
				}
			}
		}
	}
	after := r.server.Store().Snapshot()
	if after.Hash() != before {
		t.Error("a body that was refused has changed the state")
	}
	if v := invariant.Check(after); len(v) > 0 {
		t.Error(v)
	}
	reg, _, err := r.api.Jobs().Register(sleeper("web", 1), nil)
	if err != nil {
		t.Fatal("the server does not serve afterwards: ", err)
	}
	r.settled(reg.EvalID)
}

// Everything wrong with a body is said at once, and no more than a person
// reads.
func TestAllProblemsAtOnce(t *testing.T) {
	r := start(t, t.TempDir())
	code, _, text := r.send("PUT", "/v1/jobs", strings.NewReader(`{"Job": {"ID": "a b\u0000", "Priority": 40000, "Type": "party", "TaskGroups": [{"Name": "g", "Count": -1, "Tasks": [{"Name": "", "Driver": ""}]}]}}`))
	for _, want := range []string{"job.id", "job.priority", "job.type", "job.group[g].count", "driver"} {
		if code != http.StatusBadRequest || !strings.Contains(text, want) {
			t.Errorf("%s is not named: %d %s", want, code, text)
		}
	}
	many := strings.TrimSuffix(strings.Repeat(`{"Name": 1},`, 50_000), ",")
	code, _, text = r.send("PUT", "/v1/jobs", strings.NewReader(`{"Job": {"ID": "a", "TaskGroups": [`+many+`]}}`))
	if code != http.StatusBadRequest || len(text) > 20_000 || !strings.Contains(text, "more problems") {
		t.Errorf("fifty thousand problems: %d, %d bytes, %.200s", code, len(text), text)
	}
}

// Bodies of the other writes are looked at as closely.
func TestBrokenBodiesElsewhere(t *testing.T) {
	r := start(t, t.TempDir())
	for _, c := range []struct {
		path, body string
		code       int
		want       string
	}{
		{"/v1/jobs/parse", `{}`, 400, "JobHCL: is missing: want the text of a job file"},
		{"/v1/jobs/parse", `{"JobHCL": 7}`, 400, "body.job_hcl"},
		{"/v1/jobs/parse", `{"JobHCL": "job \"web\" {"}`, 400, "job:1"},
		{"/v1/jobs/parse", `{"JobHCL": "job \"web\" { priority = var.x }"}`, 400, "job:1"},
		{"/v1/jobs/parse", `{"JobHCL": "job \"web\" { meta = { a = file(\"/etc/passwd\") } }"}`, 400, "file"},
		{"/v1/jobs/parse", `{"JobHCL": "job \"web\" { colour = 1 }", "Variables": "x = "}`, 400, ""},
		{"/v1/jobs/parse", `{"JobHCL": "` + strings.Repeat("x", 5<<20) + `"}`, 413, "larger than 4194304 bytes"},
		{"/v1/validate/job", `{"Job": 1}`, 400, "body.job: must be an object"},
		{"/v1/validate/job", `{"Job": `, 400, "unexpected end of text"},
	} {
		code, _, text := r.send("POST", c.path, strings.NewReader(c.body))
		if code != c.code || !strings.Contains(text, c.want) {
			t.Errorf("%s with %.60s: %d %.300s", c.path, c.body, code, text)
		}
	}
	resp, _, err := r.api.Jobs().Validate(sleeper("web", -3), nil)
	if err != nil || len(resp.ValidationErrors) != 1 || !strings.Contains(resp.ValidationErrors[0], "job.group[g].count") || resp.Error == "" {
		t.Errorf("a job that is not valid: %+v %v", resp, err)
	}
	if resp, _, err = r.api.Jobs().Validate(sleeper("web", 1), nil); err != nil || len(resp.ValidationErrors) != 0 || resp.Error != "" {
		t.Errorf("a job that is: %+v %v", resp, err)
	}
	job, err := r.api.Jobs().ParseHCL("job \"web\" {\n  group \"g\" {\n    task \"app\" {\n      driver = \"raw_exec\"\n      config { command = \"/bin/true\" }\n    }\n  }\n}\n", true)
	if err != nil || *job.ID != "web" || *job.TaskGroups[0].Count != 1 {
		t.Errorf("a job file: %+v %v", job, err)
	}
	if n := r.server.Store().Snapshot().Count(state.Jobs); n != 0 {
		t.Errorf("looking at jobs has made %d", n)
	}
}

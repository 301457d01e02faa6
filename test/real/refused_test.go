package real

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
)

// fine is a job file but for its hole.
const fine = `job "broken" {
  group "g" {
    task "t" {
      driver = "raw_exec"
      config { command = "/bin/true" }
    }
    HOLE
  }
}`

// Job files that are broken end with a sentence that names the place, and the
// agent takes no harm.
func TestBrokenJobFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.agent("one", both)
	a.joined()
	fill := func(hole string) string { return strings.Replace(fine, "HOLE", hole, 1) }
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"wrong type":        {fill(`count = "many"`), []string{`broken.nomad:7,5-10: job.group[g].count: must be an integer, got "many"`}},
		"unknown block":     {fill("netwrk {}"), []string{`broken.nomad:7,5-11: job.group[g].netwrk: unknown block; did you mean "network"?`}},
		"negative count":    {fill("count = -1"), []string{"broken.nomad:7,5-10: job.group[g].count: must be 0 to 50000, got -1"}},
		"huge count":        {fill("count = 1e30"), []string{"broken.nomad:7,5-10: job.group[g].count: "}},
		"cycle of locals":   {"locals {\n  a = local.b\n  b = local.a\n}\n" + fill("count = local.a"), []string{"broken.nomad:2,3-4: local.a: the locals refer to each other in a cycle: local.a → local.b → local.a"}},
		"variable of self":  {"variable \"v\" {\n  default = var.v\n}\n" + fill("count = var.v"), []string{"broken.nomad:2,13-18: variable[v].default: refers to itself: var.v"}},
		"missing variable":  {"variable \"v\" {}\n" + fill("count = var.v"), []string{"broken.nomad:1,1-13: variable[v]: has no value; set it with -var v="}},
		"ten megabytes":     {fill("# " + strings.Repeat("x", 10<<20)), []string{"broken.nomad: ", "at most 1048576 bytes are allowed"}},
		"invalid UTF-8":     {fill("meta { a = \"\xff\" }"), []string{"broken.nomad:7,17: byte 0xff is not UTF-8 text"}},
		"no driver":         {strings.Replace(fill(""), "raw_exec", "", 1), []string{`broken.nomad:4,7-13: job.group[g].task[t].driver: is missing: want the name of a driver, such as docker, exec, `}},
		"unknown setting":   {strings.Replace(fill(""), "command", "comand", 1), []string{"job.group[g].task[t].config.comand: unknown setting of the driver raw_exec; did you mean \"command\"?"}},
		"unbuilt block":     {fill(`consul {}`), []string{"broken.nomad:7,5-11: job.group[g].consul: is not supported"}},
		"duplicate key":     {fill("count = 1\n    count = 2"), []string{"broken.nomad:8,5-10", "count"}},
		"two groups of one": {fill("}\n  group \"g\" {"), []string{"broken.nomad:", "job.group[g]"}},
		"no end":            {"job \"broken\" {\n  group \"g\" {", []string{"broken.nomad:2,13-14: Unclosed configuration block"}},
		"nothing":           {"", []string{"broken.nomad"}},
	} {
		path := w.file("broken.nomad", c.text)
		s := a.berth("job", "run", "broken.nomad")
		if s.Code != 1 || s.Out != "" || !strings.HasPrefix(s.Err, "Error: ") || len(s.Err) > 2000 {
			t.Errorf("%s: %v", name, s)
		}
		for _, want := range c.want {
			if !strings.Contains(s.Err, want) {
				t.Errorf("%s: %q is not in %s", name, want, s.Err)
			}
		}
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
	}
	w.unharmed(a)
}

// unharmed: nothing of what was broken is there, and the agent does its work.
func (w *world) unharmed(a *agent) {
	w.t.Helper()
	var jobs []struct{ ID string }
	if a.get("/v1/jobs", &jobs); len(jobs) != 0 {
		w.t.Errorf("the broken jobs left %v", jobs)
	}
	a.good("job", "run", w.file("fine.nomad", group("batch", "fine", sh("exit 0"))))
	w.until("a job that is fine has ended", func() string {
		if all := a.allocs("fine"); len(all) != 1 || all[0].ClientStatus != "complete" {
			return fmt.Sprint(all)
		}
		return ""
	})
	if !a.Running() {
		w.t.Errorf("the agent has ended:\n%s", a.Said())
	}
}

// Bodies that are broken are answered with 4xx and a sentence that names the
// place.
func TestBrokenBodies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.agent("one", both)
	a.joined()
	const task = `{"Name": "t", "Driver": "raw_exec", "Config": {"command": "/bin/true"}}`
	in := func(group string) string {
		return `{"Job": {"ID": "broken", "TaskGroups": [{"Name": "g", ` + group + ` "Tasks": [` + task + `]}]}}`
	}
	for name, c := range map[string]struct {
		body string
		code int
		want string
	}{
		"wrong type":      {in(`"Count": "many",`), 400, `job.group[g].count: must be an integer, got "many"`},
		"unknown field":   {in(`"Cuont": 1,`), 400, "job.group[g].Cuont: unknown field"},
		"negative count":  {in(`"Count": -1,`), 400, "job.group[g].count: must be 0 to 50000, got -1"},
		"huge count":      {in(`"Count": 1e30,`), 400, "job.group[g].count: must be an integer of at most 64 bits, got 1e30"},
		"many":            {in(`"Count": 50001,`), 400, "job.group[g].count: must be 0 to 50000, got 50001"},
		"an object":       {in(`"Affinities": {"a": "b"},`), 400, "job.group[g].affinity: must be a list, got an object"},
		"ten megabytes":   {in(`"Meta": {"a": "` + strings.Repeat("x", 10<<20) + `"},`), 413, "the body is larger than 4194304 bytes"},
		"invalid UTF-8":   {in("\"Meta\": {\"a\": \"\xff\"},"), 400, "JSON: line 1, column 70 at /Job/TaskGroups/0/Meta/a: invalid UTF-8"},
		"no driver":       {strings.Replace(in(""), "raw_exec", "", 1), 400, `job.group[g].task[t].driver: is missing`},
		"unbuilt block":   {`{"Job": {"ID": "broken", "Multiregion": {}, "TaskGroups": [{"Name": "g", "Tasks": [` + task + `]}]}}`, 400, "job.multiregion: is not supported"},
		"duplicate key":   {in(`"Count": 1, "Count": 2,`), 400, "at /Job/TaskGroups/0/Count: duplicate object member name"},
		"deeper and down": {`{"Job":` + strings.Repeat(`{"a":`, 500_000), 400, "JSON: line 1, column "},
		"deep list":       {strings.Repeat("[", 500_000), 400, "JSON: must be an object, got a list"},
		"the middle":      {`{"Job": {"ID": "broken"`, 400, "JSON: line 1, column 24 at /Job: unexpected end of text"},
		"more":            {in("") + "}", 400, "JSON: line 1, column "},
		"no object":       {`"job"`, 400, "JSON: must be an object, got a string"},
		"no job":          {`{"Job": null}`, 400, "body.job: is missing"},
		"no name":         {`{"Job": {"ID": 5}}`, 400, "job.id: must be a string, got 5"},
	} {
		_, err := a.try("PUT", "/v1/jobs", c.body, nil)
		if no, ok := errors.AsType[*refused](err); !ok || no.code != c.code || !strings.Contains(no.text, c.want) || len(no.text) > 2000 {
			t.Errorf("%s: %v\nwant %d: %s", name, err, c.code, c.want)
		}
	}
	for path, want := range map[string]struct {
		code int
		text string
	}{
		"/v1/nowhere":          {404, "/v1/nowhere"},
		"/v1/job/broken":       {404, "job not found"},
		"/v1/jobs?index=minus": {400, `index: "minus" is not an index`},
		"/v1/jobs?wait=long":   {400, `wait: "long" is not a duration`},
		"/v1/allocation/zz":    {400, `"zz"`},
		"/v1/client/fs/logs/" + strings.Repeat("0", 36):     {400, ""},
		"/v1/job/" + strings.Repeat("x", 5000) + "/nothing": {404, ""},
	} {
		_, err := a.try("GET", path, "", nil)
		if no, ok := errors.AsType[*refused](err); !ok || no.code != want.code || !strings.Contains(no.text, want.text) {
			t.Errorf("GET %.60s: %.300v\nwant %d: %s", path, err, want.code, want.text)
		}
	}
	if _, err := a.try(http.MethodPatch, "/v1/jobs", "", nil); err == nil || !strings.HasPrefix(err.Error(), "405: ") {
		t.Errorf("PATCH: %v", err)
	}
	w.unharmed(a)
}

// Called as nomad, the binary is found where scripts expect it: in NOMAD_ADDR,
// which BERTH_ADDR goes over, and in the first line of its version.
func TestCalledAsNomad(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.agent("one", both)
	a.joined()
	nobody := fmt.Sprintf("http://127.0.0.1:%d", freePort(t))
	job := w.file("job.nomad", group("batch", "job", sh("echo ${attr.nomad.version}; exit 0")))
	at, not := "NOMAD_ADDR="+a.addr, "NOMAD_ADDR="+nobody

	s := w.command("nomad", []string{at}, "job", "run", job)
	if s.Code != 0 {
		t.Errorf("%v", s)
	}
	w.holds(s.Out, "==> ", `Monitoring evaluation "`, `finished with status "complete"`)
	version := w.command("nomad", []string{at}, "version")
	first, _, _ := strings.Cut(version.Out, "\n")
	if number, ok := strings.CutPrefix(first, "Nomad v"); !ok || version.Code != 0 {
		t.Errorf("%v", version)
	} else {
		w.until("the job has said its version", func() string {
			if s := w.command("nomad", []string{at}, "alloc", "logs", "-job", "job"); s.Out != number+"\n" {
				return s.String()
			}
			return ""
		})
	}
	w.holds(w.command("berth", nil, "version").Out, "Berth v")

	for _, c := range []struct {
		name string
		env  []string
		code int
		from string
	}{
		{"nomad", []string{not, "BERTH_ADDR=" + a.addr}, 0, ""},
		{"berth", []string{not, "BERTH_ADDR=" + a.addr}, 0, ""},
		{"berth", []string{at}, 0, ""},
		{"nomad", []string{at, "BERTH_ADDR=" + nobody}, 1, "the address comes from BERTH_ADDR"},
		{"berth", []string{not}, 1, "the address comes from NOMAD_ADDR"},
	} {
		s := w.command(c.name, c.env, "job", "status", "job")
		if s.Code != c.code || !strings.Contains(s.Err, c.from) || c.code != 0 && !strings.Contains(s.Err, nobody) {
			t.Errorf("%s with %v: %v", c.name, c.env, s)
		}
	}
	if s := w.command("nomad", []string{not}, "job", "status", "-address", a.addr, "job"); s.Code != 0 {
		t.Errorf("%v", s)
	}
	w.holds(w.command("nomad", nil, "job", "run").Err, "See: nomad job run -h")
}

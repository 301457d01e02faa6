package server_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"berth"
	"berth/internal/server"

	nomad "github.com/hashicorp/nomad/api"
)

// patientlyReplaced is a job of one instance of which one failure is replaced,
// after an hour.
func patientlyReplaced(id string) *nomad.Job {
	j := takes(id, 1, 3000)
	delay, interval, attempts, unlimited, function := time.Hour, 24*time.Hour, 1, false, "constant"
	j.TaskGroups[0].ReschedulePolicy = &nomad.ReschedulePolicy{
		Delay: &delay, Interval: &interval, Attempts: &attempts, Unlimited: &unlimited, DelayFunction: &function,
	}
	return j
}

// evaluates has a job evaluated and returns the evaluation when it has ended.
func (r *running) evaluates(job string, force bool) *nomad.Evaluation {
	r.t.Helper()
	id, _, err := r.api.Jobs().EvaluateWithOpts(job, nomad.EvalOptions{ForceReschedule: force}, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	return r.becomes(id, "complete")
}

// instances returns how the allocations of a job are wanted and fare, the
// oldest first.
func (r *running) instances(job string) string {
	r.t.Helper()
	list, _, err := r.api.Jobs().Allocations(job, false, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	out := make([]string, len(list))
	for i, a := range list {
		out[len(list)-1-i] = a.DesiredStatus + " " + a.ClientStatus
	}
	return strings.Join(out, ", ")
}

// A user has a job looked at again. What failed waits for its time unless it is
// placed anew by force, and then it is replaced once, when there is room.
func TestRowsOfUsers(t *testing.T) {
	r := start(t, t.TempDir())
	n := r.node(1)
	r.becomes(r.register(patientlyReplaced("web")), "complete")
	id, _, err := r.api.Jobs().ForceEvaluate("web", nil)
	if err != nil {
		t.Fatal(err)
	}
	if e := r.becomes(id, "complete"); e.TriggeredBy != "job-register" || e.JobID != "web" || e.Priority != 50 {
		t.Errorf("%+v", e)
	}
	n.says(berth.ClientFailed)
	r.eval("web", "alloc-failure")
	r.evaluates("web", false)
	if got := r.instances("web"); got != "run failed" {
		t.Errorf("an hour too early: %s", got)
	}

	// Meanwhile the room went to another job; what is placed anew waits for some.
	r.becomes(r.register(takes("other", 1, 2000)), "complete")
	e := r.evaluates("web", true)
	if got := r.instances("web"); e.BlockedEval == "" || got != "stop failed" {
		t.Errorf("without room: %s, %+v", got, e)
	}
	r.node(2)
	r.becomes(e.BlockedEval, "complete")
	if got := r.instances("web"); got != "stop failed, run pending" {
		t.Errorf("with room: %s", got)
	}
	r.evaluates("web", true)
	if got := r.instances("web"); got != "stop failed, run pending" {
		t.Errorf("evaluated once more: %s", got)
	}
}

// The answer is that of a registration; what cannot be evaluated says why.
func TestEvaluateRoute(t *testing.T) {
	r := start(t, t.TempDir())
	r.node(1)
	job := must[*nomad.JobRegisterResponse, *nomad.WriteMeta](t)(r.api.Jobs().Register(sleeper("web", 1), nil))
	for method, body := range map[string]string{
		"PUT":  `{"JobID":"web","EvalOptions":{"ForceReschedule":true},"Namespace":"default"}`,
		"POST": "",
	} {
		code, header, text := r.send(method, "/v1/job/web/evaluate", strings.NewReader(body))
		if code != http.StatusOK || header.Get("X-Nomad-Index") == "" {
			t.Fatalf("%s: %d %s", method, code, text)
		}
		var out nomad.JobRegisterResponse
		if err := json.Unmarshal([]byte(text), &out); err != nil {
			t.Fatal(err)
		}
		e := r.becomes(out.EvalID, "complete")
		if out.EvalCreateIndex != e.CreateIndex || out.JobModifyIndex != job.JobModifyIndex {
			t.Errorf("%s: %+v of %+v", method, out, e)
		}
	}
	for path, want := range map[string]struct {
		body, text string
		code       int
	}{
		"/v1/job/gone/evaluate":                  {"", `job "gone" not found`, http.StatusNotFound},
		"/v1/job/web/evaluate?namespace=nowhere": {"", "not found", http.StatusNotFound},
		"/v1/job/web/evaluate":                   {`{"EvalOptions":{"ForceReschedule":"perhaps"}}`, `force_reschedule: must be true or false, got "perhaps"`, http.StatusBadRequest},
		"/v1/job/web/evaluate?region=other":      {"", `No path to region: "other"`, http.StatusBadRequest},
		"/v1/job/web/evaluate?pretty":            {`[]`, "must be an object", http.StatusBadRequest},
	} {
		if code, _, text := r.send("PUT", path, strings.NewReader(want.body)); code != want.code || !strings.Contains(text, want.text) {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}
}

// The leader says how a new cluster is scheduled, once: an operator's word
// stands, also when the server starts again with another file.
func TestDefaultSchedulerConfig(t *testing.T) {
	dir := t.TempDir()
	with := func(algorithm string) *running {
		t.Helper()
		return startWith(t, dir, func(c *server.Config) {
			c.Scheduler = &berth.SchedulerConfig{SchedulerAlgorithm: algorithm, MemoryOversubscriptionEnabled: true}
		})
	}
	read := func(r *running) *nomad.SchedulerConfiguration {
		t.Helper()
		got, _, err := r.api.Operator().SchedulerGetConfiguration(nil)
		if err != nil {
			t.Fatal(err)
		}
		return got.SchedulerConfig
	}
	r := with("spread")
	first := read(r)
	if first.SchedulerAlgorithm != "spread" || !first.MemoryOversubscriptionEnabled || first.PreemptionConfig != (nomad.PreemptionConfig{}) || first.ModifyIndex == 0 {
		t.Errorf("%+v", first)
	}
	r.stop()
	r = with("balanced")
	if got := read(r); *got != *first {
		t.Errorf("after a restart with another file: %+v, before %+v", got, first)
	}
	if _, _, err := r.api.Operator().SchedulerSetConfiguration(&nomad.SchedulerConfiguration{SchedulerAlgorithm: "binpack"}, nil); err != nil {
		t.Fatal(err)
	}
	said := read(r)
	r.stop()
	if got := read(with("spread")); *got != *said || got.SchedulerAlgorithm != "binpack" || got.MemoryOversubscriptionEnabled {
		t.Errorf("%+v; the operator said %+v", got, said)
	}
}

package server_test

import (
	"encoding/json"
	"strings"
	"testing"

	"berth/op"

	nomad "github.com/hashicorp/nomad/api"
)

// get reads an answer that Nomad's client has no call for.
func get[T any](r *running, path string) (out T) {
	r.t.Helper()
	code, _, body := r.send("GET", path, nil)
	if code != 200 {
		r.t.Fatalf("GET %s: %d %s", path, code, body)
	}
	if err := json.Unmarshal([]byte(body), &out); err != nil {
		r.t.Fatalf("GET %s: %v", path, err)
	}
	return out
}

// The lineage of a job's evaluations and the answer to "why?", as programs read
// them.
func TestLineageAndExplanation(t *testing.T) {
	r := start(t, t.TempDir())
	reg, _, err := r.api.Jobs().Register(sleeper("web", 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	first := r.settled(reg.EvalID)
	full, _, err := r.api.Evaluations().Info(first.ID, &nomad.QueryOptions{Params: map[string]string{"related": "true"}})
	if err != nil || len(full.RelatedEvals) != 1 || full.RelatedEvals[0].ID != first.BlockedEval || full.RelatedEvals[0].Status != "blocked" {
		t.Errorf("related to the first are %+v, %v", full, err)
	}
	back, _, err := r.api.Evaluations().Info(first.BlockedEval, &nomad.QueryOptions{Params: map[string]string{"related": "true"}})
	if err != nil || len(back.RelatedEvals) != 1 || back.RelatedEvals[0].ID != first.ID {
		t.Errorf("related to the blocked one are %+v, %v", back, err)
	}
	if e := get[op.Eval](r, "/v1/evaluation/"+first.ID); e.RelatedEvals != nil { // the Go client always asks for them
		t.Errorf("nobody asked for %v", e.RelatedEvals)
	}

	tree := get[op.Trace](r, "/v1/job/web/trace")
	if len(tree.Evals) != 2 || tree.Evals[1].Depth != 1 || tree.Evals[1].Parent != tree.Evals[0].ID || tree.Evals[1].Link != "previous" || tree.JobStatus != "pending" {
		t.Errorf("the trace is %+v", tree)
	}
	same := get[op.Trace](r, "/v1/evaluation/"+first.BlockedEval+"/trace")
	if len(same.Evals) != 2 || same.Evals[0].ID != tree.Evals[0].ID || same.JobUID != tree.JobUID {
		t.Errorf("from the blocked evaluation the trace is %+v", same)
	}

	why := get[op.Explanation](r, "/v1/job/web/explain")
	if why.Verdict != op.WhyRoom || len(why.Groups) != 1 || len(why.Groups[0].Changes) == 0 || why.Groups[0].Changes[0].Nodes == nil || !strings.Contains(why.Summary, "one more node") {
		t.Errorf("without a node: %+v", why)
	}
	if e := get[op.Explanation](r, "/v1/evaluation/"+first.BlockedEval+"/explain"); e.Verdict != op.WhyRoom || e.EvalID.String() != first.BlockedEval {
		t.Errorf("the blocked evaluation: %+v", e)
	}
	for _, path := range []string{"/v1/job/none/trace", "/v1/job/none/explain", "/v1/evaluation/" + strings.Repeat("0", 8) + "-0000-0000-0000-000000000001/trace"} {
		if code, _, body := r.send("GET", path, nil); code != 404 || !strings.Contains(string(body), "not found") {
			t.Errorf("GET %s: %d %s", path, code, body)
		}
	}

	// A purge takes the job, not its story.
	if _, _, err := r.api.Jobs().Deregister("web", true, nil); err != nil {
		t.Fatal(err)
	}
	if tree := get[op.Trace](r, "/v1/evaluation/"+first.ID+"/trace"); len(tree.Evals) != 3 || tree.JobStatus != "" {
		t.Errorf("after the purge the trace is %+v", tree)
	}
	if why := get[op.Explanation](r, "/v1/job/web/explain"); why.Verdict != op.WhyPurged {
		t.Errorf("after the purge: %+v", why)
	}
}

// Where an evaluation is shows in every list, and its times are counted when it
// has ended.
func TestTimesAreCounted(t *testing.T) {
	r := start(t, t.TempDir())
	reg, _, err := r.api.Jobs().Register(sleeper("web", 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	first := r.settled(reg.EvalID)
	var e op.Eval
	r.until("it is acknowledged", func() bool {
		e = get[op.Eval](r, "/v1/evaluation/"+first.ID)
		return e.Timeline.Acked > 0
	})
	l := e.Timeline
	if e.CreateTime > l.Enqueued || l.Enqueued > l.Dequeued || l.Dequeued > l.Planned || l.Planned > l.Applied || l.Applied > l.Acked {
		t.Errorf("times out of order: %d %+v", e.CreateTime, l)
	}
	for _, path := range []string{"/v1/evaluations", "/v1/job/web/evaluations"} {
		if list := get[[]op.Eval](r, path); len(list) != 2 || list[0].Timeline.Acked+list[1].Timeline.Acked != l.Acked {
			t.Errorf("%s: %+v", path, list)
		}
	}
	text, err := r.api.Operator().Metrics(&nomad.QueryOptions{Params: map[string]string{"format": "prometheus"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"created-enqueued", "enqueued-dequeued", "dequeued-planned", "planned-applied", "applied-acked"} {
		if want := `nomad_nomad_eval_interval_seconds_count{interval="` + part + `"} 1`; !strings.Contains(string(text), want+"\n") {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	summary, _, err := r.api.Operator().MetricsSummary(nil)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, s := range summary.Samples {
		if s.Name != "nomad.nomad.eval.interval" {
			continue
		}
		if n++; s.Count != 1 || s.Mean != s.Sum || s.Min != s.Max || s.DisplayLabels["interval"] == "" {
			t.Errorf("sample %+v", s)
		}
	}
	if n != 5 {
		t.Errorf("%d samples", n)
	}
}

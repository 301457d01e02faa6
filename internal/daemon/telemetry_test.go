package daemon

import (
	"compress/gzip"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
)

// span is one of those that a collector of OpenTelemetry gets.
type span struct {
	TraceID, SpanID, ParentSpanID, Name string
	Attributes                          []struct {
		Key   string
		Value struct{ StringValue string }
	}
}

// The trace of a job reaches a collector: from the request to the start of its
// task, one chain of spans below the first, under the ID of the evaluation.
func TestTraceOfAJob(t *testing.T) {
	got := make(chan span, 1000)
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			ResourceSpans []struct {
				ScopeSpans []struct{ Spans []span }
			}
		}
		zip, err := gzip.NewReader(r.Body)
		if err == nil {
			err = json.NewDecoder(zip).Decode(&body)
		}
		if err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", r.URL, err)
			return
		}
		for _, s := range body.ResourceSpans[0].ScopeSpans[0].Spans {
			got <- s
		}
	}))
	defer collector.Close()
	s := startAgent(t, "name = \"n1\"\nclient { network_interface = \"lo\" }\ntelemetry { traces { address = \""+collector.URL+"\" } }\n")
	job := nomad.NewServiceJob("web", "web", "global", 50).AddDatacenter("dc1")
	task := nomad.NewTask("app", "mock_driver").SetConfig("run_for", "1h")
	job.AddTaskGroup(nomad.NewTaskGroup("front", 1).AddTask(task))
	out, _, err := s.api.Jobs().Register(job, nil)
	if err != nil {
		t.Fatal(err)
	}
	trace := strings.ReplaceAll(out.EvalID, "-", "")
	spans, byID := map[string]span{}, map[string]span{}
	want := []string{"job.register", "raft apply", "evaluation wait", "scheduling", "plan", "allocation", "allocation received", "task start"}
	for len(spans) < len(want) {
		if x := <-got; x.TraceID == trace {
			spans[x.Name], byID[x.SpanID] = x, x
		}
	}
	for _, name := range want {
		x, ok := spans[name]
		if !ok {
			t.Errorf("there is no span %q", name)
			continue
		}
		for x.ParentSpanID != "" {
			if x = byID[x.ParentSpanID]; x.SpanID == "" {
				t.Errorf("the span above %q is missing", name)
				break
			}
		}
		if x.Name != "job.register" {
			t.Errorf("%q is below %q", name, x.Name)
		}
	}
	if a := spans["task start"].Attributes; len(a) != 1 || a[0].Value.StringValue != "app" {
		t.Errorf("%+v", a)
	}
}

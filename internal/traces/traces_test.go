package traces

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"berth"
)

var (
	first  = berth.EvalID{1}
	second = berth.EvalID{2}
)

// show lists spans with times in units of a second.
func show(spans []Span) string {
	var b strings.Builder
	for _, s := range spans {
		fmt.Fprintf(&b, "%s %d-%d", s.Name, s.Start/1e9, s.End/1e9)
		if s.Parent == (SpanID{}) {
			b.WriteString(" root")
		}
		if s.Failed != "" {
			b.WriteString(": " + s.Failed)
		}
		b.WriteString("\n")
	}
	return b.String()
}

const oneSecond = int64(time.Second)

// The times that the state has of an evaluation and an allocation become spans
// that hang together.
func TestSpans(t *testing.T) {
	e := &berth.Eval{
		ID: first, TriggeredBy: berth.TriggerJobRegister, JobID: "web", Namespace: "default", Status: berth.EvalComplete, CreateTime: 10 * oneSecond, ModifyTime: 17 * oneSecond,
		Cause:    berth.Cause{Kind: berth.CauseUser, Request: &berth.Request{Op: "job.register", Token: "secret"}},
		Timeline: berth.Timeline{Enqueued: 11 * oneSecond, Dequeued: 13 * oneSecond, Planned: 15 * oneSecond, Applied: 16 * oneSecond, Deliveries: 1},
	}
	spans := Eval(e, 18*oneSecond, Chain{First: first})
	if got, want := show(spans), "job.register 10-18 root\nraft apply 10-11\nevaluation wait 11-13\nscheduling 13-15\nplan 15-18\n"; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	for _, s := range spans[1:] {
		if s.Parent != spans[0].ID || s.Trace != first || s.ID == spans[0].ID {
			t.Errorf("%+v", s)
		}
	}
	if fmt.Sprint(spans) != fmt.Sprint(Eval(e, 18*oneSecond, Chain{First: first})) || strings.Contains(fmt.Sprint(spans), "secret") {
		t.Error("spans differ from time to time, or show a token")
	}

	// One that follows it, that had to wait until it was due, and that failed.
	f := &berth.Eval{
		ID: second, TriggeredBy: berth.TriggerFailedFollowUp, Status: berth.EvalFailed, StatusDescription: "no", CreateTime: 20 * oneSecond, ModifyTime: 40 * oneSecond, WaitUntil: 30 * oneSecond,
		Timeline: berth.Timeline{Enqueued: 21 * oneSecond, Dequeued: 33 * oneSecond},
	}
	spans = Eval(f, 0, Chain{First: first, Before: first})
	if got, want := show(spans), "failed-follow-up 20-40: no\nraft apply 20-21\ndelay 21-30\nevaluation wait 30-33\n"; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if spans[0].Parent != ofEval(first) || spans[0].Trace != first {
		t.Errorf("%+v", spans[0])
	}
	// Times that are not known make no spans.
	if got := show(Eval(&berth.Eval{ID: second, CreateTime: oneSecond, Status: berth.EvalCanceled}, 0, Chain{First: second})); strings.Count(got, "\n") != 1 {
		t.Error(got)
	}

	a := &berth.Alloc{ID: berth.AllocID{3}, EvalID: first, Client: berth.ClientRunning, CreateTime: 16 * oneSecond, Job: &berth.Job{ID: "web", Namespace: "default"}, Group: &berth.TaskGroup{Name: "g"}}
	tasks := map[string]*berth.TaskState{
		"app":  {StartedAt: time.Unix(25, 0), Events: []berth.TaskEvent{{Type: berth.EventReceived, Time: 17 * oneSecond}}},
		"init": {Failed: true, FinishedAt: time.Unix(19, 0), Events: []berth.TaskEvent{{Type: berth.EventReceived, Time: 15 * oneSecond}}}, // by another clock
		"late": {},
	}
	spans = Alloc(a, tasks, "n1", first)
	if got, want := show(spans), "allocation 16-25\nallocation received 16-17\ntask start 17-25\ntask start 16-19: the task failed\n"; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if spans[0].Parent != ofEval(first) {
		t.Errorf("%+v", spans[0])
	}
}

// collector is a collector of OpenTelemetry.
type collector struct {
	*httptest.Server
	got chan jsonBody
}

func newCollector(t *testing.T, status func() int) *collector {
	c := &collector{got: make(chan jsonBody, 100)}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		zip, err := gzip.NewReader(r.Body)
		if err != nil {
			t.Error(err)
			return
		}
		var b jsonBody
		if err := json.NewDecoder(zip).Decode(&b); err != nil || r.URL.Path != "/v1/traces" || r.Header.Get("X-Key") != "k" {
			t.Errorf("%s %v: %v", r.URL, r.Header, err)
		}
		w.WriteHeader(status())
		c.got <- b
	}))
	t.Cleanup(c.Close)
	return c
}

// Spans reach a collector; those of requests that it refuses are lost, and those
// that wait when the exporter ends are sent.
func TestExport(t *testing.T) {
	answers := make(chan int, 3)
	for _, a := range []int{200, 503, 200} {
		answers <- a
	}
	c := newCollector(t, func() int { return <-answers })
	x, err := New(Config{Address: c.URL, Headers: map[string]string{"X-Key": "k"}, Sample: 1, Resource: map[string]string{"service.name": "berth"}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { x.Run(ctx); close(ended) }()
	one := func(name string) {
		x.Add([]Span{{Trace: first, ID: SpanID{9}, Parent: SpanID{8}, Name: name, Start: 1, End: 2, Failed: "no", Attributes: map[string]string{"b": "2", "a": "1"}}})
	}
	one("one")
	b, err := json.Marshal(<-c.got)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"berth"}}]},"scopeSpans":[{"scope":{"name":"berth"},"spans":[` +
		`{"traceId":"01000000000000000000000000000000","spanId":"0900000000000000","parentSpanId":"0800000000000000","name":"one","kind":1,"startTimeUnixNano":"1","endTimeUnixNano":"2",` +
		`"attributes":[{"key":"a","value":{"stringValue":"1"}},{"key":"b","value":{"stringValue":"2"}}],"status":{"message":"no","code":2}}]}]}]}`
	if string(b) != want {
		t.Errorf("%s\nwant\n%s", b, want)
	}
	one("two") // is refused
	<-c.got
	one("three")
	cancel()
	<-ended
	if got := <-c.got; got.ResourceSpans[0].ScopeSpans[0].Spans[0].Name != "three" || x.lost.Load() != 1 {
		t.Errorf("%+v, %d lost", got, x.lost.Load())
	}
}

// Nobody waits for a collector that takes nothing.
func TestAddNeverWaits(t *testing.T) {
	x, err := New(Config{Address: "http://127.0.0.1:1", Sample: 1, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for range mostWaiting + 10 {
		x.Add([]Span{{Trace: first}})
	}
	if x.lost.Load() != 10 {
		t.Errorf("%d lost", x.lost.Load())
	}
}

// A share of the traces is sent, and always the same ones.
func TestSample(t *testing.T) {
	n := 0
	for i := range 10_000 {
		id := berth.EvalID{byte(i), byte(i >> 8)}
		if sampled(id, 0.25) {
			n++
			if !sampled(id, 0.5) || !sampled(id, 1) {
				t.Fatal(id)
			}
		}
	}
	if n < 2200 || n > 2800 {
		t.Errorf("%d of 10000", n)
	}
}

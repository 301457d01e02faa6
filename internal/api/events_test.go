package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth"
	"berth/internal/acl"
	"berth/internal/api"
	"berth/internal/events"
	_ "berth/internal/onethread"
	"berth/internal/state"
	"berth/internal/state/statetest"
	"berth/op"
)

// sink is an answer that grows while the test looks at it.
type sink struct {
	mu     sync.Mutex
	header http.Header
	code   int
	body   strings.Builder
	hold   chan struct{} // if set, writing waits until it is closed
}

func (s *sink) Header() http.Header { return s.header }
func (s *sink) WriteHeader(code int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.code = code
}
func (s *sink) Flush() {}
func (s *sink) Write(b []byte) (int, error) {
	if s.hold != nil {
		<-s.hold
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.body.Write(b)
}

// lines returns what was written so far.
func (s *sink) lines() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Split(strings.TrimSuffix(s.body.String(), "\n"), "\n")
}

// stream is an API whose events are kept, and a way to subscribe to them.
type stream struct {
	*api.Server
	*statetest.Log
	t *testing.T
}

// streaming runs a test in virtual time, with a node and a job in the state.
func streaming(t *testing.T, limits events.Limits, authorize func(api.Caller, acl.Capability, string) error, test func(x *stream)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var buffer *events.Buffer
		s, log := serve(t, func(c *api.Config) {
			buffer = events.New(c.Store, limits)
			c.Events, c.Authorize = buffer, authorize
		})
		ended := make(chan error)
		go func() { ended <- buffer.Run(ctx) }()
		log.Must(t, statetest.AddNode(1, 4000, 4000), small(t, "web", 1))
		synctest.Wait()
		test(&stream{s, log, t})
		cancel()
		<-ended
	})
}

// ask subscribes; stop ends that.
func (x *stream) ask(query string, change ...func(*sink)) (out *sink, stop func()) {
	ctx, cancel := context.WithCancel(x.t.Context())
	out = &sink{header: http.Header{}}
	for _, f := range change {
		f(out)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		r := httptest.NewRequest("GET", "/v1/event/stream?"+query, nil).WithContext(ctx)
		r.RemoteAddr = "127.0.0.1:1"
		x.ServeHTTP(out, r)
	}()
	synctest.Wait()
	return out, func() { cancel(); <-done }
}

// The wire: one object a command, its events as Nomad names them, the rows as
// the API shows them; and a heartbeat where nothing happens for 10 s.
func TestTheEventStream(t *testing.T) {
	streaming(t, events.Limits{}, nil, func(x *stream) {
		out, stop := x.ask("")
		defer stop()
		list := out.lines()
		if len(list) != 2 || out.code != 200 || out.header.Get("Content-Type") != "application/json" {
			t.Fatalf("%d %v %q", out.code, out.header, list)
		}
		var node, job op.Events
		for i, v := range []*op.Events{&node, &job} {
			d := json.NewDecoder(strings.NewReader(list[i]))
			d.DisallowUnknownFields()
			if err := d.Decode(v); err != nil {
				t.Fatal(err)
			}
		}
		n := node.Events[0]
		if node.Index != 2 || len(node.Events) != 1 || n.Topic != "Node" || n.Type != "NodeRegistration" || n.Key != n.Payload.Node.ID.String() ||
			n.Index != 2 || n.Namespace != "" || n.Payload.Node.Name != "n1" || n.Payload.Deleted || strings.Contains(list[0], "secret-1") {
			t.Errorf("%s", list[0])
		}
		j, e := job.Events[0], job.Events[1]
		if job.Index != 3 || len(job.Events) != 2 || j.Topic != "Job" || j.Key != "web" || j.Namespace != "default" || j.Payload.Job.Status != "pending" ||
			j.Payload.Job.UID == "" || e.Topic != "Evaluation" || e.Payload.Evaluation.JobID != "web" || e.Payload.Evaluation.TriggeredBy != "job-register" ||
			!slices.Equal(e.FilterKeys, []string{"web"}) || e.Payload.Job != nil {
			t.Errorf("%s", list[1])
		}

		time.Sleep(9 * time.Second)
		x.Must(t, &state.AddNodeEvents{ID: statetest.ID[berth.Node](1), Events: []berth.NodeEvent{{Message: "<hot>"}}})
		synctest.Wait()
		if list = out.lines(); len(list) != 3 || !strings.HasPrefix(list[2], `{"Index":4,"Events":[{"Topic":"Node","Type":"NodeEvent",`) || !strings.Contains(list[2], "<hot>") {
			t.Fatalf("%q", list[2:])
		}
		time.Sleep(10*time.Second - 1)
		synctest.Wait()
		if len(out.lines()) != 3 {
			t.Error("a heartbeat came early")
		}
		time.Sleep(10*time.Second + 2)
		synctest.Wait()
		if list = out.lines(); !slices.Equal(list[3:], []string{"{}", "{}"}) {
			t.Errorf("%q", list[3:])
		}
	})
}

// An event of no interest is no reason to be silent for longer.
func TestHeartbeatsBesideOthersEvents(t *testing.T) {
	streaming(t, events.Limits{}, nil, func(x *stream) {
		out, stop := x.ask("topic=Deployment&namespace=*")
		defer stop()
		for range 25 {
			time.Sleep(time.Second)
			x.Must(t, &state.AddNodeEvents{ID: statetest.ID[berth.Node](1), Events: []berth.NodeEvent{{Message: "x"}}})
		}
		synctest.Wait()
		if list := out.lines(); !slices.Equal(list, []string{"{}", "{}"}) {
			t.Errorf("%q", list)
		}
	})
}

// indexes returns the indexes of the objects, and the events as topic and key.
func indexes(t *testing.T, list []string) (out []uint64) {
	t.Helper()
	for _, text := range list {
		var v op.Events
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if v.Index > 0 {
			out = append(out, v.Index)
		}
	}
	return out
}

// A subscriber goes on where he stopped, and is told if that is gone.
func TestResume(t *testing.T) {
	streaming(t, events.Limits{Sets: 3}, nil, func(x *stream) {
		for range 4 { // indexes 4 to 7
			x.Must(t, &state.AddNodeEvents{ID: statetest.ID[berth.Node](1), Events: []berth.NodeEvent{{Message: "x"}}})
		}
		synctest.Wait()
		for index, want := range map[uint64][]uint64{0: {5, 6, 7}, 5: {5, 6, 7}, 6: {6, 7}, 7: {7}, 8: nil, 1 << 60: nil} {
			out, stop := x.ask(fmt.Sprint("topic=Node&index=", index))
			if got := indexes(t, slices.DeleteFunc(out.lines(), func(s string) bool { return s == "" })); !slices.Equal(got, want) {
				t.Errorf("from %d: %v; wanted are %v", index, got, want)
			}
			stop()
		}
		out, stop := x.ask("index=4")
		defer stop()
		const want = `{"Error":"cannot read events from index 4: those before index 5 are gone","Oldest":5,` +
			`"Err":"cannot read events from index 4: those before index 5 are gone"}`
		if list := out.lines(); !slices.Equal(list, []string{want}) {
			t.Errorf("%q", list)
		}
	})
}

// Who does not take what he asked for is dropped, and told so if he still
// listens; commits go on meanwhile.
func TestASubscriberThatStalls(t *testing.T) {
	streaming(t, events.Limits{Sets: 3}, nil, func(x *stream) {
		hold := make(chan struct{})
		out, stop := x.ask("topic=Node", func(s *sink) { s.hold = hold })
		defer stop()
		for range 10 {
			x.Must(t, &state.AddNodeEvents{ID: statetest.ID[berth.Node](1), Events: []berth.NodeEvent{{Message: "x"}}})
		}
		synctest.Wait()
		close(hold)
		synctest.Wait()
		list := out.lines()
		if last := list[len(list)-1]; len(list) != 2 || !strings.HasPrefix(list[0], `{"Index":2,`) || !strings.Contains(last, `{"Error":"this reader fell behind`) {
			t.Errorf("%q", list)
		}
	})
}

// A caller gets what he has the right to see, event by event, and a right that
// is taken from him is gone at once.
func TestRightsToEvents(t *testing.T) {
	var mu sync.Mutex
	held := map[string]bool{}
	grant := func(list ...string) {
		mu.Lock()
		defer mu.Unlock()
		clear(held)
		for _, s := range list {
			held[s] = true
		}
	}
	authorize := func(_ api.Caller, c acl.Capability, ns string) error {
		mu.Lock()
		defer mu.Unlock()
		if held[strings.TrimSpace(string(c)+" "+ns)] {
			return nil
		}
		return berth.Errorf(berth.Denied, "Permission denied")
	}
	streaming(t, events.Limits{}, authorize, func(x *stream) {
		for _, c := range []struct {
			held  []string
			query string
			want  []uint64 // nil: refused
		}{
			{nil, "", nil},
			{nil, "namespace=*", nil},
			{nil, "topic=Node", nil},
			{nil, "topic=Job:web&namespace=*", nil},
			{[]string{"node:read"}, "topic=Node", []uint64{2}},
			{[]string{"node:read"}, "topic=Node&namespace=*", []uint64{2}},
			{[]string{"node:read"}, "topic=Node&topic=Job", nil},
			{[]string{"read-job default"}, "topic=Node&topic=Job", nil},
			{[]string{"read-job default"}, "topic=Job", []uint64{3}},
			{[]string{"read-job default"}, "topic=Job&namespace=other", nil},
			{[]string{"read-job default"}, "", []uint64{3}},
			{[]string{"read-job default"}, "namespace=*", []uint64{3}},
			{[]string{"read-job default", "node:read"}, "topic=*:*&namespace=*", []uint64{2, 3}},
		} {
			grant(c.held...)
			out, stop := x.ask(c.query)
			if c.want == nil {
				if out.code != http.StatusForbidden || out.body.String() != "Permission denied" {
					t.Errorf("%v asks for %q: %d %s", c.held, c.query, out.code, out.body.String())
				}
			} else if got := indexes(t, out.lines()); !slices.Equal(got, c.want) {
				t.Errorf("%v asks for %q: %v; wanted are %v", c.held, c.query, got, c.want)
			}
			stop()
		}
		grant("read-job default", "node:read")
		out, stop := x.ask("")
		defer stop()
		grant("node:read")
		x.Must(t, small(t, "new", 7))
		x.Must(t, &state.AddNodeEvents{ID: statetest.ID[berth.Node](1), Events: []berth.NodeEvent{{Message: "x"}}})
		synctest.Wait()
		if got := indexes(t, out.lines()); !slices.Equal(got, []uint64{2, 3, 5}) {
			t.Errorf("without the right any more: %v", got)
		}
	})
}

// A node's event has the volumes of its configuration only: dynamic ones belong to
// namespaces that a reader of nodes may not see.
func TestEventsOfNodesHideVolumesOfNamespaces(t *testing.T) {
	streaming(t, events.Limits{}, nil, func(x *stream) {
		out, stop := x.ask("topic=Node")
		defer stop()
		x.Must(t, statetest.AddNode(1, 4000, 4000, func(n *berth.Node) {
			n.HostVolumes = map[string]berth.HostVolumeInfo{"of-all": {Path: "/srv"}, "of-team": {ID: "a-volume", Path: "/volumes/a-volume"}}
		}))
		synctest.Wait()
		list := out.lines()
		if last := list[len(list)-1]; !strings.Contains(last, "/srv") || strings.Contains(last, "of-team") || strings.Contains(last, "a-volume") {
			t.Errorf("the event is %s", last)
		}
	})
}

// Without rows, an event says what changed and no more.
func TestEventsWithoutRows(t *testing.T) {
	streaming(t, events.Limits{}, nil, func(x *stream) {
		out, stop := x.ask("topic=Job&payload=false")
		defer stop()
		const want = `{"Index":3,"Events":[{"Topic":"Job","Type":"JobRegistered","Key":"web","Namespace":"default","FilterKeys":[],"Index":3}]}`
		if list := out.lines(); !slices.Equal(list, []string{want}) {
			t.Errorf("got %q; want %q", list, want)
		}
		all, stopAll := x.ask("topic=Job&payload=true")
		defer stopAll()
		if list := all.lines(); len(list) != 1 || !strings.Contains(list[0], `"Payload":{"Job":{`) {
			t.Errorf("with rows: %q", list)
		}
	})
}

// A digest sends the newest event of each topic that was asked for: the first at
// once, later ones when the time has passed, and a heartbeat where there is none.
func TestADigestOfEvents(t *testing.T) {
	streaming(t, events.Limits{}, nil, func(x *stream) {
		out, stop := x.ask("topic=Job:web&topic=Job&topic=Node&payload=false&every=250ms")
		defer stop()
		sent := 0
		next := func(what string, want ...string) {
			t.Helper()
			synctest.Wait()
			list := out.lines()[sent:]
			sent += len(list)
			var got []string
			for _, line := range list {
				var o struct {
					Index  uint64
					Events []op.EventHead
				}
				if err := json.Unmarshal([]byte(line), &o); err != nil {
					t.Fatalf("%s: %q: %v", what, line, err)
				}
				text := fmt.Sprint(o.Index)
				for _, e := range o.Events {
					text += fmt.Sprintf(" %s:%s@%d", e.Topic, e.Key, e.Index)
				}
				got = append(got, text)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: got %q; want %q", what, got, want)
			}
		}
		node := statetest.ID[berth.Node](1).String()
		next("at once: what there was", "3 Job:web@3 Node:"+node+"@2")
		x.Must(t, small(t, "api", 4))
		x.Must(t, small(t, "web", 5))
		x.Must(t, small(t, "api", 6))
		time.Sleep(249 * time.Millisecond)
		next("before the time has passed")
		time.Sleep(time.Millisecond)
		next("then the newest of each", "6 Job:web@5 Job:api@6")
		time.Sleep(250 * time.Millisecond)
		next("nothing happens")
		x.Must(t, small(t, "web", 7))
		next("at once again, and once for both topics", "7 Job:web@7")
		time.Sleep(250*time.Millisecond + 10*time.Second)
		next("a heartbeat", "0")
	})
}

// What is asked for wrongly is refused by name; HEAD does not wait; what needs
// a buffer says so where there is none.
func TestBadSubscriptions(t *testing.T) {
	streaming(t, events.Limits{}, nil, func(x *stream) {
		for query, want := range map[string]string{
			"topic=Volume":              `topic: unknown topic "Volume": want *, Job, Evaluation, Allocation, Deployment, Node, NodePool, Service, Resource, HostVolume, CSIVolume, CSIPlugin, ACLToken, ACLPolicy, ACLRole, ACLAuthMethod, ACLBindingRule, Variable or Operator`,
			"topic=Job&topic=no":        `topic: unknown topic "no"`,
			"index=-1":                  `"-1" is not an index`,
			"region=mars":               `No path to region: "mars"`,
			"payload=no":                `payload: must be true or false, got "no"`,
			"every=1s":                  `every: needs payload=false`,
			"payload=false&every=11s":   `every: must be a duration above 0 and at most 10s, such as 250ms, got "11s"`,
			"payload=false&every=-1s":   `got "-1s"`,
			"payload=false&every=often": `got "often"`,
		} {
			out, stop := x.ask(query)
			if out.code != http.StatusBadRequest || !strings.Contains(out.body.String(), want) {
				t.Errorf("%s: %d %s", query, out.code, out.body.String())
			}
			stop()
		}
		if w := ask(x.Server, "HEAD", "/v1/event/stream", ""); w.Code != 200 || w.Body.Len() > 0 {
			t.Errorf("HEAD: %d %s", w.Code, w.Body)
		}
		if w := ask(x.Server, "PUT", "/v1/event/stream", ""); w.Code != http.StatusMethodNotAllowed {
			t.Errorf("PUT: %d", w.Code)
		}
	})
	s, _ := serve(t, nil)
	if w := ask(s, "GET", "/v1/event/stream", ""); w.Code != http.StatusServiceUnavailable {
		t.Errorf("without a buffer: %d %s", w.Code, w.Body)
	}
}

// A subscription is a wait, of which each caller has so many; and it ends with
// the buffer.
func TestSubscriptionsAreWaits(t *testing.T) {
	streaming(t, events.Limits{}, nil, func(x *stream) {
		var stops []func()
		for range 1000 {
			_, stop := x.ask("topic=Job:none")
			stops = append(stops, stop)
		}
		out, stop := x.ask("topic=Job")
		if out.code != http.StatusTooManyRequests {
			t.Errorf("one too many: %d %s", out.code, out.body.String())
		}
		stop()
		stops[0]()
		out, stop = x.ask("topic=Job")
		if out.code != 200 {
			t.Errorf("one left, one came: %d", out.code)
		}
		for _, stop := range append(stops[1:], stop) {
			stop()
		}
	})
}

// The stream of a server over HTTP ends when the server does.
func TestTheStreamEndsWithTheServer(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var buffer *events.Buffer
	s, _ := serve(t, func(c *api.Config) {
		buffer = events.New(c.Store, events.Limits{})
		c.Events = buffer
	}, statetest.AddNode(1, 1, 1))
	ended := make(chan error, 1)
	go func() { ended <- buffer.Run(ctx) }()
	web := httptest.NewServer(s)
	defer web.Close()
	answer, err := http.Get(web.URL + "/v1/event/stream?topic=Job")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	cancel()
	<-ended
	if rest, err := io.ReadAll(bufio.NewReader(answer.Body)); err != nil || len(rest) > 0 {
		t.Errorf("%q %v", rest, err)
	}
}

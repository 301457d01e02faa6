package api_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"berth"
	"berth/internal/acl"
	"berth/internal/api"
	"berth/internal/state"
	"berth/internal/state/statetest"
	"berth/op"
)

// leader is a term whose log is in memory.
type leader struct{ *statetest.Log }

func (leader) RenewLock(berth.VariableKey, berth.LockID) bool { return true }
func (leader) Turn(berth.AllocID, string) op.TurnAnswer       { return op.TurnAnswer{Given: true} }

func (leader) Beat(context.Context, berth.NodeID) (time.Duration, error) {
	return 10 * time.Second, nil
}
func (leader) Sync(context.Context, time.Duration) error   { return nil }
func (leader) Writable() error                             { return nil }
func (leader) Confirm(context.Context) error               { return nil }
func (leader) Acked(berth.EvalID) int64                    { return 0 }
func (leader) Quasi(berth.EvalID) (string, berth.Timeline) { return "", berth.Timeline{} }
func (l leader) Leader() (api.Leader, error)               { return l, nil }
func (leader) Address() string                             { return "127.0.0.1:4647" }
func self() op.AgentSelf                                   { return op.AgentSelf{Member: op.AgentMember{Name: "s1"}} }
func healthy() op.AgentHealth                              { return op.AgentHealth{Server: &op.Health{Ok: true, Message: "ok"}} }

func (figures) ServeJSON(func(string) bool) any { return map[string]any{"Gauges": []int{}} }
func (figures) ServePrometheus(w http.ResponseWriter, _ *http.Request, _ func(string) bool) {
	io.WriteString(w, "x 1\n")
}

type figures struct{}

// serve returns the API over a state in memory.
func serve(t testing.TB, change func(*api.Config), cmds ...state.Command) (*api.Server, *statetest.Log) {
	store, log := statetest.New(t, cmds...)
	c := api.Config{
		Store: store, Cluster: leader{log}, Region: "global", Logger: slog.New(slog.DiscardHandler), Self: self, Health: healthy, Metrics: figures{},
	}
	if change != nil {
		change(&c)
	}
	return api.New(c), log
}

// ask makes a request and returns the answer.
func ask(h http.Handler, method, target, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, target, strings.NewReader(body)))
	return w
}

// Every operation has a handler, and no handler is of something that is not an
// operation. Those that only the wire serves are the server's (see package
// server).
func TestEveryOperationIsServed(t *testing.T) {
	s, _ := serve(t, nil)
	served := s.Served()
	for _, i := range op.All() {
		if i.Servers || i.Forwards || i.Agents {
			delete(served, i.Name)
			continue
		}
		if !served[i.Name] {
			t.Errorf("%s has no handler", i.Name)
		}
		delete(served, i.Name)
		if _, ok := s.RPC()[i.RPC]; i.RPC != "" && !ok {
			t.Errorf("%s has no handler for calls of %s", i.Name, i.RPC)
		}
	}
	for name := range served {
		t.Errorf("%s has a handler and is no operation", name)
	}
	for name := range s.RPC() {
		if !slices.ContainsFunc(op.All(), func(i *op.Info) bool { return i.RPC == name }) {
			t.Errorf("%s can be called and is no operation", name)
		}
	}
}

// target is a request line of an operation.
func target(i *op.Info) string {
	id := statetest.ID[berth.Alloc](1).String()
	return strings.NewReplacer("{JobID}", "web", "{AllocID}", id, "{EvalID}", id, "{DeploymentID}", id, "{NodeID}", id).Replace(i.Path) + "?"
}

// body is what an operation takes, if it takes any.
func body(i *op.Info) string {
	switch i {
	case op.Parse.Info:
		return `{"JobHCL": "job \"web\" {}"}`
	case op.Register.Info, op.RegisterNamed.Info, op.Validate.Info, op.Plan.Info:
		return `{"Job": {"ID": "web"}}`
	case op.SignalTask.Info:
		return `{"Signal": "SIGHUP"}`
	case op.EvalDelete.Info:
		return `{"Filter": "Priority == 50"}`
	case op.WriteScheduler.Info, op.CollectGarbage.Info:
		return `{}`
	}
	return ""
}

// A caller without rights gets nothing but what is open, of what is there and
// of what is not: every route is asked, so one that is added without a check
// shows here.
func TestWithoutRights(t *testing.T) {
	refuse := func(_ api.Caller, c acl.Capability, ns string) error {
		return berth.Errorf(berth.Denied, "Permission denied")
	}
	job := statetest.Job(t, `{"ID": "web", "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "app", "Driver": "raw_exec", "Config": {"command": "/bin/true"}}]}]}`)
	full, _ := serve(t, func(c *api.Config) { c.Authorize = refuse }, statetest.AddNode(1, 4000, 4000), statetest.Register(job, 1))
	void, _ := serve(t, func(c *api.Config) { c.Authorize = refuse })
	for _, i := range op.All() {
		if i.Path == "" {
			continue
		}
		for _, h := range []http.Handler{full, void} {
			for _, ns := range []string{"", "&namespace=*", "&namespace=other"} {
				line := target(i) + ns
				if i == op.ReadLogs.Info {
					line += "&task=app&type=stdout"
				}
				if i == op.DoAction.Info {
					line += "&allocID=6c2a1b34-0000-4000-8000-000000000000&task=app&action=a"
				}
				if i == op.ReadSubmission.Info {
					line += "&version=0"
				}
				w := ask(h, i.Verb(), line, body(i))
				got, across := strings.TrimSpace(w.Body.String()), ns == "&namespace=*"
				switch {
				case i.Need == acl.Open && w.Code == http.StatusOK:
				case i == op.OIDCDiscovery.Info && w.Code == http.StatusNotFound: // no issuer is configured
				// What logs in is asked without rights, and refuses what is asked here.
				case i.Need == acl.Open && !i.IsRead() && w.Code == http.StatusBadRequest:
				case i == op.BootstrapACL.Info && w.Code == http.StatusBadRequest: // access control is off
				case i == op.AskACL.Info && across && w.Code == http.StatusBadRequest: // it asks for no capability
				case w.Code == http.StatusForbidden && got == "Permission denied":
				// Across namespaces there is what the caller may see of each,
				// and no object has that namespace.
				case across && i.IsRead() && (got == "[]" || got == "null" || got == "job not found: */web" || got == "host volume not found: {VolumeID}" || got == "CSI volume not found: {VolumeID}"):
				case across && i.Name == "ui.overview" && w.Code == http.StatusOK && strings.Contains(got, `"Total":0`):
				case across && i == op.EvalsCount.Info && strings.Contains(got, `"Count":0`):
				case across && !i.IsRead() && w.Code == http.StatusBadRequest:
				default:
					t.Errorf("%s %s: %d %s", i.Method, line, w.Code, w.Body)
				}
			}
		}
	}
}

// A right is asked for in the namespace of what is meant, not of what the
// request line says.
func TestRightsAreOfANamespace(t *testing.T) {
	var asked []string
	var deny bool
	s, _ := serve(t, func(c *api.Config) {
		c.Authorize = func(_ api.Caller, c acl.Capability, ns string) error {
			asked = append(asked, fmt.Sprintf("%s in %q", c, ns))
			if deny {
				return berth.Errorf(berth.Denied, "Permission denied")
			}
			return nil
		}
	})
	job := func(ns string) string {
		return `{"Job": {"ID": "web"` + ns + `, "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "app", "Driver": "raw_exec", "Config": {"command": "/bin/true"}}]}]}}`
	}
	for _, c := range []struct{ line, body, want string }{
		{"GET /v1/jobs?namespace=a", "", `list-jobs in "a"`},
		{"GET /v1/nodes?namespace=a", "", `node:read in ""`},
		{"PUT /v1/jobs", job(`, "Namespace": "a"`), `submit-job in "a"`},
		{"PUT /v1/jobs", job(`, "namespace": "a"`), `submit-job in "a"`},
		{"PUT /v1/jobs?namespace=b", job(``), `submit-job in "b"`},
		{"PUT /v1/jobs?namespace=b", job(`, "Namespace": ""`), `submit-job in "b"`},
		{"PUT /v1/jobs", job(`, "Namespace": null`), `submit-job in "default"`},
		{"PUT /v1/validate/job", job(`, "Namespace": "a"`), `read-job in "a"`},
		{"PUT /v1/job/web/plan?namespace=b", job(``), `submit-job in "b"`},
		{"PUT /v1/job/web/plan", job(`, "Namespace": "a"`), `submit-job in "a"`},
		{"DELETE /v1/job/web?namespace=a", "", `submit-job in "a"`},
	} {
		for _, deny = range []bool{false, true} {
			asked = nil
			method, line, _ := strings.Cut(c.line, " ")
			w := ask(s, method, line, c.body)
			if !slices.Equal(asked, []string{c.want}) {
				t.Errorf("%s %s asked for %v, not %s; the answer is %d %s", c.line, c.body, asked, c.want, w.Code, w.Body)
			}
			if deny != (w.Code == http.StatusForbidden) {
				t.Errorf("%s %s: denied is %v, the answer %d %s", c.line, c.body, deny, w.Code, w.Body)
			}
		}
	}
	deny = false
	w := ask(s, "PUT", "/v1/jobs?namespace=b", job(`, "Namespace": "a"`))
	if w.Code != 400 || w.Body.String() != `job.namespace: "a" in the job differs from "b" in the request` {
		t.Errorf("two namespaces: %d %s", w.Code, w.Body)
	}
	if w := ask(s, "DELETE", "/v1/job/web?namespace=*", ""); w.Code != 400 || !strings.Contains(w.Body.String(), "one namespace") {
		t.Errorf("a write to all namespaces: %d %s", w.Code, w.Body)
	}
}

// pipes is a listener in memory, so that a test's clock is its own.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

func (p *pipes) dial() net.Conn {
	a, b := net.Pipe()
	p.conns <- b
	return a
}

// listen serves h in memory until the test ends.
func listen(t *testing.T, h http.Handler, l api.Limits) (p *pipes, stop func()) {
	p = newPipes()
	_, stop = listenOn(t, p, h, l)
	return p, stop
}

// listenOn serves h on a listener until it is stopped.
func listenOn(t *testing.T, ln net.Listener, h http.Handler, l api.Limits) (net.Listener, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- api.Serve(ctx, ln, h, l, slog.New(slog.DiscardHandler)) }()
	return ln, func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}

// answer reads one answer from a connection.
func answer(c net.Conn) (code int, header http.Header, body string, err error) {
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0, nil, "", err
	}
	b, err := io.ReadAll(r.Body)
	return r.StatusCode, r.Header, string(b), err
}

// A fault of ours is told, to the caller and in the log, and the next request
// is served.
func TestAPanicIsAnAnswer(t *testing.T) {
	var log strings.Builder
	broken := true
	s, _ := serve(t, func(c *api.Config) {
		c.Logger = slog.New(slog.NewTextHandler(&log, nil))
		c.Authorize = func(api.Caller, acl.Capability, string) error {
			if broken {
				panic("a broken promise")
			}
			return nil
		}
	})
	if w := ask(s, "GET", "/v1/jobs", ""); w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "internal error") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if !strings.Contains(log.String(), "a broken promise") || !strings.Contains(log.String(), "api_test.go") {
		t.Errorf("the log says %s", log.String())
	}
	broken = false
	if w := ask(s, "GET", "/v1/jobs", ""); w.Code != http.StatusOK {
		t.Errorf("afterwards: %d %s", w.Code, w.Body)
	}
}

// A path that exists says which methods it has.
func TestAllowedMethods(t *testing.T) {
	s, _ := serve(t, nil)
	for path, want := range map[string]string{"/v1/jobs": "GET, PUT, POST", "/v1/job/web": "GET, PUT, POST, DELETE", "/v1/nodes": "GET"} {
		if w := ask(s, "PATCH", path, ""); w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != want || w.Body.String() != "Invalid method" {
			t.Errorf("%s: %d %v %s", path, w.Code, w.Header(), w.Body)
		}
	}
}

package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth"
	"berth/client"
	"berth/internal/acl"
	"berth/internal/api"
	"berth/internal/decode"
	"berth/internal/state"
	"berth/op"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve answers every request with f, and returns a client of it.
func serve(t *testing.T, config client.Config, f http.HandlerFunc) *client.Client {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	config.Address = s.URL
	return dial(t, config)
}

func dial(t *testing.T, config client.Config) *client.Client {
	t.Helper()
	c, err := client.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// request is what a server sees of a call.
type request struct {
	Line, Token, Auth, Body string
}

// seen makes a call and returns what arrived of it.
func seen[In, Out any](t *testing.T, config client.Config, o op.Op[In, Out], in In) (got request) {
	t.Helper()
	c := serve(t, config, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = request{r.Method + " " + r.RequestURI, r.Header.Get("X-Nomad-Token"), r.Header.Get("Authorization"), string(body)}
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, "null")
	})
	if _, _, err := client.Call(t.Context(), c, o, in); err != nil {
		t.Errorf("%s: %v", o.Name, err)
	}
	return got
}

// Fields of an input go where the operation says: into the path, the query or
// the body, and what it embeds into parameters and headers.
func TestRequests(t *testing.T) {
	as := client.Config{Token: "secret", Region: "eu", Namespace: "team"}
	yes := true
	for name, x := range map[string]struct{ got, want request }{
		"a list": {
			seen(t, client.Config{}, op.ListJobs, op.JobsQuery{}),
			request{Line: "GET /v1/jobs"},
		},
		"the configuration speaks where the call does not": {
			seen(t, as, op.ReadJob, op.JobRef{JobID: "web", Query: op.Query{Namespace: "other"}}),
			request{Line: "GET /v1/job/web?namespace=other&region=eu", Token: "secret"},
		},
		"an ID is one segment of the path": {
			seen(t, client.Config{}, op.JobAllocs, op.JobAllocsQuery{JobID: "a/b c?d%2F", All: true}),
			request{Line: "GET /v1/job/a%2Fb%20c%3Fd%252F/allocations?all=true"},
		},
		"all that a read may say": {
			seen(t, client.Config{}, op.ListAllocs, op.AllocsQuery{TaskStates: &yes, Query: op.Query{
				Prefix: "ab", Filter: `Name == "x"`, NextToken: "7.x", PerPage: 5, AllowStale: true, Reverse: true,
				MinQueryIndex: 9, MaxQueryTime: 90 * time.Second, AuthToken: "mine",
			}}),
			request{Line: "GET /v1/allocations?filter=Name+%3D%3D+%22x%22&index=9&next_token=7.x&per_page=5&prefix=ab&reverse=true&stale=true&task_states=true&wait=1m30s", Token: "mine"},
		},
		"a delete has no body": {
			seen(t, as, op.Stop, op.StopJob{JobID: "web", Purge: true, EvalPriority: 60, UID: "j-1"}),
			request{Line: "DELETE /v1/job/web?eval_priority=60&namespace=team&purge=true&region=eu&uid=j-1", Token: "secret"},
		},
		"numbers of a tree stay numbers": {
			seen(t, client.Config{}, op.Validate, op.ValidateJob{Job: decode.RawTree{"Priority": decode.Number("50"), "TaskGroups": []any{decode.Tree{"Count": decode.Number("2")}}}}),
			request{Line: "PUT /v1/validate/job", Body: `{"Job":{"Priority":50,"TaskGroups":[{"Count":2}]}}`},
		},
		"a path's field is not in the body": {
			seen(t, client.Config{}, op.RegisterNamed, op.RegisterJob{JobID: "web", EnforceIndex: true, JobModifyIndex: 7, Write: op.Write{IdempotencyToken: "once"}}),
			request{Line: "PUT /v1/job/web?idempotency_token=once", Body: `{"EnforceIndex":true,"EvalPriority":0,"Job":{},"JobModifyIndex":7,"PolicyOverride":false,"PreserveCounts":false,"PreserveResources":false,"Submission":null}`},
		},
		"an input that is options alone": {
			seen(t, client.Config{BasicAuth: "me:pass"}, op.ReadLeader, op.Query{AllowStale: true}),
			request{Line: "GET /v1/status/leader?stale=true", Auth: "Basic bWU6cGFzcw=="},
		},
	} {
		if d := cmp.Diff(x.want, x.got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// A field that makes no path is refused before anything is sent.
func TestNoSuchPath(t *testing.T) {
	c := dial(t, client.Config{})
	for _, id := range []string{"", ".", ".."} {
		_, _, err := client.Call(t.Context(), c, op.ReadJob, op.JobRef{JobID: id})
		if berth.KindOf(err) != berth.Invalid || !strings.Contains(err.Error(), "JobID") {
			t.Errorf("the ID %q: %v", id, err)
		}
	}
	if _, _, err := client.Call(t.Context(), c, op.Ping, op.Nothing{}); berth.KindOf(err) != berth.Invalid {
		t.Errorf("an operation without a route: %v", err)
	}
}

// Headers become metadata.
func TestMeta(t *testing.T) {
	c := serve(t, client.Config{}, func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "application/json")
		h.Set("X-Nomad-Index", "42")
		h.Set("X-Nomad-LastContact", "1500")
		h.Set("X-Nomad-KnownLeader", "true")
		h.Set("X-Nomad-NextToken", "7.abc")
		io.WriteString(w, `[{"ID":"web","Priority":50}]`)
	})
	jobs, meta, err := client.Call(t.Context(), c, op.ListJobs, op.JobsQuery{})
	want := op.Meta{Index: 42, LastContact: 1500 * time.Millisecond, KnownLeader: true, NextToken: "7.abc"}
	if err != nil || meta != want || len(jobs) != 1 || jobs[0].ID != "web" || jobs[0].Priority != 50 {
		t.Errorf("%+v %+v %v", jobs, meta, err)
	}
}

type noCluster struct{ err error }

func (c noCluster) Leader() (api.Leader, error)               { return nil, c.err }
func (noCluster) Address() string                             { return "" }
func (c noCluster) Sync(context.Context, time.Duration) error { return c.err }

// An error keeps its kind and text on the way through the API of this very
// build, whichever kind it is.
func TestKindsMirrorTheAPI(t *testing.T) {
	var refuse error
	s := api.New(api.Config{
		Store: state.New(), Cluster: noCluster{state.ErrLost}, Region: "global", Logger: slog.New(slog.DiscardHandler),
		Authorize: func(api.Caller, acl.Capability, string) error { return refuse },
	})
	c := serve(t, client.Config{}, s.ServeHTTP)
	for _, kind := range []berth.Kind{
		berth.Invalid, berth.Denied, berth.NotFound, berth.Conflict, berth.TooLarge, berth.Limited, berth.Unavailable, "",
	} {
		refuse = errors.New("because")
		if kind != "" {
			refuse = berth.Errorf(kind, "because")
		}
		_, _, err := client.Call(t.Context(), c, op.ListNodes, op.NodesQuery{})
		if got := berth.KindOf(err); got != kind || err.Error() != "because" {
			t.Errorf("kind %q came as %q: %v", kind, got, err)
		}
	}
	refuse = berth.Refusef(berth.CodeStaleLaunch, "because")
	if _, _, err := client.Call(t.Context(), c, op.ListNodes, op.NodesQuery{}); berth.CodeOf(err) != berth.CodeStaleLaunch || berth.KindOf(err) != berth.Conflict {
		t.Errorf("code %q, kind %q: %v", berth.CodeOf(err), berth.KindOf(err), err)
	}
	refuse = nil
	if _, _, err := client.Call(t.Context(), c, op.ListNodes, op.NodesQuery{}); berth.KindOf(err) != berth.NoLeader {
		t.Errorf("without a leader: %q, %v", berth.KindOf(err), err)
	}
	nobody := op.Op[op.Nothing, op.Nothing]{Info: &op.Info{Name: "x", Method: "GET", Path: "/v1/no/such/path"}}
	if _, _, err := client.Call(t.Context(), c, nobody, op.Nothing{}); berth.KindOf(err) != berth.NotFound {
		t.Errorf("no such path: %v", err)
	}
	bad := op.Op[op.Nothing, op.Nothing]{Info: &op.Info{Name: "x", Method: "DELETE", Path: "/v1/nodes"}}
	if _, _, err := client.Call(t.Context(), c, bad, op.Nothing{}); berth.KindOf(err) != berth.Invalid || err.Error() != "Invalid method" {
		t.Errorf("a wrong method: %v", err)
	}
}

// What answers, but is no agent, is told as such.
func TestStrangers(t *testing.T) {
	for name, x := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"a page": {func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "<html>hello</html>") },
			`answers with "text/html" and not with JSON`},
		"a page of an error": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(http.StatusBadGateway)
			io.WriteString(w, "<html>nginx</html>")
		}, "answers 502 Bad Gateway"},
		"half an answer": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `[{"ID":`)
		}, "job.list: the answer of"},
	} {
		c := serve(t, client.Config{}, x.answer)
		if _, _, err := client.Call(t.Context(), c, op.ListJobs, op.JobsQuery{}); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A redirect is not followed: the token would go with it.
func TestRedirectsAreNotFollowed(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("the other host was called, with the token %q", r.Header.Get("X-Nomad-Token"))
	}))
	defer other.Close()
	c := serve(t, client.Config{Token: "secret"}, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL+r.URL.Path, http.StatusTemporaryRedirect)
	})
	_, _, err := client.Call(t.Context(), c, op.ListJobs, op.JobsQuery{})
	if berth.KindOf(err) != berth.Unavailable || !strings.Contains(err.Error(), "redirect") {
		t.Error(err)
	}
}

// An agent that is not there is named by its address.
func TestUnreachable(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := "http://" + ln.Addr().String()
	ln.Close()
	for _, address := range []string{nobody, "unix://" + filepath.Join(t.TempDir(), "no.sock")} {
		c := dial(t, client.Config{Address: address})
		_, _, err := client.Call(t.Context(), c, op.ListJobs, op.JobsQuery{})
		e, ok := errors.AsType[*client.Unreachable](err)
		if !ok || e.Address != address || berth.KindOf(err) != berth.Unavailable || !strings.Contains(err.Error(), address+" does not answer") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// Addresses are refused where they are given, not at the first call.
func TestAddresses(t *testing.T) {
	for address, good := range map[string]bool{
		"": true, "http://127.0.0.1:4646": true, "https://berth.example/prefix/": true, "http://[::1]:4646": true, "unix:///run/berth.sock": true,
		"127.0.0.1:4646": false, "ftp://x": false, "http://": false, "unix://": false, "http://a b": false, "http://me:pw@host": false, "http://host?x=1": false,
	} {
		c, err := client.New(client.Config{Address: address})
		if good != (err == nil) || err != nil && (berth.KindOf(err) != berth.Invalid || strings.Contains(err.Error(), "pw")) {
			t.Errorf("%q: %v", address, err)
		}
		if err == nil && address == "" && c.Address() != "http://127.0.0.1:4646" {
			t.Errorf("the default is %s", c.Address())
		}
	}
}

// The same calls go through a unix socket.
func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "api.sock")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := &httptest.Server{Listener: ln, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `"10.0.0.1:4647"`)
	})}}
	s.Start()
	defer s.Close()
	c := dial(t, client.Config{Address: "unix://" + path})
	if leader, _, err := client.Call(t.Context(), c, op.ReadLeader, op.Query{}); err != nil || leader != "10.0.0.1:4647" {
		t.Error(leader, err)
	}
}

// A call that waits ends when its caller stops waiting, with that reason.
func TestCallsEndWithTheirContext(t *testing.T) {
	arrived, release := make(chan bool, 1), make(chan bool)
	c := serve(t, client.Config{}, func(w http.ResponseWriter, r *http.Request) {
		arrived <- true
		select {
		case <-r.Context().Done():
		case <-release:
		}
	})
	defer close(release)
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() { <-arrived; cancel(enough) }()
	if _, _, err := client.Call(ctx, c, op.ListJobs, op.JobsQuery{Query: op.Query{MinQueryIndex: 7}}); !errors.Is(err, enough) {
		t.Error(err)
	}
}

// Frames come one by one, without those that say nothing.
func TestStream(t *testing.T) {
	c := serve(t, client.Config{}, func(w http.ResponseWriter, r *http.Request) {
		if r.RequestURI != "/v1/client/fs/logs/a1?follow=true&offset=5&origin=end&task=app&type=stdout" {
			t.Error(r.RequestURI)
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintln(w, `{"Offset":3,"Data":"aGVsbG8=","File":"app.stdout.0"}`)
		fmt.Fprintln(w, `{}`)
		fmt.Fprintln(w, `{"FileEvent":"file truncated"}{"Data":"IQ=="}`)
	})
	var got []string
	in := op.LogsQuery{AllocID: "a1", Task: "app", Type: "stdout", Follow: true, Offset: 5, Origin: "end"}
	for f, err := range client.Stream(t.Context(), c, op.ReadLogs, in) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(f.Offset, string(f.Data), f.File, f.FileEvent))
	}
	if d := cmp.Diff([]string{"3helloapp.stdout.0", "0file truncated", "0!"}, got); d != "" {
		t.Error(d)
	}
}

// However a stream ends, its caller is told and nothing is left behind.
func TestStreamsEnd(t *testing.T) {
	endless := func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			fmt.Fprintln(w, `{"Data":"eA=="}`)
		}
	}
	run := func(ctx context.Context, answer http.HandlerFunc, each func(int) bool) (err error) {
		n := 0
		for f, e := range client.Stream(ctx, serve(t, client.Config{}, answer), op.ReadLogs, op.LogsQuery{AllocID: "a1"}) {
			if err != nil {
				t.Error("an error was not the last thing")
			}
			if (f == nil) == (e == nil) {
				t.Error("a frame or an error is wanted")
			}
			if err = e; err == nil && !each(n) {
				break
			}
			n++
		}
		return err
	}
	if err := run(t.Context(), endless, func(n int) bool { return n < 3 }); err != nil {
		t.Error("the caller stopped:", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := run(ctx, endless, func(n int) bool { cancel(); return true }); !errors.Is(err, context.Canceled) {
		t.Error("the context ended:", err)
	}
	err := run(t.Context(), func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "alloc not found: a1", http.StatusNotFound)
	}, nil)
	if berth.KindOf(err) != berth.NotFound {
		t.Error("the server refused:", err)
	}
	err = run(t.Context(), func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, `{"Data":"eA=="}`)
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}, func(int) bool { return true })
	if err == nil || !strings.Contains(err.Error(), "broke off") {
		t.Error("the connection was lost:", err)
	}
	err = run(t.Context(), func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, `{"Data":7}`) }, func(int) bool { return true })
	if err == nil {
		t.Error("a frame that is none was taken")
	}
}

// A request that the agent is too busy for is sent again, with its body, when
// the agent says so. It ends with the context, and after six times.
func TestABusyAgentIsAskedAgain(t *testing.T) {
	var bodies []string
	busy, after := 2, "0"
	c := serve(t, client.Config{}, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if bodies = append(bodies, string(body)); len(bodies) > busy {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, "{}")
			return
		}
		if after != "" {
			w.Header().Set("Retry-After", after)
		}
		w.WriteHeader(http.StatusTooManyRequests)
		io.WriteString(w, "busy")
	})
	call := func(ctx context.Context) error {
		bodies = nil
		_, _, err := client.Call(ctx, c, op.Parse, op.ParseJob{JobHCL: "text"})
		return err
	}
	if err := call(t.Context()); err != nil || len(bodies) != 3 || bodies[0] != bodies[2] || !strings.Contains(bodies[2], "text") {
		t.Errorf("%v, %q", err, bodies)
	}
	busy = 100
	if err := call(t.Context()); berth.KindOf(err) != berth.Limited || len(bodies) != 6 {
		t.Errorf("after %d requests: %v", len(bodies), err)
	}
	after = "" // as for one who has too many connections: coming again would not help
	if err := call(t.Context()); berth.KindOf(err) != berth.Limited || len(bodies) != 1 {
		t.Errorf("after %d requests: %v", len(bodies), err)
	}
	after = "3600"
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := call(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

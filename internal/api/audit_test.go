package api_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth"
	"berth/internal/api"
	"berth/internal/audit"
	"berth/internal/peer"
	"berth/internal/state"
	"berth/internal/state/statetest"
	"berth/op"
)

// askAs makes a request with a token.
func askAs(h http.Handler, secret, method, target, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Header.Set("X-Nomad-Token", secret)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// partOf returns the claims of a JWT as JSON.
func partOf(t testing.TB, jwt string) []byte {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(strings.Split(jwt, ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// entries returns the lines of an audit log.
func entries(t *testing.T, path string) (out []audit.Payload) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for in := bufio.NewScanner(f); in.Scan(); {
		var e audit.Entry
		if err := json.Unmarshal(in.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		out = append(out, e.Payload)
	}
	return out
}

const (
	teamToken = "5ec4e700-0000-4000-8000-000000000001"
	rootToken = "5ec4e700-0000-4000-8000-000000000002"
)

// audited returns a server with access control and an audit log.
func auditing(t *testing.T, enforced bool, filters ...audit.Filter) (*api.Server, *audit.Log, string) {
	path := filepath.Join(t.TempDir(), "audit.log")
	l, err := audit.Open(audit.Config{Path: path, Filters: filters})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	s, _ := withKeys(t, func(c *api.Config) {
		c.ACL = true
		c.Audit = &api.Audit{Log: l, Enforced: enforced, Node: "s1", Logger: slog.New(slog.DiscardHandler)}
	}, &state.UpsertACLPolicies{Policies: []*berth.ACLPolicy{{Name: "team", Rules: `namespace "default" { policy = "write" }`}}},
		&state.UpsertACLTokens{Tokens: []*berth.ACLToken{
			{AccessorID: "acce5500-0000-4000-8000-000000000001", Name: "ann", SecretHash: sha256.Sum256([]byte(teamToken)), Type: berth.TokenClient, Policies: []string{"team"}},
			{AccessorID: "acce5500-0000-4000-8000-000000000002", Name: "root", SecretHash: sha256.Sum256([]byte(rootToken)), Type: berth.TokenManagement},
		}})
	return s, l, path
}

// Every request is in the log twice, with who made it, what it is about and how it
// ended, and without what is secret.
func TestRequestsAreAudited(t *testing.T) {
	s, _, path := auditing(t, true)
	const canary = "canary-7f3a"
	for _, x := range []struct{ secret, method, target, body string }{
		{teamToken, "GET", "/v1/jobs?prefix=" + canary, ""},
		{teamToken, "PUT", "/v1/jobs", `{"Job":{"ID":"web","TaskGroups":[{"Name":"g","Tasks":[{"Name":"app","Driver":"mock_driver","Env":{"K":"` + canary + `"}}]}]}}`},
		{teamToken, "PUT", "/v1/var/app/db", `{"Items":{"password":"` + canary + `"}}`},
		{canary, "GET", "/v1/job/web?namespace=other", ""},
		{"", "GET", "/v1/job/web", ""},
		{"", "GET", "/v1/no/such/path", ""},
		{teamToken, "PUT", "/v1/jobs", `{"Job":`},
	} {
		askAs(s, x.secret, x.method, x.target, x.body)
	}
	var got strings.Builder
	for _, e := range entries(t, path) {
		fmt.Fprintf(&got, "%s %s %s %q %s/%s ns=%q %v", e.Stage, e.Request.Operation, e.Request.Endpoint, e.Request.Route, e.Auth.Type, e.Auth.Name, e.Request.Namespace.ID, e.Request.Object)
		if e.Response != nil {
			fmt.Fprintf(&got, " = %d %s", e.Response.StatusCode, e.Response.Error)
		}
		got.WriteByte('\n')
	}
	const want = `OperationReceived GET /v1/jobs "job.list" client/ann ns="default" map[]
OperationComplete GET /v1/jobs "job.list" client/ann ns="default" map[] = 200 
OperationReceived PUT /v1/jobs "job.register" client/ann ns="default" map[JobID:web]
OperationComplete PUT /v1/jobs "job.register" client/ann ns="default" map[JobID:web] = 200 
OperationReceived PUT /v1/var/app/db "variable.write" client/ann ns="default" map[VarPath:app/db]
OperationComplete PUT /v1/var/app/db "variable.write" client/ann ns="default" map[VarPath:app/db] = 403 denied
OperationReceived GET /v1/job/web "job.read" invalid/ ns="other" map[JobID:web]
OperationComplete GET /v1/job/web "job.read" invalid/ ns="other" map[JobID:web] = 403 denied
OperationReceived GET /v1/job/web "job.read" anonymous/Anonymous Token ns="default" map[JobID:web]
OperationComplete GET /v1/job/web "job.read" anonymous/Anonymous Token ns="default" map[JobID:web] = 403 denied
OperationReceived GET /v1/no/such/path "" anonymous/Anonymous Token ns="" map[]
OperationComplete GET /v1/no/such/path "" anonymous/Anonymous Token ns="" map[] = 404 not found
OperationReceived PUT /v1/jobs "job.register" client/ann ns="default" map[]
OperationComplete PUT /v1/jobs "job.register" client/ann ns="default" map[] = 400 invalid
`
	if got.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &got, want)
	}
	if text, err := os.ReadFile(path); err != nil || strings.Contains(string(text), canary) || strings.Contains(string(text), teamToken) {
		t.Errorf("a secret or a parameter is in the log: %v", err)
	}
	if c, err := audit.Verify(path); err != nil || c.Lines != 14 {
		t.Errorf("%+v, %v", c, err)
	}
}

// When nothing can be written, an enforced log has requests refused before they
// have an effect; another one does not.
func TestAnAuditLogThatCannotBeWritten(t *testing.T) {
	for _, enforced := range []bool{true, false} {
		s, l, _ := auditing(t, enforced)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		w := askAs(s, teamToken, "GET", "/v1/jobs", "")
		if want := map[bool]int{true: http.StatusServiceUnavailable, false: http.StatusOK}[enforced]; w.Code != want {
			t.Errorf("enforced %v: %d %s", enforced, w.Code, w.Body)
		}
	}
}

// What a filter names is not in the log.
func TestAuditFilters(t *testing.T) {
	s, _, path := auditing(t, true, audit.Filter{Endpoints: []string{"/v1/status/*"}}, audit.Filter{Stages: []string{audit.Received}, Operations: []string{"GET"}})
	askAs(s, teamToken, "GET", "/v1/status/leader", "")
	askAs(s, teamToken, "GET", "/v1/jobs", "")
	if got := entries(t, path); len(got) != 1 || got[0].Stage != audit.Complete || got[0].Request.Endpoint != "/v1/jobs" {
		t.Errorf("%+v", got)
	}
}

// An address that shows wrong tokens is slowed down; tokens that were seen to be
// valid go on.
func TestWrongTokensAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := serve(t, func(c *api.Config) { c.ACL, c.TokenFailures = true, 3 }, &state.UpsertACLTokens{Tokens: []*berth.ACLToken{
			{AccessorID: "1", SecretHash: sha256.Sum256([]byte("known")), Type: berth.TokenManagement}, {AccessorID: "2", SecretHash: sha256.Sum256([]byte("new")), Type: berth.TokenManagement},
		}})
		code := func(secret string) int { return askAs(s, secret, "GET", "/v1/jobs", "").Code }
		if code("known") != 200 {
			t.Fatal("a valid token is refused")
		}
		for range 3 {
			if c := code("guess"); c != http.StatusForbidden {
				t.Errorf("a wrong token: %d", c)
			}
		}
		if a, b, c := code("guess"), code("new"), code("known"); a != 429 || b != 429 || c != 200 {
			t.Errorf("after three: a wrong token %d, a valid one that is new %d, one that is known %d", a, b, c)
		}
		time.Sleep(2 * time.Second)
		if c := code("new"); c != 200 {
			t.Errorf("a valid token later: %d", c)
		}
	})
}

// behind is a follower whose state is old until it asks the leader.
type behind struct {
	leader
	learn func()
}

func (b behind) Sync(context.Context, time.Duration) error { b.learn(); return nil }

// Who asks about a token that was made a moment ago gets an answer that knows it,
// whichever server answers.
func TestATokenThatIsNewIsKnown(t *testing.T) {
	for path, says := range map[string]string{"/v1/jobs": "[]", "/v1/ui/start": `"SignedIn":true`, "/v1/acl/whoami": `"Name":"ann"`} {
		var log *statetest.Log
		var s *api.Server
		s, log = serve(t, func(c *api.Config) {
			c.ACL = true
			c.Cluster = behind{learn: func() {
				log.Must(t, &state.UpsertACLTokens{Tokens: []*berth.ACLToken{{AccessorID: "1", Name: "ann", SecretHash: sha256.Sum256([]byte("new")), Type: berth.TokenManagement}}})
			}}
		})
		if w := askAs(s, "new", "GET", path, ""); w.Code != 200 || !strings.Contains(w.Body.String(), says) {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

// A server that is far behind does not call a new token wrong: the leader says
// whether it is.
func TestATokenThatAServerMissesIsKnown(t *testing.T) {
	token := &state.UpsertACLTokens{Tokens: []*berth.ACLToken{{AccessorID: "1", Name: "ann", SecretHash: sha256.Sum256([]byte("new")), Type: berth.TokenManagement}}}
	leads, _ := serve(t, func(c *api.Config) { c.ACL = true }, token)
	f := newFollower()
	f.connect = func(context.Context, string) (peer.Conn, error) { return direct(leads), nil }
	s, _ := serve(t, func(c *api.Config) {
		c.ACL, c.Cluster, c.Peers = true, late{f, api.Behind{Without: state.ErrLost}}, f
	})
	for path, says := range map[string]string{"/v1/jobs": "[]", "/v1/ui/start": `"SignedIn":true`, "/v1/acl/whoami": `"Name":"ann"`} {
		if w := askAs(s, "new", "GET", path, ""); w.Code != 200 || !strings.Contains(w.Body.String(), says) {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	if w := askAs(s, "wrong", "GET", "/v1/jobs", ""); w.Code != 403 {
		t.Errorf("a wrong token: %d %s", w.Code, w.Body)
	}
}

// The first question of the web UI counts a wrong token once. After too many it says
// so, and does not call the right token wrong.
func TestWrongTokensOfTheUIAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := serve(t, func(c *api.Config) { c.ACL, c.TokenFailures = true, 3 }, &state.UpsertACLTokens{Tokens: []*berth.ACLToken{
			{AccessorID: "1", SecretHash: sha256.Sum256([]byte("first")), Type: berth.TokenManagement}, {AccessorID: "2", SecretHash: sha256.Sum256([]byte("new")), Type: berth.TokenManagement},
		}})
		start := func(secret string) (int, bool) {
			w := askAs(s, secret, "GET", "/v1/ui/start", "")
			var out op.UIStart
			_ = json.Unmarshal(w.Body.Bytes(), &out)
			return w.Code, out.SignedIn
		}
		for range 2 {
			if code, in := start("mistyped"); code != 200 || in {
				t.Errorf("a wrong token: %d, signed in: %v", code, in)
			}
		}
		if code, in := start("first"); code != 200 || !in {
			t.Errorf("a valid token after two wrong ones: %d, signed in: %v", code, in)
		}
		_, _ = start("mistyped")
		if code, _ := start("new"); code != 429 {
			t.Errorf("a valid token after three wrong ones: %d", code)
		}
		if code, in := start(""); code != 200 || in {
			t.Errorf("no token: %d, signed in: %v", code, in)
		}
		time.Sleep(2 * time.Second)
		if code, in := start("new"); code != 200 || !in {
			t.Errorf("a valid token later: %d, signed in: %v", code, in)
		}
	})
}

// A token, and a namespace, can be written so many times a second.
func TestWritesAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		token := func(name string) *berth.ACLToken {
			return &berth.ACLToken{AccessorID: name, SecretHash: sha256.Sum256([]byte(name)), Type: berth.TokenManagement}
		}
		s, _ := serve(t, func(c *api.Config) { c.ACL, c.TokenWrites, c.NamespaceWrites = true, 1, 2 },
			&state.UpsertACLTokens{Tokens: []*berth.ACLToken{token("a"), token("b"), token("c")}})
		write := func(secret string) *httptest.ResponseRecorder { return askAs(s, secret, "DELETE", "/v1/job/none", "") }
		n := map[string]int{}
		for _, who := range []string{"a", "b", "c"} {
			for range 15 {
				if w := write(who); w.Code != 429 {
					n[who]++
				} else if w.Header().Get("Retry-After") == "" {
					t.Error("no Retry-After")
				}
			}
		}
		if n["a"] != 10 || n["b"] != 10 || n["c"] != 0 {
			t.Errorf("writes that were taken: %v", n)
		}
		if w := askAs(s, "a", "PUT", "/v1/system/gc", ""); w.Code == 429 {
			t.Errorf("an operator is refused: %d", w.Code)
		}
		time.Sleep(time.Second)
		if w := write("a"); w.Code == 429 {
			t.Errorf("a second later: %d", w.Code)
		}
	})
}

// The Task API refuses requests without a token, also without access control, and
// takes what a task has.
func TestTaskAPI(t *testing.T) {
	s, _ := serve(t, nil)
	for token, want := range map[string]string{"": "needs a token", "wrong": "Permission denied", "a.b.c": "Permission denied"} {
		if err := s.Authenticate(t.Context(), token, "task"); berth.KindOf(err) != berth.Denied || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", token, err)
		}
	}
	s, _ = serve(t, func(c *api.Config) { c.ACL = true }, &state.UpsertACLTokens{Tokens: []*berth.ACLToken{
		{AccessorID: "1", SecretHash: sha256.Sum256([]byte("known")), Type: berth.TokenManagement},
	}})
	if err := s.Authenticate(t.Context(), "known", "task"); err != nil {
		t.Error(err)
	}
}

// The audit log is read over HTTP with a management token and with no other, the
// newest first, in pages, by user, operation, time and stage. It shows no secret.
func TestTheAuditLogIsRead(t *testing.T) {
	s, _, _ := auditing(t, false)
	h := http.Handler(s)
	for range 3 {
		askAs(h, teamToken, "GET", "/v1/jobs", "")
	}
	if w := askAs(h, teamToken, "GET", "/v1/agent/audit", ""); w.Code != http.StatusForbidden {
		t.Errorf("without the right it gives %d %s", w.Code, w.Body)
	}
	read := func(query string) (out []op.AuditEntry, next string) {
		t.Helper()
		w := askAs(h, rootToken, "GET", "/v1/agent/audit?"+query, "")
		if w.Code != http.StatusOK {
			t.Fatalf("%s: %d %s", query, w.Code, w.Body)
		}
		if strings.Contains(w.Body.String(), teamToken) || strings.Contains(w.Body.String(), rootToken) {
			t.Errorf("%s: it shows a secret", query)
		}
		if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil {
			t.Fatal(err)
		}
		return out, w.Header().Get("X-Nomad-NextToken")
	}
	all, next := read("stage=both")
	if len(all) != 9 || next != "" || all[0].Stage != op.AuditReceived || all[0].Operation != "agent.audit" || all[1].Status != http.StatusForbidden {
		t.Errorf("it is %+v", all)
	}
	lists, next := read("operation=job.list&per_page=2")
	if len(lists) != 2 || next == "" || lists[0].Line < lists[1].Line || lists[0].Status != http.StatusOK || lists[0].Method != "GET" || lists[0].Path != "/v1/jobs" {
		t.Errorf("the lists are %+v, %q", lists, next)
	}
	if rest, end := read("operation=job.*&per_page=2&next_token=" + next); len(rest) != 1 || end != "" || rest[0].Line >= lists[1].Line {
		t.Errorf("the rest is %+v, %q", rest, end)
	}
	if mine, _ := read("user=" + lists[0].AccessorID); lists[0].AccessorID == "" || len(mine) != 4 {
		t.Errorf("of %q are %+v", lists[0].AccessorID, mine)
	}
	if none, _ := read("user=nobody"); len(none) != 0 {
		t.Errorf("of nobody are %+v", none)
	}
	if none, _ := read("since=2200-01-01T00:00:00Z"); len(none) != 0 {
		t.Errorf("of the future are %+v", none)
	}
	if none, _ := read("until=2001-01-01T00:00:00Z"); len(none) != 0 {
		t.Errorf("of the past are %+v", none)
	}
	for query, want := range map[string]string{"stage=some": "stage: must be", "filter=x": "filtered by since", "next_token=z": "next_token", "since=soon": "since"} {
		if w := askAs(h, rootToken, "GET", "/v1/agent/audit?"+query, ""); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s", query, w.Code, w.Body)
		}
	}
}

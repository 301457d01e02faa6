package api_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"berth"
	"berth/internal/acl"
	"berth/internal/api"
	"berth/internal/events"
	"berth/internal/state"
	"berth/internal/state/statetest"
	"berth/op"
)

// The tests of this file are rows of docs/advisories.md.

// rows returns everything that there is in the namespace of the canaries, as JSON.
func (c *canaries) rows(t *testing.T, snap *state.Snapshot) string {
	t.Helper()
	k := berth.JobKey{Namespace: "canary-space", ID: "canary-job"}
	var all []any
	all = append(all, snap.Job(k), snap.Variable(berth.VariableKey{Namespace: "canary-space", Path: "canary/variable"}), snap.Namespace("canary-space"))
	for a := range snap.AllocsOf(k) {
		all = append(all, a)
	}
	for e := range snap.EvalsOf(k) {
		all = append(all, e)
	}
	for d := range snap.DeploymentsOf(k) {
		all = append(all, d)
	}
	b, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// C03, C43: whoever has every right in one namespace changes nothing in another,
// whatever object a write names, and in whatever namespace it says that object is.
func TestAdvisory_C03_C43_WritesStayInTheirNamespace(t *testing.T) {
	asked := 0
	for _, i := range op.All() {
		if i.Path == "" || i.IsRead() || i.Bytes || strings.HasPrefix(i.Name, "failpoint.") {
			continue
		}
		s, c := inhabited(t)
		if !s.Served()[i.Name] {
			continue
		}
		before := c.rows(t, s.Store.Snapshot())
		path := field.ReplaceAllStringFunc(i.Path, func(f string) string {
			if v := c.there[f[1:len(f)-1]]; v != "" {
				return v
			}
			return c.there["AllocID"]
		})
		for _, space := range []string{"own", "canary-space", "*", ""} {
			for _, body := range []string{
				"{}", `{"Job":{"ID":"canary-job","Namespace":"canary-space"}}`, `{"Namespace":"canary-space","Path":"canary/variable","Items":{"a":"b"}}`,
				fmt.Sprintf(`{"JobID":"canary-job","Namespace":"canary-space","EvalIDs":[%q],"DeploymentID":%q,"AllocID":%q,"All":true,"Count":3,"Target":{"Group":"canary-group"}}`,
					c.there["EvalID"], c.there["DeploymentID"], c.there["AllocID"]),
				`{"Filter":"JobID == \"canary-job\""}`,
			} {
				for _, query := range []string{"", "&purge=true&force=true&global=true", "&cas=0"} {
					asked++
					w := askAs(s, "secret", i.Method, path+"?namespace="+space+query, body)
					if w.Code >= 500 && w.Code != http.StatusServiceUnavailable && w.Code != http.StatusNotImplemented {
						t.Errorf("%s in %q: %d %s", i.Name, space, w.Code, w.Body)
					}
				}
			}
		}
		if after := c.rows(t, s.Store.Snapshot()); after != before {
			t.Errorf("%s changed another namespace:\n%s\n%s", i.Name, before, after)
		}
	}
	if asked < 1000 {
		t.Errorf("only %d writes were tried", asked)
	}
}

// C11: what a body says of its namespace is what counts, or it is refused.
func TestAdvisory_C11_TheNamespaceOfABody(t *testing.T) {
	s, c := inhabited(t)
	before := c.rows(t, s.Store.Snapshot())
	job := `{"Job":{"ID":"x","Namespace":"canary-space","TaskGroups":[{"Name":"g","Tasks":[{"Name":"t","Driver":"mock_driver"}]}]}}`
	for _, x := range []struct{ method, path, body string }{
		{"PUT", "/v1/jobs", job}, {"PUT", "/v1/job/x", job}, {"PUT", "/v1/job/x/plan", job}, {"PUT", "/v1/validate/job", job},
		{"PUT", "/v1/var/x", `{"Namespace":"canary-space","Path":"x","Items":{"a":"b"}}`},
	} {
		for _, query := range []string{"", "?namespace=own", "?namespace=canary-space"} {
			w := askAs(s, "secret", x.method, x.path+query, x.body)
			// The variable would be in the namespace of the request line, which is the
			// caller's own; this server has no key to encrypt it.
			own := x.path == "/v1/var/x" && query == "?namespace=own" && w.Code == http.StatusServiceUnavailable
			if w.Code != http.StatusForbidden && w.Code != http.StatusBadRequest && !own {
				t.Errorf("%s%s: %d %s", x.path, query, w.Code, w.Body)
			}
		}
	}
	snap := s.Store.Snapshot()
	if snap.Job(berth.JobKey{Namespace: "canary-space", ID: "x"}) != nil || snap.Variable(berth.VariableKey{Namespace: "canary-space", Path: "x"}) != nil || c.rows(t, snap) != before {
		t.Error("something was made in another namespace")
	}
}

// C07: no flag of a registration skips a rule of the namespace.
func TestAdvisory_C07_FlagsOverrideNoRule(t *testing.T) {
	s, _ := serve(t, func(c *api.Config) { c.ACL = true }, append(owner(`namespace "own" { policy = "write" capabilities = ["sentinel-override"] }`),
		&state.UpsertNamespaces{Namespaces: []*berth.Namespace{{Name: "own", Capabilities: &berth.NamespaceCapabilities{DisabledTaskDrivers: []string{"raw_exec"}}}}})...)
	job := `"Job":{"ID":"x","Namespace":"own","TaskGroups":[{"Name":"g","Tasks":[{"Name":"t","Driver":"raw_exec","Config":{"command":"/bin/true"}}]}]}`
	plain := askAs(s, "secret", "PUT", "/v1/jobs", "{"+job+"}")
	if plain.Code < 400 || !strings.Contains(plain.Body.String(), "raw_exec") {
		t.Fatalf("%d %s", plain.Code, plain.Body)
	}
	for _, flag := range []string{"PolicyOverride", "PreserveCounts", "PreserveResources"} {
		for _, path := range []string{"/v1/jobs", "/v1/job/x"} {
			w := askAs(s, "secret", "PUT", path, "{"+job+`,"`+flag+`":true}`)
			if w.Code != plain.Code || w.Body.String() != plain.Body.String() {
				t.Errorf("%s at %s: %d %s", flag, path, w.Code, w.Body)
			}
		}
	}
	if s.Store.Snapshot().Job(berth.JobKey{Namespace: "own", ID: "x"}) != nil {
		t.Error("the job is there")
	}
}

// C09: a subscription to all namespaces has the events of those that its caller
// may read, those before it and those after.
func TestAdvisory_C09_EventsOfAllNamespaces(t *testing.T) {
	authorize := func(_ api.Caller, c acl.Capability, ns string) error {
		if c == acl.ReadJob && ns == berth.DefaultNamespace {
			return nil
		}
		return berth.Errorf(berth.Denied, "Permission denied")
	}
	foreign := func(t *testing.T, id string, eval int) state.Command {
		return statetest.Register(statetest.Job(t, `{"ID":"`+id+`","Namespace":"canary-space","Meta":{"canary":"canary"},"TaskGroups":[{"Name":"canary","Tasks":[{"Name":"canary","Driver":"mock_driver"}]}]}`), eval)
	}
	streaming(t, events.Limits{}, authorize, func(x *stream) {
		x.Must(x.t, &state.UpsertNamespaces{Namespaces: []*berth.Namespace{{Name: "canary-space"}}}, foreign(x.t, "canary-a", 2))
		for n, query := range []string{"namespace=*", "topic=Job&namespace=*", "topic=*:*&namespace=*", "topic=Job:canary-a&namespace=*", "topic=Evaluation&namespace=*", ""} {
			out, stop := x.ask(query)
			x.Must(x.t, foreign(x.t, fmt.Sprint("canary-b", n), 10+n), small(x.t, fmt.Sprint("mine", n), 100+n))
			synctest.Wait()
			stop()
			all := strings.Join(out.lines(), "\n")
			if strings.Contains(all, "canary") {
				t.Errorf("%q shows events of another namespace: %s", query, all)
			}
			if !strings.Contains(query, "canary") && out.code == http.StatusOK && query != "topic=Evaluation&namespace=*" && !strings.Contains(all, "mine") {
				t.Errorf("%q does not show the caller's own events: %s", query, all)
			}
		}
	})
}

// C18: both searches find nothing in namespaces that the caller has no right in.
func TestAdvisory_C18_SearchFindsNothingForeign(t *testing.T) {
	s, c := inhabited(t)
	contexts := []string{"", "all", "jobs", "evals", "allocs", "deployment", "namespaces", "vars", "groups", "services", "tasks", "nodes", "node_pools", "plugins", "volumes", "scaling_policy", "recommendations", "quotas", "images", "commands", "classes"}
	for _, space := range []string{"own", "canary-space", "*", ""} {
		for _, context := range contexts {
			for _, what := range append([]string{"", "can", "canary", "anary"}, c.ids...) {
				for _, path := range []string{"/v1/search", "/v1/search/fuzzy"} {
					field := "Prefix"
					if path != "/v1/search" {
						field = "Text"
					}
					w := askAs(s, "secret", "PUT", path+"?namespace="+space, fmt.Sprintf(`{%q:%q,"Context":%q}`, field, what, context))
					got := w.Body.String()
					for _, word := range append([]string{"canary-job", "canary-task", "canary-group", "canary/variable", "canary-service", "canary-description"}, c.ids...) {
						if strings.Contains(got, word) {
							t.Errorf("%s %q of %q in %q: %s", path, what, context, space, got)
						}
					}
				}
			}
		}
	}
	if w := askAs(s, "secret", "PUT", "/v1/search?namespace=own", `{"Prefix":"mine","Context":"jobs"}`); !strings.Contains(w.Body.String(), "mine-job") {
		t.Errorf("its own: %d %s", w.Code, w.Body)
	}
}

// C30: job files are not parsed for callers without the right, however they ask.
func TestAdvisory_C30_NothingIsParsedWithoutARight(t *testing.T) {
	s, _ := inhabited(t)
	unread := regexp.MustCompile(`^(JSON: line|namespace: "\*")`) // the body is no JSON, or the request no write
	for _, secret := range []string{"", "wrong"} {
		for _, query := range []string{"", "?namespace=own", "?namespace=*", "?namespace=canary-space"} {
			for _, body := range []string{"", "{", `{"JobHCL":"job \"a\" {}"}`, `{"JobHCL":"` + strings.Repeat("[", 10000) + `"}`} {
				if w := askAs(s, secret, "PUT", "/v1/jobs/parse"+query, body); w.Code != http.StatusForbidden && !(w.Code == http.StatusBadRequest && unread.MatchString(w.Body.String())) {
					t.Errorf("%q%s %.40s: %d %.200s", secret, query, body, w.Code, w.Body)
				}
			}
		}
	}
	if w := askAs(s, "secret", "PUT", "/v1/jobs/parse?namespace=own", `{"JobHCL":"job \"a\" {\ngroup \"g\" {\ntask \"t\" { driver = \"mock_driver\" }\n}\n}"}`); w.Code != http.StatusOK {
		t.Errorf("with the right: %d %s", w.Code, w.Body)
	}
}

// page is the agent of every node: each file is a page with a script.
type page struct{ silent }

// Open implements api.Agents.
func (page) Open(ctx context.Context, _ berth.NodeID, _ string, _ any) (op.Duplex, error) {
	return &one{text: "<html><script>alert(1)</script>"}, nil
}

// one is an answer of one frame.
type one struct {
	op.Duplex
	text string
}

func (o *one) Recv() ([]byte, error) {
	if o.text == "" {
		return nil, io.EOF
	}
	b, err := json.Marshal(&op.StreamFrame{Data: []byte(o.text)})
	o.text = ""
	return b, err
}

func (*one) Close() error { return nil }

// C38: what a task wrote is nothing that a browser runs, whatever it is.
func TestAdvisory_C38_FilesOfTasksAreNoPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := watching(t)
		x.Server.Agents = page{}
		id := x.alloc.ID.String()
		for _, path := range []string{"cat/" + id + "?path=/page.html", "readat/" + id + "?path=/page.html&offset=0&limit=100", "stream/" + id + "?path=/page.html&plain=true&follow=false",
			"stream/" + id + "?path=/page.html&follow=false", "logs/" + id + "?task=t&type=stdout&plain=true", "logs/" + id + "?task=t&type=stdout"} {
			w := askAs(x, "secret", "GET", "/v1/client/fs/"+path, "")
			kind := w.Header().Get("Content-Type")
			if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "script") && !strings.Contains(w.Body.String(), base64.StdEncoding.EncodeToString([]byte("<html>"))[:8]) {
				t.Errorf("%s: %d %s", path, w.Code, w.Body)
			}
			if w.Header().Get("X-Content-Type-Options") != "nosniff" || !slices.Contains([]string{"application/octet-stream", "application/json", "text/plain; charset=utf-8"}, kind) {
				t.Errorf("%s: %v", path, w.Header())
			}
		}
	})
}

// C46: no header that should hold a token makes a request fail in another way
// than being refused.
func TestAdvisory_C46_HostileTokens(t *testing.T) {
	s, _ := inhabited(t)
	for _, tok := range hostileTokens {
		authorized(t, s, tok)
	}
}

// hostileTokens are beginnings of JWTs, claims of all kinds, and noise.
var hostileTokens = func() (out []string) {
	enc := base64.RawURLEncoding.EncodeToString
	for _, header := range []string{"", "{}", "null", "[]", `{"alg":"none"}`, `{"alg":"EdDSA","kid":"x"}`, `{"alg":"HS256","kid":null}`, `{"alg":7}`, "{", strings.Repeat("[", 5000)} {
		for _, claims := range []string{"", "{}", "null", "[]", `{"sub":7}`, `{"nomad_allocation_id":"x"}`, `{"nomad_node_id":"","exp":-1}`, `{"aud":{}}`, `{"exp":1e400}`} {
			out = append(out, enc([]byte(header))+"."+enc([]byte(claims))+".", enc([]byte(header))+"."+enc([]byte(claims))+"."+enc(make([]byte, 64)))
		}
	}
	return append(out, "", ".", "..", "...", "eyJ", "eyJ.", "eyJ..", "Bearer", "\x00", strings.Repeat("a", 30000), strings.Repeat(".", 1000), "6c2a1b34-0000-4000-8000-000000000000", "6c2a1b34-", "%00", "é.é.é")
}()

// asks counts the requests of authorized.
var asks int

// authorized asks with a token in each place where one can be.
func authorized(t *testing.T, s http.Handler, tok string) {
	t.Helper()
	for header, value := range map[string]string{op.HeaderToken: tok, "Authorization": "Bearer " + tok, "Sec-WebSocket-Protocol": "berth, berth.token." + tok} {
		for _, path := range []string{"/v1/acl/whoami", "/v1/acl/token/self", "/v1/jobs", "/v1/vars?namespace=own", "/v1/agent/self"} {
			r := httptest.NewRequest("GET", path, nil)
			r.Header[http.CanonicalHeaderKey(header)] = []string{value}
			asks++
			r.RemoteAddr = fmt.Sprintf("10.%d.%d.%d:1", asks>>16&255, asks>>8&255, asks&255) // else it is refused as one who guesses
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			if w.Code != http.StatusForbidden && w.Code != http.StatusTooManyRequests && w.Code != http.StatusBadRequest && w.Code != http.StatusOK {
				t.Errorf("%s: %.80q at %s: %d %s", header, value, path, w.Code, w.Body)
			}
			nobody := strings.TrimSpace(w.Body.String()) == "[]" || strings.HasPrefix(w.Body.String(), `{"AccessorID":"anonymous",`)
			if w.Code == http.StatusOK && path != "/v1/acl/whoami" && !nobody {
				t.Errorf("%s: %.80q at %s is let in: %s", header, value, path, w.Body)
			}
		}
	}
}

// FuzzTokens: whatever stands where a token can, it is refused.
func FuzzTokens(f *testing.F) {
	for _, tok := range hostileTokens {
		f.Add(tok)
	}
	var s *api.Server
	f.Fuzz(func(t *testing.T, tok string) {
		if strings.TrimSpace(tok) == "secret" || strings.TrimSpace(tok) == "another" {
			return
		}
		if s == nil {
			s, _ = inhabited(t)
		}
		authorized(t, s, tok)
	})
}

// owner returns the commands that make a token with the secret "secret" and rules.
func owner(rules string) []state.Command {
	return []state.Command{policy(rules), &state.UpsertACLTokens{Tokens: []*berth.ACLToken{{
		AccessorID: accessor, SecretHash: sha256.Sum256([]byte("secret")), Type: berth.TokenClient, Policies: []string{"mine"},
	}}}}
}

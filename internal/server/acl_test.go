package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"berth"
	"berth/internal/api"
	"berth/internal/peer"
	"berth/internal/server"
	"berth/op"

	nomad "github.com/hashicorp/nomad/api"
)

// guarded starts a server with access control, and returns its client with the
// first token.
func guarded(t *testing.T) (r *running, secret string) {
	r = startWith(t, t.TempDir(), func(c *server.Config) { c.ACL = true })
	boot, _, err := r.api.ACLTokens().Bootstrap(nil)
	if err != nil || boot.SecretID == "" || boot.Type != "management" {
		t.Fatalf("%+v (%v)", boot, err)
	}
	if _, _, err := r.api.ACLTokens().Bootstrap(nil); err == nil || !strings.Contains(err.Error(), "ACL bootstrap already done (reset index: ") {
		t.Errorf("a second bootstrap: %v", err)
	}
	r.api.SetSecretID(boot.SecretID)
	return r, boot.SecretID
}

// token makes a client token with the rules of a policy.
func (r *running) token(name, rules string, ttl time.Duration) *nomad.ACLToken {
	r.t.Helper()
	if _, err := r.api.ACLPolicies().Upsert(&nomad.ACLPolicy{Name: name, Rules: rules}, nil); err != nil {
		r.t.Fatal(err)
	}
	tok, _, err := r.api.ACLTokens().Create(&nomad.ACLToken{Name: name, Type: "client", Policies: []string{name}, ExpirationTTL: ttl}, nil)
	if err != nil || tok.SecretID == "" || tok.AccessorID == "" {
		r.t.Fatalf("%+v (%v)", tok, err)
	}
	return tok
}

// As returns a client with another token.
func (r *running) as(secret string) *nomad.Client {
	r.t.Helper()
	c, err := nomad.NewClient(&nomad.Config{Address: r.api.Address(), SecretID: secret})
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

// denied checks that a call was refused for lack of rights.
func denied(t *testing.T, what string, err error) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), "403") {
		t.Errorf("%s: %v, want a refusal with 403", what, err)
	}
}

// Tokens, policies and roles through Nomad's Go client; what they allow, what
// they do not, and what each caller sees.
func TestAccessControlThroughTheGoClient(t *testing.T) {
	r, root := guarded(t)
	for _, ns := range []string{"team-a", "team-b", "canary-space"} {
		if _, err := r.api.Namespaces().Register(&nomad.Namespace{Name: ns}, nil); err != nil {
			t.Fatal(err)
		}
	}
	job := func(id string) *nomad.Job {
		g := nomad.NewTaskGroup("g", 1).AddTask(nomad.NewTask("t", "mock_driver"))
		return &nomad.Job{ID: &id, Name: &id, TaskGroups: []*nomad.TaskGroup{g}}
	}
	for _, ns := range []string{"team-a", "team-b", "canary-space"} {
		if _, _, err := r.api.Jobs().Register(job("job-of-"+ns), &nomad.WriteOptions{Namespace: ns}); err != nil {
			t.Fatal(err)
		}
	}
	tok := r.token("a", `namespace "team-a" { policy = "write" } namespace "team-b" { capabilities = ["list-jobs"] }`, 0)
	a, anyone, wrong := r.as(tok.SecretID), r.as(""), r.as("6c2a1b34-0000-4000-8000-000000000000")

	// Own namespace: everything. Another: what was granted. A third: nothing.
	qa, qb, qc := &nomad.QueryOptions{Namespace: "team-a"}, &nomad.QueryOptions{Namespace: "team-b"}, &nomad.QueryOptions{Namespace: "canary-space"}
	if _, _, err := a.Jobs().Register(job("job-of-team-a"), &nomad.WriteOptions{Namespace: "team-a"}); err != nil {
		t.Error(err)
	}
	if _, _, err := a.Jobs().Info("job-of-team-a", qa); err != nil {
		t.Error(err)
	}
	if list, _, err := a.Jobs().List(qb); err != nil || len(list) != 1 {
		t.Errorf("%d jobs (%v)", len(list), err)
	}
	_, _, err := a.Jobs().Info("job-of-team-b", qb)
	denied(t, "a job of team-b", err)
	if err != nil && !strings.Contains(err.Error(), `the token lacks read-job in namespace "team-b"`) {
		t.Errorf("the refusal does not name what is missing: %v", err)
	}
	for _, id := range []string{"job-of-canary-space", "absent"} { // what is there looks like what is not
		_, _, err = a.Jobs().Info(id, qc)
		denied(t, id, err)
		if err != nil && strings.Contains(err.Error(), "read-job") {
			t.Errorf("the refusal names what is missing to a stranger: %v", err)
		}
	}
	_, _, err = a.Jobs().Register(job("x"), &nomad.WriteOptions{Namespace: "team-b"})
	denied(t, "register in team-b", err)
	_, _, err = a.Nodes().List(nil)
	denied(t, "nodes", err)
	_, err = a.Namespaces().Register(&nomad.Namespace{Name: "mine"}, nil)
	denied(t, "make a namespace", err)
	_, _, err = a.ACLTokens().List(nil)
	denied(t, "list tokens", err)
	_, _, err = a.ACLTokens().Create(&nomad.ACLToken{Type: "management"}, nil)
	denied(t, "make a token", err)

	// Lists over all namespaces have what the caller may see, and no foreign name.
	for _, path := range []string{"/v1/jobs?namespace=*", "/v1/namespaces", "/v1/evaluations?namespace=*", "/v1/allocations?namespace=*", "/v1/deployments?namespace=*", "/v1/acl/policies", "/v1/services?namespace=*"} {
		body := r.get(path, tok.SecretID)
		if strings.Contains(body, "canary-space") {
			t.Errorf("%s names what the caller may not see: %s", path, body)
		}
	}
	if list, _, err := a.Jobs().List(&nomad.QueryOptions{Namespace: "*"}); err != nil || len(list) != 2 {
		t.Errorf("%d jobs in all namespaces (%v)", len(list), err)
	}
	if list, _, err := a.Namespaces().List(nil); err != nil || len(list) != 2 {
		t.Errorf("%d namespaces (%v)", len(list), err)
	}

	// Without a token, and with one that is none.
	_, _, err = anyone.Jobs().List(nil)
	denied(t, "without a token", err)
	_, _, err = anyone.Jobs().List(&nomad.QueryOptions{Namespace: "*"})
	denied(t, "without a token, all namespaces", err)
	_, _, err = wrong.Namespaces().List(nil)
	denied(t, "with a wrong token", err)
	if _, err := r.api.ACLPolicies().Upsert(&nomad.ACLPolicy{Name: "anonymous", Rules: `namespace "team-b" { policy = "read" }`}, nil); err != nil {
		t.Fatal(err)
	}
	if list, _, err := anyone.Jobs().List(qb); err != nil || len(list) != 1 {
		t.Errorf("with the anonymous policy: %d jobs (%v)", len(list), err)
	}

	// The secret is shown once; the holder sees its own token and policies.
	self, _, err := a.ACLTokens().Self(nil)
	if err != nil || self.AccessorID != tok.AccessorID || self.SecretID != "" || self.Policies[0] != "a" {
		t.Errorf("self is %+v (%v)", self, err)
	}
	if own, _, err := a.ACLPolicies().Self(nil); err != nil || len(own) != 1 || own[0].Name != "a" {
		t.Errorf("own policies: %+v (%v)", own, err)
	}
	if p, _, err := a.ACLPolicies().Info("a", nil); err != nil || !strings.Contains(p.Rules, "team-a") {
		t.Errorf("%+v (%v)", p, err)
	}
	_, _, err = a.ACLPolicies().Info("anonymous", nil)
	denied(t, "a policy of others", err)
	if body := r.get("/v1/acl/tokens", root); strings.Contains(body, tok.SecretID) || !strings.Contains(body, tok.AccessorID) {
		t.Errorf("the list of tokens: %s", body)
	}

	// A role grants what its policies do, at once.
	role, _, err := r.api.ACLRoles().Create(&nomad.ACLRole{Name: "readers", Policies: []*nomad.ACLRolePolicyLink{{Name: "anonymous"}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	tok.Roles = []*nomad.ACLTokenRoleLink{{ID: role.ID}}
	if _, _, err := r.api.ACLTokens().Update(&nomad.ACLToken{AccessorID: tok.AccessorID, Name: "a", Type: "client", Policies: tok.Policies, Roles: tok.Roles}, nil); err != nil {
		t.Fatal(err)
	}
	if _, _, err := a.Jobs().Info("job-of-team-b", qb); err != nil {
		t.Errorf("what the role grants beside the policy: %v", err)
	}
	if _, err := r.api.ACLPolicies().Delete("a", nil); err != nil {
		t.Fatal(err)
	}
	if _, _, err := a.Jobs().Info("job-of-team-b", qb); err != nil {
		t.Errorf("the role does not grant: %v", err)
	}
	_, _, err = a.Jobs().Info("job-of-team-a", qa)
	denied(t, "with a policy that was deleted", err)
	if _, err := r.api.ACLTokens().Delete(tok.AccessorID, nil); err != nil {
		t.Fatal(err)
	}
	_, _, err = a.Jobs().List(qb)
	denied(t, "with a token that was deleted", err)
}

// A request that waits, and a stream, end when their token does.
func TestWaitingEndsWithTheToken(t *testing.T) {
	r, _ := guarded(t)
	tok := r.token("reader", `namespace "default" { policy = "read" }`, 0)
	c := r.as(tok.SecretID)
	list, meta, err := c.Namespaces().List(nil)
	if err != nil || len(list) != 1 || meta.LastIndex == 0 {
		t.Fatal(list, err)
	}
	events, err := http.NewRequest("GET", r.api.Address()+"/v1/event/stream?topic=Job", nil)
	if err != nil {
		t.Fatal(err)
	}
	events.Header.Set("Authorization", "Bearer "+tok.SecretID)
	stream, err := http.DefaultClient.Do(events)
	if err != nil || stream.StatusCode != 200 {
		t.Fatal(stream, err)
	}
	defer stream.Body.Close()
	ended := make(chan error, 2)
	go func() {
		_, _, err := c.Namespaces().List(&nomad.QueryOptions{WaitIndex: meta.LastIndex, WaitTime: 5 * time.Minute})
		ended <- err
	}()
	go func() {
		io.Copy(io.Discard, stream.Body)
		ended <- fmt.Errorf("403")
	}()
	if _, err := r.api.ACLTokens().Delete(tok.AccessorID, nil); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		select {
		case err := <-ended:
			denied(t, "a query that waited", err)
		case <-time.After(2 * time.Minute):
			t.Fatal("a request outlives its token")
		}
	}
}

// get returns the body of an answer.
func (r *running) get(path, secret string) string {
	r.t.Helper()
	req, err := http.NewRequest("GET", r.api.Address()+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("X-Nomad-Token", secret)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 {
		r.t.Errorf("%s: %s (%v)", path, resp.Status, err)
	}
	return string(body)
}

// With access control an agent has a server decide about the allocations that it
// runs itself, too: only servers know their namespaces.
func TestAnAgentDoesNotDecideAboutItsAllocations(t *testing.T) {
	asked := make(chan string, 1)
	h := api.NewAgent(api.AgentConfig{
		Region: "global", Logger: slog.New(slog.DiscardHandler), ACL: true,
		Has: func(string) bool { return true }, Node: func() berth.NodeID { return berth.NodeID{1} },
		Connect: func(context.Context) (peer.Conn, error) { return nil, errors.New("no way to a server") },
		Agents:  nobody{asked},
	})
	const id = "6c2a1b34-0000-4000-8000-000000000000"
	for _, path := range []string{"fs/ls/" + id + "?path=/", "fs/cat/" + id + "?path=/f", "fs/stream/" + id + "?path=/f", "allocation/" + id + "/stats", "fs/logs/" + id + "?task=t&type=stdout"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/v1/client/"+path, nil))
		if !strings.Contains(w.Body.String(), "no server is reachable") {
			t.Errorf("%s: %d %s, want that a server is asked to answer", path, w.Code, w.Body)
		}
	}
	if len(asked) > 0 {
		t.Error("the agent was asked for " + <-asked)
	}
}

// nobody notes what is called at an agent.
type nobody struct{ asked chan string }

// Agent implements api.Agents.
func (n nobody) Agent(berth.NodeID) op.Caller { n.asked <- "a call"; return nil }

// Open implements api.Agents.
func (n nobody) Open(_ context.Context, _ berth.NodeID, method string, _ any) (op.Duplex, error) {
	n.asked <- method
	return nil, errors.New("not here")
}

package server_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"berth/internal/acl"
	"berth/internal/api"
	"berth/internal/server"
	"berth/op"

	nomad "github.com/hashicorp/nomad/api"
)

// The tests of this file are rows of docs/advisories.md.

// endless are reads whose answer may never end.
var endless = map[string]bool{op.StreamEvents.Name: true, op.ReadLogs.Name: true, op.FollowFile.Name: true, op.CatFile.Name: true, op.ReadFile.Name: true, op.Monitor.Name: true}

// everything is what a request for anything over HTTP is answered, read by read.
func (r *running) everything(t *testing.T, secret string, names map[string]string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, i := range op.All() {
		if i.Path == "" || !i.IsRead() || strings.HasPrefix(i.Name, "failpoint.") || i.Bytes || endless[i.Name] {
			continue
		}
		path := i.Path
		for k, v := range names {
			path = strings.ReplaceAll(path, "{"+k+"}", v)
		}
		if strings.Contains(path, "{") {
			continue
		}
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, i.Method, r.http+path+"?namespace=*&resources=true&task_states=true", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(op.HeaderToken, secret)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(i.Name, err)
		}
		b, err := io.ReadAll(io.LimitReader(resp.Body, 4<<20))
		resp.Body.Close()
		cancel()
		if err != nil {
			t.Fatal(i.Name, err)
		}
		out[i.Name] = string(b)
	}
	return out
}

// C10: the identity of a task, with which one can act as that task, is in the answer
// to its agent alone: no row, no view and no list has it.
func TestAdvisory_C10_IdentitiesAreNotShown(t *testing.T) {
	r, secret := guarded(t)
	n := r.node(1)
	jwt, alloc := r.identityOf("web", n)
	parts := strings.Split(jwt, ".")
	names := map[string]string{"JobID": "web", "AllocID": alloc.ID, "EvalID": alloc.EvalID, "NodeID": alloc.NodeID}
	answers := r.everything(t, secret, names)
	if len(answers) < 60 || !strings.Contains(answers["alloc.read"]+answers["alloc.get"], alloc.ID) {
		t.Errorf("%d answers; the allocation is %s", len(answers), answers["alloc.read"]+answers["alloc.get"])
	}
	for name, text := range answers {
		for _, part := range []string{parts[1], parts[2], n.SecretID, secret} {
			if strings.Contains(text, part) {
				t.Errorf("%s shows a secret: %.300s", name, text)
			}
		}
	}
}

// lines is a log that can be read at any time.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// C19: no log has a token, whether it is good, wrong, expired or asked for wrongly.
func TestAdvisory_C19_LogsHaveNoTokens(t *testing.T) {
	var log lines
	r := startWith(t, t.TempDir(), func(c *server.Config) {
		c.ACL = true
		c.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	boot, _, err := r.api.ACLTokens().Bootstrap(nil)
	if err != nil {
		t.Fatal(err)
	}
	r.api.SetSecretID(boot.SecretID)
	n := r.node(1)
	tok := r.token("reader", `namespace "default" { policy = "read" }`, 0)
	once, _, err := r.api.ACLTokens().UpsertOneTimeToken(nil)
	if err != nil {
		t.Fatal(err)
	}
	const wrong = "6c2a1b34-aaaa-4000-8000-00000000beef"
	secrets := []string{boot.SecretID, tok.SecretID, once.OneTimeSecretID, wrong, n.SecretID, "canary-value"}
	for _, secret := range secrets {
		c := r.as(secret)
		_, _, _ = c.Jobs().List(nil)
		_, _, _ = c.Nodes().List(nil)
		_, _, _ = c.Variables().Create(&nomad.Variable{Path: "p", Items: nomad.VariableItems{"k": "canary-value"}}, nil)
		_, _, _ = c.ACLTokens().ExchangeOneTimeToken(secret, nil)
		_, _, _ = c.ACLTokens().Create(&nomad.ACLToken{Type: "none", SecretID: secret}, nil)
		for _, path := range []string{"/v1/jobs?token=" + secret, "/v1/acl/token/" + secret, "/v1/var/" + secret, "/v1/" + secret} {
			if resp, err := http.Get(r.http + path); err == nil {
				resp.Body.Close()
			}
		}
	}
	if _, err := r.api.ACLTokens().Delete(tok.AccessorID, nil); err != nil {
		t.Fatal(err)
	}
	_, _, _ = r.as(tok.SecretID).Jobs().List(nil)
	r.stop()
	text := log.String()
	if !strings.Contains(text, "level=") {
		t.Errorf("the log is %q", text)
	}
	for i, secret := range secrets {
		if strings.Contains(text, secret) {
			t.Errorf("the log has secret %d of %v: %s", i, secrets, text)
		}
	}
}

// C20: what a caller without a token asks an agent that is no server is refused as a
// server refuses it: the agent lends nobody its own rights, for no operation.
func TestAdvisory_C20_AgentsLendNoRights(t *testing.T) {
	r, _ := guarded(t)
	f := r.follow(func(c *api.AgentConfig) { c.ACL = true })
	tried, refused := 0, 0
	for _, i := range op.All() {
		if i.Path == "" || i.Need == acl.Open || strings.HasPrefix(i.Name, "failpoint.") {
			continue
		}
		path := i.Path
		for _, p := range []string{"{NodeID}"} {
			path = strings.ReplaceAll(path, p, f.agent.NodeID().String())
		}
		for strings.Contains(path, "{") {
			at := strings.Index(path, "{")
			path = path[:at] + "6c2a1b34-0000-4000-8000-000000000000" + path[at+strings.Index(path[at:], "}")+1:]
		}
		ask := func(door string) (int, string) {
			req, err := http.NewRequestWithContext(t.Context(), i.Verb(), door+path+"?node_id="+f.agent.NodeID().String()+"&task=t&type=stdout", strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(i.Name, err)
			}
			defer resp.Body.Close()
			b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
			if err != nil {
				t.Fatal(i.Name, err)
			}
			return resp.StatusCode, string(b)
		}
		tried++
		direct, own := ask(r.http)
		through, text := ask(f.http)
		if through < 300 && (direct != through || own != text) {
			t.Errorf("%s: a server answers %d %s, the agent %d %s", i.Name, direct, own, through, text)
		}
		if direct == http.StatusForbidden {
			refused++
			if through < 400 {
				t.Errorf("%s: a server refuses it, the agent answers %d %s", i.Name, through, text)
			}
		}
	}
	if tried < 100 || refused < 80 {
		t.Errorf("only %d operations were tried, and %d refused", tried, refused)
	}
}

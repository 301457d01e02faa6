package server_test

import (
	"strings"
	"testing"
	"time"

	"berth"
	"berth/op"

	nomad "github.com/hashicorp/nomad/api"
)

// identityOf starts a job of one allocation in a cluster with access control, and
// returns the identity of its task, and the allocation.
func (r *running) identityOf(job string, n *node) (jwt string, alloc *nomad.AllocationListStub) {
	r.t.Helper()
	if _, _, err := r.api.Jobs().Register(napper(job, 1), nil); err != nil {
		r.t.Fatal(err)
	}
	r.until(job+" is placed", func() bool {
		list, _, err := r.api.Jobs().Allocations(job, false, nil)
		if err == nil && len(list) == 1 {
			alloc = list[0]
		}
		return alloc != nil
	})
	id, err := berth.ParseID[berth.Alloc](alloc.ID)
	if err != nil {
		r.t.Fatal(err)
	}
	var out op.IdentitiesSigned
	in := &op.SignIdentities{NodeID: n.ID, Query: op.Query{AuthToken: n.SecretID}, Identities: []op.IdentityRequest{{AllocID: id, TaskName: "app"}}}
	if err := n.session.Call(r.t.Context(), op.Sign.RPC, in, &out); err != nil || len(out.SignedIdentities) != 1 {
		r.t.Fatal(out, err)
	}
	return out.SignedIdentities[0].JWT, alloc
}

// A task's identity is a token: it reads the task's own variables and the services
// of its namespace, and has what the policies grant that are bound to it by exact
// names; nothing else, and never everything.
func TestAdvisory_C06_C21_C22_C26_IdentitiesAsTokens(t *testing.T) {
	r, _ := guarded(t)
	n := r.node(1)
	jwt, _ := r.identityOf("web", n)
	other, _ := r.identityOf("web-2", n)
	task, stranger := r.as(jwt), r.as(other)
	group := *napper("web", 1).TaskGroups[0].Name
	for _, path := range []string{"nomad/jobs", "nomad/jobs/web", "nomad/jobs/web/" + group, "nomad/jobs/web/" + group + "/app", "nomad/jobs/web-2", "nomad/jobs/web/other", "free"} {
		if _, _, err := r.api.Variables().Create(&nomad.Variable{Path: path, Items: nomad.VariableItems{"k": path}}, nil); err != nil {
			t.Fatal(path, err)
		}
	}
	for _, path := range []string{"nomad/jobs", "nomad/jobs/web", "nomad/jobs/web/" + group, "nomad/jobs/web/" + group + "/app"} {
		if v, _, err := task.Variables().Read(path, nil); err != nil || v.Items["k"] != path {
			t.Errorf("its own variable %s: %v", path, err)
		}
	}
	for _, path := range []string{"nomad/jobs/web-2", "nomad/jobs/web/other", "free", "nomad/jobs/we", "absent"} {
		_, _, err := task.Variables().Peek(path, nil)
		denied(t, "variable "+path, err)
	}
	if list, _, err := task.Variables().List(nil); err != nil || len(list) != 4 {
		t.Errorf("it lists %d variables (%v)", len(list), err)
	}
	if _, _, err := task.Services().List(nil); err != nil {
		t.Errorf("services of its namespace: %v", err)
	}
	_, _, err := task.Services().List(&nomad.QueryOptions{Namespace: "elsewhere"})
	denied(t, "services of another namespace", err)
	refused := func(what string, c *nomad.Client) {
		t.Helper()
		_, _, err := c.Jobs().Info("web", nil)
		denied(t, what+": a job", err)
		_, _, err = c.Nodes().List(nil)
		denied(t, what+": nodes", err)
		_, _, err = c.ACLTokens().List(nil)
		denied(t, what+": tokens", err)
		_, _, err = c.ACLTokens().UpsertOneTimeToken(nil)
		denied(t, what+": a one-time token", err)
	}
	refused("without a policy", task)
	if self, _, err := task.ACLTokens().Self(nil); err != nil || self.Type != "client" || !strings.HasPrefix(self.Name, "Workload identity of default/web/") {
		t.Errorf("%+v (%v)", self, err)
	}

	bind := func(name, rules string, to nomad.JobACL) {
		t.Helper()
		if _, err := r.api.ACLPolicies().Upsert(&nomad.ACLPolicy{Name: name, Rules: rules, JobACL: &to}, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, bad := range []nomad.JobACL{{JobID: "web"}, {Namespace: "default"}, {Namespace: "default", JobID: "web", Task: "app"}} {
		if _, err := r.api.ACLPolicies().Upsert(&nomad.ACLPolicy{Name: "bad", Rules: `node { policy = "read" }`, JobACL: &bad}, nil); err == nil || !strings.Contains(err.Error(), "JobACL") {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	bind("of-we", `node { policy = "read" }`, nomad.JobACL{Namespace: "default", JobID: "we"})
	bind("of-web-3", `node { policy = "read" }`, nomad.JobACL{Namespace: "default", JobID: "web-3"})
	bind("of-elsewhere", `node { policy = "read" }`, nomad.JobACL{Namespace: "elsewhere", JobID: "web"})
	bind("of-group", `node { policy = "read" }`, nomad.JobACL{Namespace: "default", JobID: "web", Group: group + "x"})
	bind("of-task", `node { policy = "read" }`, nomad.JobACL{Namespace: "default", JobID: "web", Group: group, Task: "ap"})
	refused("with policies of others", task)
	bind("of-web", `namespace "*" { policy = "read" } node { policy = "read" }`, nomad.JobACL{Namespace: "default", JobID: "web", Group: group, Task: "app"})
	if _, _, err := task.Jobs().Info("web", nil); err != nil {
		t.Errorf("what the bound policy grants: %v", err)
	}
	if _, _, err := task.Nodes().List(nil); err != nil {
		t.Error(err)
	}
	refused("a job whose name begins the same", stranger)
	if v, _, err := task.Variables().Read("nomad/jobs/web", nil); err != nil || v.Items["k"] != "nomad/jobs/web" {
		t.Errorf("its own variable beside a policy: %v", err)
	}
	if list, _, err := r.api.ACLPolicies().List(nil); err != nil || list[0].JobACL == nil {
		t.Errorf("%+v (%v)", list, err)
	}
	bind("deny", `namespace "default" { variables { path "nomad/jobs/web" { capabilities = ["deny"] } } }`, nomad.JobACL{Namespace: "default", JobID: "web"})
	_, _, err = task.Variables().Peek("nomad/jobs/web", nil)
	denied(t, "its own variable, which a policy denies", err)
	if _, _, err := task.Variables().Peek("nomad/jobs", nil); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{jwt + "x", jwt[:len(jwt)-4] + "AAAA", "..", "a.b.c", strings.Repeat(".", 2)} {
		_, _, err := r.as(bad).Variables().Peek("nomad/jobs", nil)
		denied(t, "a forged identity", err)
	}
}

// An identity ends with its allocation, and so does what waits with it.
func TestAnIdentityEndsWithItsAllocation(t *testing.T) {
	r, _ := guarded(t)
	n := r.node(1)
	jwt, _ := r.identityOf("web", n)
	task := r.as(jwt)
	_, meta, err := task.Services().List(nil)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, _, err := task.Services().List(&nomad.QueryOptions{WaitIndex: max(meta.LastIndex, 1), WaitTime: 5 * time.Minute})
		ended <- err
	}()
	if _, _, err := r.api.Jobs().Deregister("web", false, nil); err != nil {
		t.Fatal(err)
	}
	n.reports(berth.ClientComplete)
	select {
	case err := <-ended:
		denied(t, "a query that waited", err)
	case <-time.After(2 * time.Minute):
		t.Fatal("a request outlives the allocation of its identity")
	}
	_, _, err = task.Services().List(nil)
	denied(t, "afterwards", err)
}

// A one-time token is exchanged for the token that it stands for, once.
func TestOneTimeTokensThroughTheGoClient(t *testing.T) {
	r, _ := guarded(t)
	tok := r.token("reader", `namespace "default" { policy = "read" }`, 0)
	ann, anyone := r.as(tok.SecretID), r.as("")
	ott, _, err := ann.ACLTokens().UpsertOneTimeToken(nil)
	if err != nil || ott.AccessorID != tok.AccessorID || ott.OneTimeSecretID == "" || ott.OneTimeSecretID == tok.SecretID || time.Until(ott.ExpiresAt) > 10*time.Minute {
		t.Fatalf("%+v (%v)", ott, err)
	}
	_, _, err = anyone.ACLTokens().UpsertOneTimeToken(nil)
	denied(t, "without a token", err)
	_, _, err = anyone.ACLTokens().ExchangeOneTimeToken(tok.AccessorID, nil)
	denied(t, "a guess", err)
	got, _, err := anyone.ACLTokens().ExchangeOneTimeToken(ott.OneTimeSecretID, nil)
	if err != nil || got.SecretID != tok.SecretID || got.AccessorID != tok.AccessorID {
		t.Fatalf("%+v (%v)", got, err)
	}
	_, _, err = anyone.ACLTokens().ExchangeOneTimeToken(ott.OneTimeSecretID, nil)
	denied(t, "twice", err)
}

// A token can be uploaded with its IDs, as one of type client.
func TestTokensAreUploaded(t *testing.T) {
	r, _ := guarded(t)
	r.token("reader", `namespace "default" { policy = "read" }`, 0)
	up := nomad.ACLToken{
		AccessorID: "6c2a1b34-0000-4000-8000-000000000001", SecretID: "6c2a1b34-0000-4000-8000-000000000002", Name: "mine", Type: "client", Policies: []string{"reader"},
	}
	if tok, _, err := r.api.ACLTokens().Upload(&up, nil); err != nil || tok.AccessorID != up.AccessorID || tok.SecretID != up.SecretID {
		t.Fatalf("%+v (%v)", tok, err)
	}
	if _, _, err := r.as(up.SecretID).Jobs().List(nil); err != nil {
		t.Error(err)
	}
	again := up
	again.SecretID = "6c2a1b34-0000-4000-8000-000000000003"
	if _, _, err := r.api.ACLTokens().Upload(&again, nil); err == nil || !strings.Contains(err.Error(), "cannot be changed") {
		t.Errorf("another secret for the same token: %v", err)
	}
	for want, bad := range map[string]nomad.ACLToken{
		`AccessorID: must be a UUID, got "mine"`: {AccessorID: "mine", SecretID: up.SecretID, Type: "client", Policies: []string{"reader"}},
		"SecretID: must be a UUID":               {AccessorID: "6c2a1b34-0000-4000-8000-000000000004", SecretID: "guess me", Type: "client", Policies: []string{"reader"}},
		"another token has this secret":          {AccessorID: "6c2a1b34-0000-4000-8000-000000000004", SecretID: up.SecretID, Type: "client", Policies: []string{"reader"}},
	} {
		if _, _, err := r.api.ACLTokens().Upload(&bad, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

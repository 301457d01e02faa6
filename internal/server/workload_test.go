package server_test

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"berth"
	"berth/internal/server"
	"berth/op"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	nomad "github.com/hashicorp/nomad/api"
)

// A task gets an identity that anybody can verify with the published keys, and
// only the node that runs it gets it.
func TestWorkloadIdentities(t *testing.T) {
	r := startWith(t, t.TempDir(), func(c *server.Config) { c.Issuer = "https://berth.example" })
	n, other := r.node(1), r.node(2)
	job := napper("web", 1)
	job.TaskGroups[0].Tasks[0].Identities = []*nomad.WorkloadIdentity{{Env: true}, {Name: "aws", Audience: []string{"sts"}, TTL: time.Hour, File: true}}
	if _, _, err := r.api.Jobs().Register(job, nil); err != nil {
		t.Fatal(err)
	}
	var alloc *nomad.AllocationListStub
	r.until("it is placed", func() bool {
		list, _, err := r.api.Jobs().Allocations("web", false, nil)
		if err == nil && len(list) == 1 {
			alloc = list[0]
		}
		return alloc != nil
	})
	if alloc.NodeID == other.ID.String() {
		n, other = other, n
	}
	id, err := berth.ParseID[berth.Alloc](alloc.ID)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(x *node, names ...string) (out op.IdentitiesSigned, err error) {
		in := &op.SignIdentities{NodeID: x.ID, Query: op.Query{AuthToken: x.SecretID}}
		for _, name := range names {
			in.Identities = append(in.Identities, op.IdentityRequest{AllocID: id, TaskName: "app", Identity: name})
		}
		err = x.session.Call(t.Context(), op.Sign.RPC, in, &out)
		return out, err
	}
	out, err := ask(n, "default", "aws")
	if err != nil || len(out.SignedIdentities) != 2 {
		t.Fatalf("%+v, %v", out, err)
	}
	resp, err := http.Get(r.http + "/.well-known/jwks.json")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var set jose.JSONWebKeySet
	if err := json.NewDecoder(resp.Body).Decode(&set); err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct{ name, aud string }{{"default", "nomadproject.io"}, {"aws", "sts"}} {
		token, err := jwt.ParseSigned(out.SignedIdentities[i].JWT, []jose.SignatureAlgorithm{jose.EdDSA})
		if err != nil {
			t.Fatal(err)
		}
		var claims jwt.Claims
		var more struct {
			Namespace string `json:"nomad_namespace"`
			Job       string `json:"nomad_job_id"`
			Task      string `json:"nomad_task"`
			Alloc     string `json:"nomad_allocation_id"`
		}
		if err := token.Claims(set, &claims, &more); err != nil {
			t.Fatal(err)
		}
		if claims.Subject != "global:default:web:g:app:"+want.name || !claims.Audience.Contains(want.aud) || claims.Issuer != "https://berth.example" || claims.ID == "" {
			t.Errorf("%s: %+v", want.name, claims)
		}
		if more.Namespace != "default" || more.Job != "web" || more.Task != "app" || more.Alloc != alloc.ID {
			t.Errorf("%s: %+v", want.name, more)
		}
		if expires := claims.Expiry != nil; expires != (want.name == "aws") || expires == out.SignedIdentities[i].Expiration.IsZero() {
			t.Errorf("%s: it expires at %v, and the agent is told %s", want.name, claims.Expiry, out.SignedIdentities[i].Expiration)
		}
	}
	// What anybody can see of the allocation has no token in it.
	shown, err := http.Get(r.http + "/v1/allocation/" + alloc.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer shown.Body.Close()
	if text, err := io.ReadAll(shown.Body); err != nil || strings.Contains(string(text), "eyJ") {
		t.Errorf("the allocation shows %s, %v", text, err)
	}

	if _, err := ask(other, "default"); berth.KindOf(err) != berth.Denied {
		t.Errorf("another node: %v", err)
	}
	if _, err := ask(n, "none"); berth.KindOf(err) != berth.NotFound {
		t.Errorf("an identity that the job does not describe: %v", err)
	}
	wrong := &node{n.t, n.session, &berth.Node{ID: n.ID, SecretID: "wrong"}}
	if _, err := ask(wrong, "default"); berth.KindOf(err) != berth.Denied {
		t.Errorf("a wrong secret: %v", err)
	}
	n.report(&nomad.Allocation{ID: alloc.ID}, berth.ClientComplete)
	if _, err := ask(n, "default"); berth.KindOf(err) != berth.Denied {
		t.Errorf("of an allocation that has ended: %v", err)
	}
	found, err := http.Get(r.http + "/.well-known/openid-configuration")
	if err != nil {
		t.Fatal(err)
	}
	defer found.Body.Close()
	var about op.Discovery
	if err := json.NewDecoder(found.Body).Decode(&about); err != nil || about.JWKS != "https://berth.example/.well-known/jwks.json" || about.Issuer != "https://berth.example" {
		t.Errorf("%+v, %v", about, err)
	}
}

// An identity has the extra claims that its namespace requires, and those of its
// optional ones that it asks for. Who changes the namespace changes what is signed
// next, and jobs that ask for others are refused.
func TestExtraClaims(t *testing.T) {
	r := start(t, t.TempDir())
	n := r.node(1)
	space := &nomad.Namespace{
		Name:                "default",
		RequiredExtraClaims: map[string]string{"who": "${job.region}/${job.namespace}/${job.id}/${group.name}/${task.name}", "customer": "<${job.meta.customer}${job.meta.none}>"},
		OptionalExtraClaims: map[string]string{"where": "${node.datacenter}+${node.pool}+${node.class}+${job.node_pool}", "ids": "${alloc.id} ${node.id}", "other": "x"},
	}
	if _, err := r.api.Namespaces().Register(space, nil); err != nil {
		t.Fatal(err)
	}
	if got, _, err := r.api.Namespaces().Info("default", nil); err != nil || !maps.Equal(got.RequiredExtraClaims, space.RequiredExtraClaims) || !maps.Equal(got.OptionalExtraClaims, space.OptionalExtraClaims) {
		t.Errorf("the namespace is shown as %+v, %v", got, err)
	}
	job := napper("web", 1)
	job.Meta = map[string]string{"customer": "${job.id}"} // a value is not looked at again
	task := job.TaskGroups[0].Tasks[0]
	task.Identities = []*nomad.WorkloadIdentity{{Name: "aws", Audience: []string{"sts"}, ExtraClaims: []string{"where", "ids"}}, {Name: "bad", ExtraClaims: []string{"what"}}}
	_, _, err := r.api.Jobs().Register(job, nil)
	wantError(t, err, `job.group[g].task[app].identity[bad].extra_claims: namespace "default" does not define extra claim "what": it defines customer, ids, other, where, who`)
	task.Identities = task.Identities[:1]
	if _, _, err := r.api.Jobs().Register(job, nil); err != nil {
		t.Fatal(err)
	}
	var alloc *nomad.AllocationListStub
	r.until("it is placed", func() bool {
		list, _, err := r.api.Jobs().Allocations("web", false, nil)
		if err == nil && len(list) == 1 {
			alloc = list[0]
		}
		return alloc != nil
	})
	id, err := berth.ParseID[berth.Alloc](alloc.ID)
	if err != nil {
		t.Fatal(err)
	}
	claims := func(name string) (map[string]string, error) {
		in := &op.SignIdentities{NodeID: n.ID, Query: op.Query{AuthToken: n.SecretID}, Identities: []op.IdentityRequest{{AllocID: id, TaskName: "app", Identity: name}}}
		var out op.IdentitiesSigned
		if err := n.session.Call(t.Context(), op.Sign.RPC, in, &out); err != nil {
			return nil, err
		}
		token, err := jwt.ParseSigned(out.SignedIdentities[0].JWT, []jose.SignatureAlgorithm{jose.EdDSA})
		if err != nil {
			t.Fatal(err)
		}
		var more struct {
			Extra map[string]string `json:"extra_claims"`
		}
		if err := token.UnsafeClaimsWithoutVerification(&more); err != nil {
			t.Fatal(err)
		}
		return more.Extra, nil
	}
	want := map[string]string{"who": "global/default/web/g/app", "customer": "<${job.id}>"}
	if got, err := claims("default"); err != nil || !maps.Equal(got, want) {
		t.Errorf("the default identity says %v, %v", got, err)
	}
	want["where"], want["ids"] = "dc1+default++default", alloc.ID+" "+n.ID.String()
	if got, err := claims("aws"); err != nil || !maps.Equal(got, want) {
		t.Errorf("the other says %v, %v\nnot %v", got, err, want)
	}
	// A claim that is taken away is missing from the next identity.
	delete(space.OptionalExtraClaims, "ids")
	space.RequiredExtraClaims = nil
	if _, err := r.api.Namespaces().Register(space, nil); err != nil {
		t.Fatal(err)
	}
	if got, err := claims("aws"); err != nil || !maps.Equal(got, map[string]string{"where": want["where"]}) {
		t.Errorf("then it says %v, %v", got, err)
	}
	if got, err := claims("default"); err != nil || got != nil {
		t.Errorf("then the default one says %v, %v", got, err)
	}
}

package server_test

import (
	"encoding/json"
	"io"
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

package real

import (
	"strings"
	"testing"
)

// What an operator does to tokens, roles, policies and binding rules from the command
// line, on a cluster with access control.
func TestTokensByTheCommandLine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.agent("one", both, `acl { enabled = true }`)
	a.healthy()
	const manager = "7c2a5a0e-3f5b-4c53-9c0a-0d7c9a1b2e40"
	if _, err := a.try("PUT", "/v1/acl/bootstrap", `{"BootstrapSecret": "`+manager+`"}`, nil); err != nil {
		t.Fatal(err)
	}
	root := func(args ...string) string { return a.may(manager, args...) }
	for name, right := range map[string]string{"reads": "read", "writes": "write"} {
		root("acl", "policy", "apply", name, w.file(name+".hcl", `namespace "default" { policy = "`+right+`" }`))
	}

	// A token, which gets another policy, and is deleted.
	id := root("acl", "token", "create", "-name", "ann", "-policy", "reads", "-t", "{{.AccessorID}}")
	w.holds(root("acl", "token", "info", id), "ann", "reads")
	secret := root("acl", "token", "create", "-name", "bob", "-policy", "reads", "-t", "{{.AccessorID}} {{.SecretID}}")
	bob, secret, _ := strings.Cut(secret, " ")
	w.holds(a.may(secret, "acl", "policy", "self"), "reads")
	w.holds(root("acl", "token", "update", "-name", "bobby", "-policy", "writes", bob), "bobby", "writes")
	w.holds(a.may(secret, "acl", "policy", "self"), "writes")
	if out := root("acl", "token", "info", "-json", bob); strings.Contains(out, secret) {
		t.Error("a secret is shown again")
	}
	w.holds(root("acl", "token", "delete", bob), "Successfully deleted")
	if r := a.as(secret, "acl", "policy", "self"); r.Code == 0 {
		t.Errorf("a deleted token lists policies: %s", r.Out)
	}

	// A role, whose policies are added to, and then replaced.
	role := root("acl", "role", "create", "-name", "team", "-policy", "reads", "-t", "{{.ID}}")
	w.holds(root("acl", "role", "update", "-policy", "writes", role), "reads, writes")
	w.holds(root("acl", "role", "update", "-no-merge", "-name", "crew", "-policy", "writes", role), "crew")
	if out := root("acl", "role", "info", role); strings.Contains(out, "reads") {
		t.Errorf("-no-merge left a policy: %s", out)
	}
	w.holds(root("acl", "role", "delete", role), "Successfully deleted")

	// A binding rule of an auth method.
	key := w.file("keys.json", `{"JWTValidationPubKeys":["-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEEVs/o5+uQbTjL3chynL4wXgUg2R9\nq9UU8I5mEovUf86QZ7kOBIjJwqnzD1omageEHWwHdBO6B+dFabmdT9POxg==\n-----END PUBLIC KEY-----\n"],"SigningAlgs":["ES256"]}`)
	root("acl", "auth-method", "create", "-name", "ci", "-type", "JWT", "-token-locality", "local", "-max-token-ttl", "1h", "-config", "@"+key)
	rule := root("acl", "binding-rule", "create", "-auth-method", "ci", "-bind-type", "policy", "-bind-name", "reads", "-t", "{{.ID}}")
	w.holds(root("acl", "binding-rule", "info", rule), "ci", "reads")
	w.holds(root("acl", "binding-rule", "update", "-description", "All of them", "-bind-name", "writes", rule), "All of them", "writes")
	w.holds(root("acl", "binding-rule", "delete", rule), "Successfully deleted")
	if r := a.as(manager, "acl", "binding-rule", "info", rule); r.Code == 0 {
		t.Errorf("a deleted rule is shown: %s", r.Out)
	}
}

// A node has an identity, which can be looked at and renewed. Servers that are strict
// take a new node with an introduction token only, and once.
func TestNodesAreIntroduced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.agent("server", `
server {
  enabled          = true
  bootstrap_expect = 1
  client_introduction { enforcement = "strict" }
}`)
	intro := func(args ...string) string {
		return strings.TrimSpace(s.good(append([]string{"node", "intro", "create", "-t", "{{.JWT}}"}, args...)...))
	}
	var jwt string
	w.until("the server leads", func() string {
		r := s.berth("node", "intro", "create", "-node-name", "guest", "-t", "{{.JWT}}")
		jwt = strings.TrimSpace(r.Out)
		if r.Code != 0 {
			return r.String()
		}
		return ""
	})
	node := func(name, jwt string) *agent {
		a := w.unstarted(name, strings.ReplaceAll(onlyNode, "SERVER", s.rpc), `client { intro_token = "`+jwt+`" }`)
		a.start()
		return a
	}
	guest := node("guest", jwt)
	guest.joined()
	w.holds(s.good("node", "identity", "get", guest.nodeID), "nomad_node_id", guest.nodeID)
	was := s.good("node", "identity", "get", "-json", guest.nodeID)
	s.good("node", "identity", "renew", guest.nodeID)
	w.until("its identity is renewed", func() string {
		if s.good("node", "identity", "get", "-json", guest.nodeID) == was {
			return "it is the old one"
		}
		return ""
	})
	if other := intro("-node-name", "other", "-ttl", "1m"); other == jwt || strings.Count(other, ".") != 2 {
		t.Errorf("an introduction token is %q", other)
	}
	thief := node("thief", jwt) // used up, and of another name
	w.until("the thief is refused", func() string { return missing(thief.AllSaid(), "is not introduced") })
	if out := s.good("node", "status"); strings.Contains(out, "thief") {
		t.Errorf("a node joined that was not introduced:\n%s", out)
	}
}

// healthy waits until the agent is; with access control, nobody may ask for its node
// without a token.
func (a *agent) healthy() {
	a.w.t.Helper()
	a.w.until(a.Name+" is well", func() string {
		if _, err := a.try("GET", "/v1/agent/health", "", nil); err != nil {
			return err.Error()
		}
		return ""
	})
}

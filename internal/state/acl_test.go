package state_test

import (
	"bytes"
	"crypto/sha256"
	"strings"
	"testing"

	"berth"
	"berth/internal/acl"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// tokenOf returns a token with a secret.
func tokenOf(accessor, secret, kind string, policies ...string) *berth.ACLToken {
	return &berth.ACLToken{AccessorID: accessor, SecretHash: sha256.Sum256([]byte(secret)), Type: kind, Policies: policies, CreateTime: 1}
}

// policies returns the command that writes policies: name=rules.
func policies(list ...string) *state.UpsertACLPolicies {
	c := &state.UpsertACLPolicies{}
	for _, x := range list {
		name, rules, _ := strings.Cut(x, "=")
		c.Policies = append(c.Policies, &berth.ACLPolicy{Name: name, Rules: rules})
	}
	return c
}

// The first token is made once, and again only with the index of the last time.
func TestBootstrapOfAccessControl(t *testing.T) {
	store, log := statetest.New(t)
	refusedAs(t, log, &state.BootstrapACL{Token: tokenOf("a", "s1", berth.TokenClient, "p")}, berth.Invalid, "must be of type management")
	refusedAs(t, log, &state.BootstrapACL{Token: tokenOf("a", "s1", berth.TokenManagement), Reset: 7}, berth.Invalid, "already done")
	log.Must(t, &state.BootstrapACL{Token: tokenOf("a", "s1", berth.TokenManagement)})
	at := store.Snapshot().Bootstrapped()
	refusedAs(t, log, &state.BootstrapACL{Token: tokenOf("b", "s2", berth.TokenManagement)}, berth.Invalid, "ACL bootstrap already done (reset index: ")
	log.Must(t, &state.DeleteACLTokens{Accessors: []string{"a"}})
	refusedAs(t, log, &state.BootstrapACL{Token: tokenOf("b", "s2", berth.TokenManagement)}, berth.Invalid, "already done")
	log.Must(t, &state.BootstrapACL{Token: tokenOf("b", "s2", berth.TokenManagement), Reset: at})
	if s := store.Snapshot(); s.Bootstrapped() <= at || s.ACLTokenOf(sha256.Sum256([]byte("s2"))) == nil || s.ACLTokenOf(sha256.Sum256([]byte("s1"))) != nil {
		t.Error("the new token is not there, or the deleted one is")
	}
}

// Tokens, roles and policies refer to each other; what is deleted grants nothing;
// and nothing of a secret is saved.
func TestTokensPoliciesAndRoles(t *testing.T) {
	store, log := statetest.New(t)
	log.Must(t, policies(`web=namespace "web" { policy = "write" }`, `nodes=node { policy = "read" }`))
	log.Must(t, &state.UpsertACLRoles{Roles: []*berth.ACLRole{{ID: "r1", Name: "ops", Policies: []berth.ACLLink{{Name: "nodes"}}}}})
	tok := tokenOf("t1", "the secret of the token", berth.TokenClient, "web")
	tok.Roles = []string{"r1"}
	log.Must(t, &state.UpsertACLTokens{Tokens: []*berth.ACLToken{tok}})
	rights := func() *acl.ACL { return store.Snapshot().RightsOf(store.Snapshot().ACLToken("t1")) }
	if a := rights(); !a.Allows(acl.SubmitJob, "web") || !a.Allows(acl.NodeRead, "") || a.Allows(acl.NodeWrite, "") || a.IsManagement() {
		t.Error("the token does not allow what its policy and role do")
	}

	refusedAs(t, log, &state.UpsertACLTokens{Tokens: []*berth.ACLToken{tokenOf("t2", "x", berth.TokenClient, "web"), tokenOf("t2", "y", berth.TokenClient, "web")}}, berth.Invalid, "two tokens have the accessor t2")
	refusedAs(t, log, &state.UpsertACLTokens{Tokens: []*berth.ACLToken{tokenOf("t2", "x", berth.TokenClient, "none")}}, berth.Invalid, `policy "none" not found`)
	refusedAs(t, log, &state.UpsertACLTokens{Tokens: []*berth.ACLToken{tokenOf("t2", "x", berth.TokenClient)}}, berth.Invalid, "must have 1 to 100 policies and roles, got 0")
	refusedAs(t, log, &state.UpsertACLTokens{Tokens: []*berth.ACLToken{tokenOf("t2", "x", berth.TokenManagement, "web")}}, berth.Invalid, "a management token has no policies")
	refusedAs(t, log, &state.UpsertACLTokens{Tokens: []*berth.ACLToken{tokenOf("t2", "x", "root", "web")}}, berth.Invalid, `unknown type "root"`)
	refusedAs(t, log, &state.UpsertACLTokens{Tokens: []*berth.ACLToken{tokenOf("t1", "x", berth.TokenClient, "web")}}, berth.Conflict, "cannot be changed")
	refusedAs(t, log, &state.UpsertACLTokens{Tokens: []*berth.ACLToken{tokenOf("t2", "the secret of the token", berth.TokenClient, "web")}}, berth.Conflict, "another token has this secret")
	refusedAs(t, log, &state.UpsertACLRoles{Roles: []*berth.ACLRole{{ID: "r2", Name: "ops", Policies: []berth.ACLLink{{Name: "web"}}}}}, berth.Conflict, `another role is called "ops"`)
	refusedAs(t, log, &state.UpsertACLRoles{Roles: []*berth.ACLRole{{ID: "r2", Name: "x"}}}, berth.Invalid, "must name 1 to 100 policies, got 0")
	refusedAs(t, log, &state.DeleteACLTokens{Accessors: []string{"t9"}}, berth.NotFound, `"t9" not found`)
	refusedAs(t, log, &state.DeleteACLRoles{IDs: []string{"r9"}}, berth.NotFound, `"r9" not found`)
	refusedAs(t, log, &state.DeleteACLPolicies{Names: []string{"web", "p9"}}, berth.NotFound, `"p9" not found`)

	var b bytes.Buffer
	if err := store.Snapshot().Save(&b); err != nil {
		t.Fatal(err)
	}
	again, err := state.Load(bytes.NewReader(b.Bytes()))
	if err != nil || again.Hash() != store.Snapshot().Hash() || again.ACLTokenOf(tok.SecretHash) == nil || again.ACLRoleNamed("ops") == nil {
		t.Fatalf("saved and loaded, it is another: %v", err)
	}
	var dump bytes.Buffer
	store.Snapshot().Dump(&dump)
	for _, text := range [][]byte{b.Bytes(), dump.Bytes()} {
		if bytes.Contains(text, []byte("the secret of the token")) {
			t.Error("the secret is in the state")
		}
	}

	log.Must(t, &state.DeleteACLPolicies{Names: []string{"web"}})
	if a := rights(); a.Allows(acl.SubmitJob, "web") || !a.Allows(acl.NodeRead, "") {
		t.Error("a deleted policy still grants, or took more with it")
	}
	log.Must(t, &state.DeleteACLRoles{IDs: []string{"r1"}})
	if rights().Allows(acl.NodeRead, "") {
		t.Error("a deleted role still grants")
	}
	log.Must(t, &state.DeleteACLTokens{Accessors: []string{"t1"}})
	if store.Snapshot().ACLTokenOf(tok.SecretHash) != nil || store.Snapshot().Count(state.ACLTokens) != 0 {
		t.Error("a deleted token is still found")
	}
}

package api

import (
	"testing"

	"berth"
	"berth/internal/acl"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// Tokens with the same policies share their rights, so that policies are parsed once.
// A policy that changes holds for all of them at once.
func TestTokensShareTheRightsOfTheirPolicies(t *testing.T) {
	store, log := statetest.New(t)
	rules := func(text string) {
		log.Must(t, &state.UpsertACLPolicies{Policies: []*berth.ACLPolicy{{Name: "team", Rules: text}, {Name: "nodes", Rules: `node { policy = "read" }`}}})
	}
	rules(`namespace "web" { policy = "write" }`)
	one := &berth.ACLToken{Type: berth.TokenClient, Policies: []string{"team"}}
	two := &berth.ACLToken{Type: berth.TokenClient, Policies: []string{"team"}}
	more := &berth.ACLToken{Type: berth.TokenClient, Policies: []string{"team", "nodes"}}
	var sets policySets
	before := store.Snapshot()
	a := sets.of(before, one)
	if sets.of(before, two) != a || sets.of(before, more) == a || !a.Allows(acl.SubmitJob, "web") || a.Allows(acl.NodeRead, "") || !sets.of(before, more).Allows(acl.NodeRead, "") {
		t.Error("the rights are not those of the policies, or not shared")
	}
	rules(`namespace "web" { policy = "read" }`)
	if sets.of(store.Snapshot(), two).Allows(acl.SubmitJob, "web") {
		t.Error("the policy of before still holds")
	}
	if !sets.of(before, one).Allows(acl.SubmitJob, "web") || sets.of(store.Snapshot(), one).Allows(acl.SubmitJob, "web") {
		t.Error("an older state is answered by a newer one, or the other way round")
	}
	if !sets.of(before, &berth.ACLToken{Type: berth.TokenManagement}).IsManagement() {
		t.Error("a management token may not do everything")
	}
}

package state_test

import (
	"crypto/sha256"
	"time"

	"berth"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// access has the life of tokens, policies and roles. Afterwards there are the
// policy "web", the role "ops" and the management token "root 2".
func (r *script) access() {
	// The first token is made once, and again by who knows when that was.
	root := func(name string) *berth.ACLToken {
		t := tokenOf(name, "the secret of "+name, berth.TokenManagement)
		t.Name, t.Global, t.CreateTime = "Bootstrap Token", true, at(11)
		return t
	}
	r.refuses(berth.Invalid, &state.BootstrapACL{Token: tokenOf("root 1", "secret", berth.TokenClient, "web")})
	r.does(&state.BootstrapACL{Token: root("root 1")})
	r.refuses(berth.Invalid, &state.BootstrapACL{Token: root("root 2")})
	r.refuses(berth.Conflict, &state.BootstrapACL{Token: root("root 1"), Reset: r.s.Bootstrapped()})
	r.does(&state.BootstrapACL{Token: root("root 2"), Reset: r.s.Bootstrapped()})

	r.does(policies(`web=namespace "default" { policy = "write" }`, `nodes=node { policy = "read" }`))
	bound := policies(`db=namespace "default" { variables { path "app/*" { capabilities = ["read"] } } }`)
	bound.Policies[0].JobACL = &berth.JobACL{Namespace: "default", JobID: "db", Group: "g"}
	r.does(bound, policies(`nodes=node { policy = "write" }`)) // the second replaces one
	r.refuses(berth.Invalid, policies("not a name=rules"), policies())

	ops := &berth.ACLRole{ID: "r1", Name: "ops", Description: "those on call", Policies: []berth.ACLLink{{Name: "nodes"}}}
	dev := &berth.ACLRole{ID: "r2", Name: "dev", Policies: []berth.ACLLink{{Name: "web"}, {Name: "db"}}}
	r.does(&state.UpsertACLRoles{Roles: []*berth.ACLRole{ops, dev}})
	r.refuses(berth.Conflict, &state.UpsertACLRoles{Roles: []*berth.ACLRole{{ID: "r3", Name: "ops", Policies: ops.Policies}}})
	r.refuses(berth.Invalid, &state.UpsertACLRoles{Roles: []*berth.ACLRole{{ID: "r3", Name: "odd", Policies: []berth.ACLLink{{Name: "none"}}}}})
	r.does(&state.UpsertACLRoles{Roles: []*berth.ACLRole{{ID: "r2", Name: "developers", Policies: dev.Policies}}}) // renames it

	anna := tokenOf("anna", "the secret of anna", berth.TokenClient, "web")
	anna.Name, anna.Roles, anna.CreateTime, anna.ExpirationTime = "Anna", []string{"r1", "r2"}, at(12), at(20)
	bert := tokenOf("bert", "the secret of bert", berth.TokenClient, "nodes")
	r.does(&state.UpsertACLTokens{Tokens: []*berth.ACLToken{anna, bert}})
	later, other, twin := *anna, *anna, *anna
	later.Name, later.Policies, later.ExpirationTime = "Anna B.", nil, at(99) // the time stays as it is
	other.SecretHash, twin.AccessorID = sha256.Sum256([]byte("another secret")), "twin"
	r.does(&state.UpsertACLTokens{Tokens: []*berth.ACLToken{&later}})
	r.refuses(berth.Conflict, &state.UpsertACLTokens{Tokens: []*berth.ACLToken{&other}}, &state.UpsertACLTokens{Tokens: []*berth.ACLToken{&twin}})
	r.refuses(berth.Invalid, &state.UpsertACLTokens{Tokens: []*berth.ACLToken{tokenOf("carl", "secret", berth.TokenClient, "none")}})
	r.oneTimeTokens()

	// What refers to what is deleted stays.
	r.does(&state.DeleteACLPolicies{Names: []string{"nodes", "db"}})
	r.refuses(berth.NotFound, &state.DeleteACLPolicies{Names: []string{"web", "db"}})
	r.does(&state.DeleteACLRoles{IDs: []string{"r2"}})
	r.refuses(berth.NotFound, &state.DeleteACLRoles{IDs: []string{"r1", "r2"}})
	r.does(&state.DeleteACLTokens{Accessors: []string{"root 1", "bert"}})
	r.refuses(berth.NotFound, &state.DeleteACLTokens{Accessors: []string{"root 2", "bert"}})
	r.refuses(berth.Invalid, &state.DeleteACLTokens{}, &state.DeleteACLPolicies{}, &state.DeleteACLRoles{})
}

// oneTimeTokens puts one-time tokens, takes one, and lets one expire, with the
// token "anna".
func (r *script) oneTimeTokens() {
	hash := func(secret string) [32]byte { return sha256.Sum256([]byte(secret)) }
	puts := func(accessor, secret string) *state.PutOneTimeToken {
		return &state.PutOneTimeToken{Token: &berth.OneTimeToken{
			AccessorID: accessor, SecretHash: hash(secret), Sealed: []byte("sealed " + secret), ExpirationTime: at(15),
		}}
	}
	r.refuses(berth.Denied, puts("nobody", "x"))
	r.refuses(berth.Invalid, &state.PutOneTimeToken{Token: &berth.OneTimeToken{AccessorID: "anna", SecretHash: hash("x")}})
	r.does(puts("anna", "x"), puts("anna", "y"), puts("bert", "z"))
	r.refuses(berth.Conflict, puts("anna", "z"))
	r.refuses(berth.Denied, &state.TakeOneTimeToken{Hash: hash("x"), Now: at(14)}, // y replaced it
		&state.TakeOneTimeToken{Hash: hash("y"), Now: at(15)}) // it has expired
	r.does(&state.TakeOneTimeToken{Hash: hash("y"), Now: at(14)})
	r.refuses(berth.Denied, &state.TakeOneTimeToken{Hash: hash("y"), Now: at(14)}) // it was taken

	r.refuses(berth.Conflict,
		&state.DropExpired{At: at(14)},
		&state.DropExpired{Accessors: []string{"anna", "bert"}, At: at(15)},
		deposed(&state.DropExpired{At: at(15)}))
	r.does(&state.DropExpired{At: at(15)}) // z
	r.does(&state.DropExpired{Accessors: []string{"anna", "gone"}, At: at(20)})
	r.refuses(berth.Conflict, &state.DropExpired{Accessors: []string{"anna"}, At: at(20)})
}

// login has the life of auth methods and binding rules. It needs key 4.
func (r *script) login() {
	sso := func(clientID string) *berth.ACLAuthMethod {
		return &berth.ACLAuthMethod{
			Name: "sso", Type: berth.AuthOIDC, TokenLocality: berth.LocalityLocal, TokenNameFormat: "${auth_method_name}", MaxTokenTTL: time.Hour, Default: true,
			Config: &berth.AuthMethodConfig{
				OIDCDiscoveryURL: "https://idp.example", OIDCClientID: clientID, AllowedRedirectURIs: []string{"http://localhost:4649/oidc/callback"},
				ListClaimMappings: map[string]string{"groups": "groups"},
			},
		}
	}
	secret := &state.SealedSecret{KeyID: rootID(4), Data: []byte("sealed"), Size: 6}
	r.refuses(berth.NotFound, &state.UpsertAuthMethod{Method: sso("berth"), Now: at(21)})
	r.refuses(berth.Conflict, &state.UpsertAuthMethod{Method: sso("berth"), Create: true, Secret: &state.SealedSecret{KeyID: rootID(1), Data: []byte("sealed")}, Now: at(21)})
	r.does(&state.UpsertAuthMethod{Method: sso("berth"), Create: true, Secret: secret, Now: at(21)})
	r.refuses(berth.Conflict, &state.UpsertAuthMethod{Method: sso("berth"), Create: true, Now: at(21)})
	r.does(&state.UpsertAuthMethod{Method: sso("berth-2"), Keep: true, Now: at(22)})
	second, open, changed := sso("berth"), sso("berth"), jwtMethod("sso")
	second.Name, open.Config.OIDCClientSecret = "sso-2", "in the clear"
	r.refuses(berth.Conflict, &state.UpsertAuthMethod{Method: second, Create: true, Now: at(22)}) // a second default
	r.refuses(berth.Invalid, &state.UpsertAuthMethod{Method: open, Now: at(22)}, &state.UpsertAuthMethod{Method: changed, Now: at(22)})
	r.does(&state.UpsertAuthMethod{Method: jwtMethod("ci"), Create: true, Now: at(22)})

	rule := func(id, method, kind, name string) *state.UpsertBindingRule {
		return &state.UpsertBindingRule{Create: true, Now: at(23), Rule: &berth.ACLBindingRule{
			ID: id, AuthMethod: method, Selector: `"ops" in list.groups`, BindType: kind, BindName: name,
		}}
	}
	r.refuses(berth.Invalid, rule("b1", "none", berth.BindRole, "ops"), rule("b1", "sso", berth.BindManagement, "ops"))
	r.does(
		rule("b1", "sso", berth.BindRole, "ops"), rule("b2", "sso", berth.BindPolicy, "web"),
		rule("b3", "ci", berth.BindManagement, ""), rule("b4", "ci", berth.BindPolicy, "web"))
	r.refuses(berth.Conflict, rule("b1", "sso", berth.BindRole, "ops"))
	changes, moves, misses := rule("b1", "sso", berth.BindPolicy, "web"), rule("b1", "ci", berth.BindRole, "ops"), rule("b9", "ci", berth.BindRole, "ops")
	changes.Create, moves.Create, misses.Create = false, false, false
	changes.Rule.Description, changes.Now = "those on call", at(24)
	r.does(changes)
	r.refuses(berth.Invalid, moves)
	r.refuses(berth.NotFound, misses, &state.DeleteBindingRules{IDs: []string{"b3", "b9"}})
	r.does(&state.DeleteBindingRules{IDs: []string{"b4"}})
	r.does(&state.UpsertAuthMethod{Method: sso("berth-3"), Now: at(25)}) // has no secret any more

	r.refuses(berth.NotFound, &state.DeleteAuthMethods{Names: []string{"ci", "none"}})
	r.does(&state.UpsertAuthMethod{Method: sso("berth-4"), Secret: secret, Now: at(26)})
	r.does(&state.DeleteAuthMethods{Names: []string{"sso"}}) // with its rules and its secret
	r.refuses(berth.Invalid, &state.DeleteAuthMethods{}, &state.DeleteBindingRules{})
}

// introduction registers a node with an introduction token, which no other node
// can use.
func (r *script) introduction() {
	introduces := func(n int) *state.IntroduceNode {
		return &state.IntroduceNode{Register: statetest.AddNode(n, 2000, 2000), Token: sha256.Sum256([]byte("introduction")), Expires: at(30)}
	}
	r.refuses(berth.Invalid, &state.IntroduceNode{Register: statetest.AddNode(11, 2000, 2000), Expires: at(30)})
	r.does(introduces(11))
	r.refuses(berth.Denied, introduces(12))
	r.does(introduces(11)) // its agent got no answer
	stranger := introduces(11)
	stranger.Register.Node.SecretID = "another secret"
	r.refuses(berth.Denied, stranger)
	r.does(&state.DropExpired{At: at(30)})
}

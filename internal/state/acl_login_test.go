package state_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"testing"
	"time"

	"berth"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// jwtMethod returns an auth method that trusts the keys at an address.
func jwtMethod(name string) *berth.ACLAuthMethod {
	return &berth.ACLAuthMethod{
		Name: name, Type: berth.AuthJWT, TokenLocality: berth.LocalityLocal, MaxTokenTTL: time.Hour, TokenNameFormat: "x",
		Config: &berth.AuthMethodConfig{JWKSURL: "https://idp.example/keys"},
	}
}

// Auth methods and binding rules refer to each other, and a method takes its
// rules and its secret with it.
func TestAuthMethodsAndBindingRules(t *testing.T) {
	store, log := statetest.New(t)
	key := &berth.RootKey{
		ID: statetest.ID[berth.RootKey](1), State: berth.KeyActive, Signing: berth.SignEdDSA, Public: []byte{1}, CreateTime: 1,
		Wrapped: berth.WrappedKey{Provider: "aead", Data: []byte{1}},
	}
	log.Must(t, &state.AddRootKey{Key: key, First: true})
	sso := jwtMethod("sso")
	sso.Default = true
	sso.Type, sso.Config = berth.AuthOIDC, &berth.AuthMethodConfig{
		OIDCDiscoveryURL: "https://idp.example", OIDCClientID: "berth", AllowedRedirectURIs: []string{"http://localhost:4649/oidc/callback"},
	}
	open := *sso
	openConfig := *sso.Config
	open.Config, openConfig.OIDCClientSecret = &openConfig, "in the clear"
	refusedAs(t, log, &state.UpsertAuthMethod{Method: &open, Create: true, Now: 2}, berth.Invalid, "must be encrypted")
	refusedAs(t, log, &state.UpsertAuthMethod{Method: sso, Now: 2}, berth.NotFound, "sso")
	secret := &state.SealedSecret{KeyID: key.ID, Data: []byte("sealed"), Size: 6}
	log.Must(t, &state.UpsertAuthMethod{Method: sso, Create: true, Secret: secret, Now: 2})
	refusedAs(t, log, &state.UpsertAuthMethod{Method: sso, Create: true, Now: 2}, berth.Conflict, "exists")
	second := *sso
	second.Name = "other"
	refusedAs(t, log, &state.UpsertAuthMethod{Method: &second, Create: true, Now: 2}, berth.Conflict, `"sso" is the default of type OIDC`)
	jwt := jwtMethod("ci")
	jwt.Default = true // of its own type
	log.Must(t, &state.UpsertAuthMethod{Method: jwt, Create: true, Now: 2})
	jwt.Type = berth.AuthOIDC
	refusedAs(t, log, &state.UpsertAuthMethod{Method: jwt, Now: 2}, berth.Invalid, "")

	// The secret is encrypted by a root key, which is needed for it.
	if s := store.Snapshot(); s.Variable(berth.AuthSecret("sso")) == nil || s.VariablesUnder(key.ID) != 1 {
		t.Error("the secret is not there")
	}
	log.Must(t, &state.UpsertAuthMethod{Method: sso, Keep: true, Now: 3})
	if m, v := store.Snapshot().AuthMethod("sso"), store.Snapshot().Variable(berth.AuthSecret("sso")); m.CreateTime != 2 || m.ModifyTime != 3 || v == nil {
		t.Errorf("%+v, secret %v", m, v)
	}

	rule := func(id, method string) *berth.ACLBindingRule {
		return &berth.ACLBindingRule{ID: id, AuthMethod: method, BindType: berth.BindManagement}
	}
	refusedAs(t, log, &state.UpsertBindingRule{Rule: rule("1", "none"), Create: true, Now: 1}, berth.Invalid, `auth method "none" not found`)
	for i, method := range []string{"sso", "ci", "sso"} {
		log.Must(t, &state.UpsertBindingRule{Rule: rule(fmt.Sprint(i), method), Create: true, Now: 1})
	}
	refusedAs(t, log, &state.UpsertBindingRule{Rule: rule("0", "ci"), Now: 1}, berth.Invalid, "stays one")
	refusedAs(t, log, &state.DeleteBindingRules{IDs: []string{"9"}}, berth.NotFound, "9")

	// All of it is in a saved snapshot.
	var saved bytes.Buffer
	if err := store.Snapshot().Save(&saved); err != nil {
		t.Fatal(err)
	}
	loaded, err := state.Load(&saved)
	if err != nil {
		t.Fatal(err)
	}
	if loaded.Count(state.ACLAuthMethods) != 2 || loaded.Count(state.ACLBindingRules) != 3 || loaded.LastChange(state.ACLBindingRules) != store.Snapshot().LastChange(state.ACLBindingRules) {
		t.Error("what was saved is not what was loaded")
	}

	log.Must(t, &state.DeleteAuthMethods{Names: []string{"sso"}})
	if s := store.Snapshot(); s.Count(state.ACLBindingRules) != 1 || s.BindingRule("1") == nil || s.Variable(berth.AuthSecret("sso")) != nil {
		t.Error("the rules or the secret of a deleted method are left")
	}
}

// A one-time token can be used once, before it expires, while its token is
// there; a later one replaces it.
func TestOneTimeTokens(t *testing.T) {
	store, log := statetest.New(t)
	hash := func(s string) [32]byte { return sha256.Sum256([]byte(s)) }
	put := func(secret string) *state.PutOneTimeToken {
		return &state.PutOneTimeToken{Token: &berth.OneTimeToken{AccessorID: "a", SecretHash: hash(secret), Sealed: []byte("sealed"), ExpirationTime: 100}}
	}
	refusedAs(t, log, put("x"), berth.Denied, "not valid")
	log.Must(t, &state.UpsertACLTokens{Tokens: []*berth.ACLToken{tokenOf("a", "s", berth.TokenManagement)}})
	log.Must(t, put("x"))
	log.Must(t, put("y"))
	refusedAs(t, log, &state.TakeOneTimeToken{Hash: hash("x"), Now: 1}, berth.Denied, "not valid")
	refusedAs(t, log, &state.TakeOneTimeToken{Hash: hash("y"), Now: 100}, berth.Denied, "not valid")
	var saved bytes.Buffer
	if err := store.Snapshot().Save(&saved); err != nil {
		t.Fatal(err)
	}
	if loaded, err := state.Load(&saved); err != nil || loaded.OneTimeToken(hash("y")) == nil {
		t.Fatalf("it was not saved (%v)", err)
	}
	log.Must(t, &state.TakeOneTimeToken{Hash: hash("y"), Now: 99})
	refusedAs(t, log, &state.TakeOneTimeToken{Hash: hash("y"), Now: 99}, berth.Denied, "not valid")
	log.Must(t, put("z"))
	log.Must(t, &state.DeleteACLTokens{Accessors: []string{"a"}})
	refusedAs(t, log, &state.TakeOneTimeToken{Hash: hash("z"), Now: 99}, berth.Denied, "not valid")
}

// What has expired can be deleted, and nothing else.
func TestExpiredTokensAreDropped(t *testing.T) {
	store, log := statetest.New(t)
	for name, at := range map[string]int64{"old": 10, "new": 30, "ever": 0} {
		tok := tokenOf(name, name, berth.TokenManagement)
		tok.ExpirationTime = at
		log.Must(t, &state.UpsertACLTokens{Tokens: []*berth.ACLToken{tok}})
	}
	log.Must(t, &state.PutOneTimeToken{Token: &berth.OneTimeToken{AccessorID: "ever", SecretHash: [32]byte{1}, Sealed: []byte{1}, ExpirationTime: 20}})
	for at, want := range map[int64]string{9: "[] false", 10: "[old] false", 20: "[old] true", 30: "[new old] true"} {
		tokens, oneTime := store.Snapshot().ExpiredTokens(time.Unix(0, at), 10, false)
		if got := fmt.Sprint(tokens, oneTime); got != want {
			t.Errorf("expired at %d: %s, want %s", at, got, want)
		}
	}
	global := tokenOf("global", "global", berth.TokenManagement)
	global.Global, global.ExpirationTime = true, 10
	log.Must(t, &state.UpsertACLTokens{Tokens: []*berth.ACLToken{global}})
	if tokens, _ := store.Snapshot().ExpiredTokens(time.Unix(0, 20), 10, true); fmt.Sprint(tokens) != "[old]" {
		t.Errorf("of this region %v have expired", tokens)
	}
	log.Must(t, &state.DeleteACLTokens{Accessors: []string{"global"}})
	refusedAs(t, log, &state.DropExpired{Accessors: []string{"old", "new"}, At: 20}, berth.Conflict, `"new" has not expired`)
	refusedAs(t, log, &state.DropExpired{Accessors: []string{"ever"}, At: 1 << 60}, berth.Conflict, `"ever" has not expired`)
	log.Must(t, &state.DropExpired{Accessors: []string{"old", "gone"}, At: 20})
	refusedAs(t, log, &state.DropExpired{Accessors: []string{"old"}, At: 20}, berth.Conflict, "none of the 1 tokens")
	if s := store.Snapshot(); s.Count(state.ACLTokens) != 2 || s.Count(state.ACLOneTimeTokens) != 0 {
		t.Errorf("%d tokens and %d one-time tokens are left", s.Count(state.ACLTokens), s.Count(state.ACLOneTimeTokens))
	}
}

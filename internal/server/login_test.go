package server_test

import (
	"bytes"
	"crypto/rand"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/internal/login/logintest"

	nomad "github.com/hashicorp/nomad/api"
)

const redirectURI = "http://localhost:4649/oidc/callback"

// ssoMethod returns an auth method for people who log in at a provider.
func ssoMethod(idp *logintest.Provider) *nomad.ACLAuthMethod {
	return &nomad.ACLAuthMethod{
		Name: "sso", Type: nomad.ACLAuthMethodTypeOIDC, TokenLocality: "local", MaxTokenTTL: time.Hour, Default: true, TokenNameFormat: "${auth_method_name}-${value.user}",
		Config: &nomad.ACLAuthMethodConfig{
			OIDCDiscoveryURL: idp.URL, OIDCClientID: logintest.ClientID, OIDCClientSecret: logintest.ClientSecret, OIDCScopes: []string{"profile", "email", "groups"},
			AllowedRedirectURIs: []string{redirectURI}, OIDCEnablePKCE: true, ClaimMappings: map[string]string{"sub": "user"}, ListClaimMappings: map[string]string{"groups": "groups"},
		},
	}
}

// People log in at a real provider, through Nomad's Go client; binding rules say
// what they get; the provider's keys rotate in between; and the secret of the
// client is nowhere to be seen.
func TestLoginWithOIDC(t *testing.T) {
	r, _ := guarded(t)
	idp := logintest.Start(t, redirectURI)
	r.token("eng", `namespace "default" { policy = "write" }`, 0)
	r.token("of-ann", `node { policy = "read" }`, 0)
	method, _, err := r.api.ACLAuthMethods().Create(ssoMethod(idp), nil)
	if err != nil || method.Config.OIDCClientSecret != "redacted" || method.MaxTokenTTL != time.Hour || method.CreateTime.IsZero() {
		t.Fatalf("%+v (%v)", method, err)
	}
	// What was read can be written back: the secret stays.
	if method, _, err = r.api.ACLAuthMethods().Update(method, nil); err != nil || method.Config.OIDCClientSecret != "redacted" {
		t.Fatalf("%+v (%v)", method, err)
	}
	for _, rule := range []*nomad.ACLBindingRule{
		{AuthMethod: "sso", BindType: "policy", BindName: "eng", Selector: `"eng" in list.groups`},
		{AuthMethod: "sso", BindType: "policy", BindName: "of-${value.user}"},
		{AuthMethod: "sso", BindType: "policy", BindName: "no-such-policy"},
		{AuthMethod: "sso", BindType: "management", Selector: `value.nothing == "x" or "root" in list.groups`},
	} {
		if rule, _, err := r.api.ACLBindingRules().Create(rule, nil); err != nil || rule.ID == "" {
			t.Fatalf("%+v (%v)", rule, err)
		}
	}
	anyone := r.as("")
	if list, _, err := anyone.ACLAuthMethods().List(nil); err != nil || len(list) != 1 || !list[0].Default {
		t.Fatalf("%+v (%v)", list, err)
	}
	_, _, err = anyone.ACLAuthMethods().Get("sso", nil)
	denied(t, "the method without a token", err)

	nonce := rand.Text()
	begin := func(user string) url.Values {
		u, _, err := anyone.ACLAuth().GetAuthURL(&nomad.ACLOIDCAuthURLRequest{AuthMethodName: "sso", RedirectURI: redirectURI, ClientNonce: nonce}, nil)
		if err != nil || !strings.Contains(u.AuthURL, "code_challenge_method=S256") {
			t.Fatal(u, err)
		}
		back, err := idp.Login(u.AuthURL, user, logintest.Password)
		if err != nil {
			t.Fatal(err)
		}
		return back.Query()
	}
	complete := func(q url.Values) *nomad.ACLOIDCCompleteAuthRequest {
		return &nomad.ACLOIDCCompleteAuthRequest{AuthMethodName: "sso", ClientNonce: nonce, State: q.Get("state"), Code: q.Get("code"), RedirectURI: redirectURI}
	}
	tok, _, err := anyone.ACLAuth().CompleteAuth(complete(begin("ann")), nil)
	if err != nil || tok.SecretID == "" || tok.Name != "sso-ann" || tok.Type != "client" || strings.Join(tok.Policies, " ") != "eng of-ann" && strings.Join(tok.Policies, " ") != "of-ann eng" || tok.ExpirationTime == nil {
		t.Fatalf("%+v (%v)", tok, err)
	}
	ann := r.as(tok.SecretID)
	if _, _, err := ann.Nodes().List(nil); err != nil {
		t.Error(err)
	}
	idp.Rotate(t)
	if _, _, err := anyone.ACLAuth().CompleteAuth(complete(begin("ann")), nil); err != nil {
		t.Errorf("after a rotation of the provider's keys: %v", err)
	}

	// Who is known and granted nothing, and who is not who began.
	_, _, err = anyone.ACLAuth().CompleteAuth(complete(begin("bob")), nil)
	denied(t, "bob", err)
	for what, change := range map[string]func(*nomad.ACLOIDCCompleteAuthRequest){
		"another nonce": func(c *nomad.ACLOIDCCompleteAuthRequest) { c.ClientNonce = rand.Text() },
		"another state": func(c *nomad.ACLOIDCCompleteAuthRequest) { c.State = "AAAA" + c.State[4:] },
		"no state":      func(c *nomad.ACLOIDCCompleteAuthRequest) { c.State = "x" },
		"another code":  func(c *nomad.ACLOIDCCompleteAuthRequest) { c.Code = "x" },
	} {
		in := complete(begin("ann"))
		change(in)
		_, _, err := anyone.ACLAuth().CompleteAuth(in, nil)
		denied(t, what, err)
	}
	for _, other := range []string{redirectURI + "/", redirectURI + "?a=b", "http://localhost:4650/oidc/callback", "https://evil.example"} {
		if _, _, err := anyone.ACLAuth().GetAuthURL(&nomad.ACLOIDCAuthURLRequest{AuthMethodName: "sso", RedirectURI: other, ClientNonce: nonce}, nil); err == nil || !strings.Contains(err.Error(), "400") {
			t.Errorf("redirect to %s: %v", other, err)
		}
	}
	q := begin("ann")
	if _, err := r.api.ACLAuthMethods().Delete("sso", nil); err != nil {
		t.Fatal(err)
	}
	if _, _, err := anyone.ACLAuth().CompleteAuth(complete(q), nil); err == nil {
		t.Error("a login with a method that was deleted")
	}
	if rules, _, err := r.api.ACLBindingRules().List(nil); err != nil || len(rules) != 0 {
		t.Errorf("%d binding rules are left (%v)", len(rules), err)
	}
}

// The secret of an OIDC client is in no answer, event, log or saved snapshot.
func TestAdvisory_C08_SecretOfTheOIDCClient(t *testing.T) {
	r, root := guarded(t)
	idp := logintest.Start(t, redirectURI)
	events, err := http.NewRequest("GET", r.api.Address()+"/v1/event/stream", nil)
	if err != nil {
		t.Fatal(err)
	}
	events.Header.Set("X-Nomad-Token", root)
	stream, err := http.DefaultClient.Do(events)
	if err != nil {
		t.Fatal(err)
	}
	var seen bytes.Buffer
	var reading sync.WaitGroup
	reading.Go(func() { seen.ReadFrom(stream.Body) })
	if _, _, err := r.api.ACLAuthMethods().Create(ssoMethod(idp), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := r.api.Namespaces().Register(&nomad.Namespace{Name: "later"}, nil); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/v1/acl/auth-methods", "/v1/acl/auth-method/sso", "/v1/vars?namespace=*", "/v1/vars?namespace=*&prefix=acl", "/v1/agent/self", "/v1/operator/keyring/keys"} {
		if strings.Contains(r.get(path, root), "CANARY") {
			t.Errorf("%s shows the secret", path)
		}
	}
	for _, ns := range []string{"", "default", "*"} {
		if v, _, err := r.api.Variables().Peek("acl/auth-method/sso", &nomad.QueryOptions{Namespace: ns}); err == nil && v != nil {
			t.Errorf("the secret is a variable of namespace %q: %v", ns, v)
		}
	}
	stream.Body.Close()
	reading.Wait()
	if strings.Contains(seen.String(), "CANARY") {
		t.Error("an event shows the secret")
	}
}

// A program logs in with a JWT that a provider signed.
func TestLoginWithAJWT(t *testing.T) {
	r, _ := guarded(t)
	idp := logintest.Start(t)
	r.token("deploy", `namespace "default" { policy = "write" }`, 0)
	role, _, err := r.api.ACLRoles().Create(&nomad.ACLRole{Name: "deployers", Policies: []*nomad.ACLRolePolicyLink{{Name: "deploy"}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = r.api.ACLAuthMethods().Create(&nomad.ACLAuthMethod{
		Name: "ci", Type: nomad.ACLAuthMethodTypeJWT, TokenLocality: "global", MaxTokenTTL: time.Hour,
		Config: &nomad.ACLAuthMethodConfig{JWKSURL: idp.URL + "/keys", BoundAudiences: []string{"berth"}, ClaimMappings: map[string]string{"repository": "repo"}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range []*nomad.ACLBindingRule{
		{AuthMethod: "ci", BindType: "role", BindName: "deployers", Selector: `value.repo matches "^org/"`},
		{AuthMethod: "ci", BindType: "management", Selector: `value.repo == "org/root"`},
	} {
		if _, _, err := r.api.ACLBindingRules().Create(rule, nil); err != nil {
			t.Fatal(err)
		}
	}
	login := func(method, repo string) (*nomad.ACLToken, error) {
		claims := map[string]any{"aud": "berth", "exp": time.Now().Add(time.Minute).Unix(), "repository": repo}
		tok, _, err := r.as("").ACLAuth().Login(&nomad.ACLLoginRequest{AuthMethodName: method, LoginToken: idp.Sign(t, claims)}, nil)
		return tok, err
	}
	tok, err := login("ci", "org/app")
	if err != nil || !tok.Global || len(tok.Roles) != 1 || tok.Roles[0].ID != role.ID || tok.Name != "JWT-ci" {
		t.Fatalf("%+v (%v)", tok, err)
	}
	if _, _, err := r.as(tok.SecretID).Jobs().List(nil); err != nil {
		t.Error(err)
	}
	idp.Rotate(t)
	if tok, err = login("ci", "org/root"); err != nil || tok.Type != "management" || len(tok.Roles) != 0 {
		t.Fatalf("%+v (%v)", tok, err)
	}
	_, err = login("ci", "somebody/fork")
	denied(t, "a repository that no rule names", err)
	if _, err := login("none", "org/app"); err == nil || !strings.Contains(err.Error(), `there is no auth method "none"`) {
		t.Error(err)
	}
}

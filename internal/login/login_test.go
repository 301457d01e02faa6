package login

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"berth"
	"berth/internal/authmethod"
	"berth/internal/login/logintest"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"golang.org/x/oauth2"
)

// methodOf returns an auth method that maps some claims.
func methodOf(kind string, c berth.AuthMethodConfig) *berth.ACLAuthMethod {
	c.ClaimMappings = map[string]string{"sub": "user", "email": "email", "level": "level", "admin": "admin"}
	c.ListClaimMappings = map[string]string{"groups": "groups"}
	m := &berth.ACLAuthMethod{
		Name: "m", Type: kind, TokenLocality: berth.LocalityLocal, MaxTokenTTL: time.Hour, Config: &c, ModifyIndex: 1,
	}
	authmethod.Canonicalize(m)
	return m
}

// outcome is the kind and text of an error, or the claims.
func outcome(c *Claims, err error) string {
	if err != nil {
		return fmt.Sprintf("%s: %v", berth.KindOf(err), err)
	}
	return fmt.Sprintf("%v %v", c.Value, c.List)
}

// The flow against a real provider: what of it can be used by whom, and a
// rotation of the provider's keys in between.
func TestFlowWithARealProvider(t *testing.T) {
	const redirect = "http://localhost:4649/oidc/callback"
	idp := logintest.Start(t, redirect)
	m := methodOf(berth.AuthOIDC, berth.AuthMethodConfig{
		OIDCDiscoveryURL: idp.URL, OIDCClientID: logintest.ClientID, AllowedRedirectURIs: []string{redirect}, OIDCScopes: []string{"profile", "email", "groups"},
	})
	ps, ctx := New(slog.New(slog.DiscardHandler)), t.Context()
	begin := func() (Flow, *url.URL) {
		f := Flow{Redirect: redirect, State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier()}
		u, err := ps.AuthURL(ctx, m, f)
		if err != nil {
			t.Fatal(err)
		}
		back, err := idp.Login(u, "ann", logintest.Password)
		if err != nil {
			t.Fatal(err)
		}
		if back.Query().Get("state") != f.State || !strings.HasPrefix(back.String(), redirect+"?") {
			t.Fatalf("the browser is sent to %s", back)
		}
		return f, back
	}
	complete := func(f Flow, code, secret, iss string) string {
		return outcome(ps.Complete(ctx, m, f, secret, code, iss))
	}
	want := func(what, got, want string) {
		t.Helper()
		if !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	const ann = "map[email:ann@example.org user:ann] map[groups:[eng ops]]"
	f, back := begin()
	want("a login", complete(f, back.Query().Get("code"), logintest.ClientSecret, ""), ann)
	want("the code again", complete(f, back.Query().Get("code"), logintest.ClientSecret, ""), `denied: Permission denied: the provider refuses the code`)
	idp.Rotate(t)
	f, back = begin()
	want("after a rotation of keys", complete(f, back.Query().Get("code"), logintest.ClientSecret, idp.URL), ann)

	f, back = begin()
	other := f
	other.Verifier = oauth2.GenerateVerifier()
	want("another's code", complete(other, back.Query().Get("code"), logintest.ClientSecret, ""), "denied: ")
	f, back = begin()
	other = f
	other.Nonce = rand.Text()
	want("another login's token", complete(other, back.Query().Get("code"), logintest.ClientSecret, ""), "it was made for another login")
	f, back = begin()
	want("another secret", complete(f, back.Query().Get("code"), "guessed", ""), "denied: ")
	f, back = begin()
	want("another issuer", complete(f, back.Query().Get("code"), logintest.ClientSecret, "https://evil.example"), "another provider sent the code")
	m.Config.BoundAudiences = []string{"somebody else"}
	f, back = begin()
	want("another audience", complete(f, back.Query().Get("code"), logintest.ClientSecret, ""), "none of BoundAudiences")
	m.Config.BoundAudiences, m.Config.OIDCDisableUserInfo = []string{logintest.ClientID}, true
	f, back = begin()
	want("without user info", complete(f, back.Query().Get("code"), logintest.ClientSecret, ""), "map[user:ann] map[]")
}

// A JWT is checked against keys at an address, of a discovery document, or in the
// configuration. Keys rotate.
func TestJWTs(t *testing.T) {
	idp := logintest.Start(t)
	now := time.Now()
	good := func() map[string]any {
		return map[string]any{"iss": idp.URL, "aud": []string{"berth", "x"}, "sub": "ci", "exp": now.Add(time.Minute).Unix(), "level": 7, "admin": true, "groups": "one"}
	}
	const ci = "map[admin:true level:7 user:ci] map[groups:[one]]"
	ps := New(slog.New(slog.DiscardHandler))
	for name, c := range map[string]berth.AuthMethodConfig{
		"jwks":      {JWKSURL: idp.URL + "/keys", BoundAudiences: []string{"berth"}},
		"discovery": {OIDCDiscoveryURL: idp.URL, BoundAudiences: []string{"berth"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := methodOf(berth.AuthJWT, c)
			m.Name = name
			first := idp.Sign(t, good())
			if got := outcome(ps.JWT(t.Context(), m, first)); got != ci {
				t.Error(got)
			}
			idp.Rotate(t)
			if got := outcome(ps.JWT(t.Context(), m, idp.Sign(t, good()))); got != ci {
				t.Errorf("after a rotation: %s", got)
			}
			// The key set answers first and keeps the new keys then.
			for !strings.HasPrefix(outcome(ps.JWT(t.Context(), m, first)), "denied: ") {
				runtime.Gosched() // a key that the provider has no more is refused soon
			}
			later := New(slog.New(slog.DiscardHandler))
			if got := outcome(later.JWT(t.Context(), m, idp.Sign(t, good()))); got != ci {
				t.Error(got)
			}
			idp.Rotate(t)
			later.now = func() time.Time { return now.Add(keepFor + time.Second) }
			// An hour later the old keys are forgotten, and what they signed has ended.
			old := good()
			old["exp"] = now.Add(3 * keepFor).Unix()
			if got := outcome(later.JWT(t.Context(), m, idp.Sign(t, old))); got != ci {
				t.Error(got)
			}
		})
	}
	t.Run("claims", func(t *testing.T) {
		m := methodOf(berth.AuthJWT, berth.AuthMethodConfig{JWKSURL: idp.URL + "/keys", BoundAudiences: []string{"berth"}, BoundIssuer: []string{idp.URL}})
		for _, c := range []struct {
			claim string
			value any
			want  string
		}{
			{"exp", nil, "it has no end (exp)"},
			{"exp", "soon", "denied: "},
			{"exp", now.Add(-2 * time.Minute).Unix(), "it has expired"},
			{"exp", now.Add(-30 * time.Second).Unix(), ci}, // clocks differ
			{"nbf", now.Add(2 * time.Minute).Unix(), "it is not valid yet"},
			{"nbf", now.Add(30 * time.Second).Unix(), ci},
			{"iat", now.Add(time.Hour).Unix(), "it is not valid yet"},
			{"aud", "x", "none of BoundAudiences"},
			{"aud", nil, "none of BoundAudiences"},
			{"iss", "https://evil.example", "none of BoundIssuer"},
			{"sub", []string{"a"}, "denied: "},
			{"level", map[string]any{"a": 1}, "claim level must be text, a number or a boolean"},
			{"groups", []any{"a", 1, true, nil, map[string]any{}}, "map[groups:[a 1 true]]"},
			{"groups", nil, "map[admin:true level:7 user:ci] map[groups:[]]"},
		} {
			claims := good()
			claims[c.claim] = c.value
			if c.value == nil && c.claim != "groups" {
				delete(claims, c.claim)
			}
			if got := outcome(ps.JWT(t.Context(), m, idp.Sign(t, claims))); !strings.Contains(got, c.want) {
				t.Errorf("%s %v: %s, want %s", c.claim, c.value, got, c.want)
			}
		}
		m.Config.BoundAudiences = nil
		if got := outcome(ps.JWT(t.Context(), m, idp.Sign(t, good()))); !strings.Contains(got, "none of BoundAudiences") {
			t.Errorf("for somebody, and the method is bound to nobody: %s", got)
		}
	})
	t.Run("damage", func(t *testing.T) {
		m := methodOf(berth.AuthJWT, berth.AuthMethodConfig{JWKSURL: idp.URL + "/keys", BoundAudiences: []string{"berth"}})
		token := idp.Sign(t, good())
		parts := strings.Split(token, ".")
		for _, bad := range []string{"", ".", "..", "x", token + "x", parts[0] + "." + parts[1] + ".", parts[0] + ".e30." + parts[2], strings.Repeat("a", maxToken+1), "eyJhbGciOiJub25lIn0." + parts[1] + "."} {
			if c, err := ps.JWT(t.Context(), m, bad); err == nil || berth.KindOf(err) != berth.Denied && berth.KindOf(err) != berth.Invalid {
				t.Errorf("%.40q: %v %v", bad, c, err)
			}
		}
	})
}

// A public key is no secret: what is signed with it as a shared secret is refused.
func TestConfiguredKeys(t *testing.T) {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(&k.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	c := berth.AuthMethodConfig{JWTValidationPubKeys: []string{string(text)}}
	if err := Check(&c); err != nil {
		t.Fatal(err)
	}
	m, ps := methodOf(berth.AuthJWT, c), New(slog.New(slog.DiscardHandler))
	sign := func(alg jose.SignatureAlgorithm, with any) string {
		s, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: with}, nil)
		if err != nil {
			t.Fatal(err)
		}
		token, err := jwt.Signed(s).Claims(map[string]any{"sub": "ci", "exp": time.Now().Add(time.Minute).Unix()}).Serialize()
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	if got := outcome(ps.JWT(t.Context(), m, sign(jose.RS256, k))); got != "map[user:ci] map[]" {
		t.Error(got)
	}
	for alg, with := range map[jose.SignatureAlgorithm]any{jose.HS256: text, jose.RS512: k} {
		if got := outcome(ps.JWT(t.Context(), m, sign(alg, with))); !strings.HasPrefix(got, "denied: ") {
			t.Errorf("%s: %s", alg, got)
		}
	}
	for name, bad := range map[string]berth.AuthMethodConfig{
		"JWTValidationPubKeys": {JWTValidationPubKeys: []string{"a key"}}, "DiscoveryCaPem": {DiscoveryCaPem: []string{"x"}}, "JWKSCACert": {JWKSCACert: "x"},
	} {
		if err := Check(&bad); err == nil || !strings.Contains(err.Error(), "Config."+name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A provider that fails is no reason to call a token bad, and its answers are told
// to nobody.
func TestProvidersThatFail(t *testing.T) {
	var asked atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		http.Error(w, "CANARY of the provider", http.StatusInternalServerError)
	}))
	defer srv.Close()
	idp, ps := logintest.Start(t), New(slog.New(slog.DiscardHandler))
	token := idp.Sign(t, map[string]any{"exp": time.Now().Add(time.Hour).Unix()})
	for name, c := range map[string]berth.AuthMethodConfig{"jwks": {JWKSURL: srv.URL}, "discovery": {OIDCDiscoveryURL: srv.URL}, "closed": {JWKSURL: "http://127.0.0.1:1"}} {
		m := methodOf(berth.AuthJWT, c)
		m.Name = name
		if _, err := ps.JWT(t.Context(), m, token); berth.KindOf(err) != berth.Unavailable || strings.Contains(err.Error(), "CANARY") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if asked.Load() < 2 {
		t.Error("the provider was not asked")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := ps.JWT(ctx, methodOf(berth.AuthJWT, berth.AuthMethodConfig{OIDCDiscoveryURL: srv.URL}), token); berth.KindOf(err) != berth.Unavailable {
		t.Error(err)
	}
}

// The configuration survives a round trip through JSON.
func TestConfigurationAsJSON(t *testing.T) {
	c := berth.AuthMethodConfig{JWKSURL: "https://a", ExpirationLeeway: time.Minute, ClaimMappings: map[string]string{"a": "b"}}
	text, err := json.Marshal(c)
	if err != nil || !strings.Contains(string(text), `"ExpirationLeeway":"1m0s"`) || !strings.Contains(string(text), `"NotBeforeLeeway":""`) {
		t.Fatalf("%s (%v)", text, err)
	}
	var back berth.AuthMethodConfig
	if err := json.Unmarshal(text, &back); err != nil || back.ExpirationLeeway != time.Minute || back.JWKSURL != "https://a" || back.ClaimMappings["a"] != "b" {
		t.Errorf("%+v (%v)", back, err)
	}
}

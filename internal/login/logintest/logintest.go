// Package logintest runs an OpenID Connect provider, for tests of logins. It
// speaks the whole protocol over HTTP; its users and clients are in memory.
package logintest

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// What the provider knows of its client, and the password of all its users.
const (
	ClientID     = "berth"
	ClientSecret = "CANARY-the-secret-of-the-client"
	Password     = "a password"
)

// Provider is a provider with the users ann, of the groups eng and ops, and bob,
// of the group sales.
type Provider struct {
	URL string // its issuer

	store *store
}

// store is the storage of the provider, with keys that rotate.
type store struct {
	*storage.Storage

	mu   sync.Mutex
	keys []*key // the last one signs; all are published
}

// key is a key of the provider.
type key struct {
	id   string
	with *rsa.PrivateKey
}

// users are the users of the provider.
type users map[string]*storage.User

func (u users) GetUserByID(id string) *storage.User         { return u[id] }
func (u users) GetUserByUsername(name string) *storage.User { return u[name] }
func (u users) ExampleClientID() string                     { return "none" }

// groups are the groups of each user.
var groups = map[string][]string{"ann": {"eng", "ops"}, "bob": {"sales"}}

// Start runs a provider until the test ends. It sends browsers to one of the
// redirect URIs only.
func Start(t testing.TB, redirects ...string) *Provider {
	t.Helper()
	people := users{}
	for name := range groups {
		people[name] = &storage.User{
			ID: name, Username: name, Password: Password, FirstName: strings.ToUpper(name[:1]) + name[1:], LastName: "Example",
			Email: name + "@example.org", EmailVerified: true,
		}
	}
	s := &store{Storage: storage.NewStorageWithClients(people, map[string]*storage.Client{ClientID: storage.WebClient(ClientID, ClientSecret, redirects...)})}
	s.rotate(t)
	mux := http.NewServeMux()
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	p, err := op.NewProvider(
		&op.Config{CryptoKeyId: "1", CodeMethodS256: true, AuthMethodPost: true, SupportedScopes: []string{"openid", "profile", "email", "groups"}},
		s, op.StaticIssuer(srv.URL), op.WithAllowInsecure(), op.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	mux.HandleFunc("POST /login", func(w http.ResponseWriter, r *http.Request) { // the page of the provider, without its looks
		id := r.FormValue("id")
		if err := s.CheckUsernamePassword(r.FormValue("user"), r.FormValue("password"), id); err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		http.Redirect(w, r, p.AuthorizationEndpoint().Absolute(srv.URL)+"/callback?id="+url.QueryEscape(id), http.StatusFound)
	})
	mux.Handle("/", p)
	return &Provider{URL: srv.URL, store: s}
}

// Rotate makes the provider sign with a new key. It publishes no other one from
// then on.
func (p *Provider) Rotate(t testing.TB) { p.store.rotate(t) }

// rotate replaces the key.
func (s *store) rotate(t testing.TB) {
	t.Helper()
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys = []*key{{rand.Text(), k}}
}

// now returns the key that signs.
func (s *store) now() *key {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys[len(s.keys)-1]
}

// Sign returns a JWT with claims, signed with the present key of the provider.
func (p *Provider) Sign(t testing.TB, claims map[string]any) string {
	t.Helper()
	k := p.store.now()
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: k.with, KeyID: k.id}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := jwt.Signed(s).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Login does what a person does with a browser: it opens the address, enters name
// and password, and is sent back. It returns where to.
func (p *Provider) Login(authURL, user, password string) (*url.URL, error) {
	browser := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer browser.CloseIdleConnections()
	follow := func(resp *http.Response, err error) (*url.URL, error) {
		if err != nil {
			return nil, err
		}
		defer resp.Body.Close()
		to, err := resp.Location()
		if err != nil {
			return nil, fmt.Errorf("%s does not redirect: %s", resp.Request.URL, resp.Status)
		}
		return to, nil
	}
	page, err := follow(browser.Get(authURL))
	if err != nil {
		return nil, err
	}
	id := page.Query().Get("authRequestID")
	if id == "" {
		return page, nil // an error: the provider sends back at once
	}
	back, err := follow(browser.PostForm(p.URL+"/login", url.Values{"id": {id}, "user": {user}, "password": {password}}))
	if err != nil {
		return nil, err
	}
	return follow(browser.Get(back.String()))
}

// SigningKey implements op.Storage.
func (s *store) SigningKey(context.Context) (op.SigningKey, error) { return s.now(), nil }

// SignatureAlgorithms implements op.Storage.
func (s *store) SignatureAlgorithms(context.Context) ([]jose.SignatureAlgorithm, error) {
	return []jose.SignatureAlgorithm{jose.RS256}, nil
}

// KeySet implements op.Storage.
func (s *store) KeySet(context.Context) (out []op.Key, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.keys {
		out = append(out, public{k})
	}
	return out, nil
}

// SetUserinfoFromToken implements op.Storage: it adds the groups.
func (s *store) SetUserinfoFromToken(ctx context.Context, info *oidc.UserInfo, token, subject, origin string) error {
	if err := s.Storage.SetUserinfoFromToken(ctx, info, token, subject, origin); err != nil {
		return err
	}
	if groups[subject] == nil {
		return errors.New("an unknown user")
	}
	info.AppendClaims("groups", slices.Clone(groups[subject]))
	return nil
}

// The methods of op.SigningKey.
func (k *key) SignatureAlgorithm() jose.SignatureAlgorithm { return jose.RS256 }
func (k *key) Key() any                                    { return k.with }
func (k *key) ID() string                                  { return k.id }

// public is the public part of a key.
type public struct{ *key }

// The methods of op.Key.
func (k public) Algorithm() jose.SignatureAlgorithm { return jose.RS256 }
func (k public) Use() string                        { return "sig" }
func (k public) Key() any                           { return &k.with.PublicKey }

// Package login finds out who somebody is that logs in: by a JWT that somebody
// signed whom an auth method trusts, or by the authorization code flow of OpenID
// Connect, with PKCE. What their claims are worth is decided elsewhere.
//
// Keys and discovery documents are fetched when they are first needed, and again
// when a token names a key that is not known, or after an hour. So a provider can
// rotate its keys at any time.
package login

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"berth"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// Limits of logins.
const (
	maxToken  = 16 << 10         // bytes of a token or code
	keepFor   = time.Hour        // what was fetched of a provider
	patience  = 10 * time.Second // for one request to a provider
	maxAnswer = 1 << 20          // bytes of its answer
)

// Providers knows the providers of auth methods. It is safe for concurrent use.
type Providers struct {
	log *slog.Logger
	now func() time.Time

	mu    sync.Mutex
	known map[string]*source // by the name of the method
}

// New returns a Providers that has fetched nothing yet.
func New(log *slog.Logger) *Providers {
	return &Providers{log: log, now: time.Now, known: map[string]*source{}}
}

// source returns the keys of a method, and, if it has one, its provider.
func (p *Providers) source(ctx context.Context, m *berth.ACLAuthMethod) (*source, error) {
	p.mu.Lock()
	s := p.known[m.Name]
	p.mu.Unlock()
	if s != nil && s.index == m.ModifyIndex && p.now().Sub(s.since) < keepFor {
		return s, nil
	}
	s, err := open(ctx, m, p.log)
	if err != nil {
		return nil, err
	}
	s.since = p.now()
	p.mu.Lock()
	p.known[m.Name] = s
	p.mu.Unlock()
	return s, nil
}

// JWT checks a token for an auth method of type JWT, and returns what it says. The
// error is Denied if the token is not valid, and Unavailable if that cannot be
// found out now.
func (p *Providers) JWT(ctx context.Context, m *berth.ACLAuthMethod, token string) (*Claims, error) {
	if len(token) > maxToken {
		return nil, berth.Errorf(berth.Invalid, "LoginToken: must have at most %d bytes, got %d", maxToken, len(token))
	}
	s, err := p.source(ctx, m)
	if err != nil {
		return nil, err
	}
	claims, err := s.verify(ctx, m, token, "")
	if err != nil {
		return nil, err
	}
	return p.accept(m, claims, true)
}

// Flow is a login with a browser that has begun.
type Flow struct {
	Redirect string // where the provider sends the browser to
	State    string // comes back with the browser
	Nonce    string // is in the token
	Verifier string // of PKCE: shows that who ends the login began it
}

// AuthURL returns the address at the provider where a person logs in.
func (p *Providers) AuthURL(ctx context.Context, m *berth.ACLAuthMethod, f Flow) (string, error) {
	s, err := p.source(ctx, m)
	if err != nil {
		return "", err
	}
	return s.oauth(m, "", f.Redirect).AuthCodeURL(f.State, oidc.Nonce(f.Nonce), oauth2.S256ChallengeOption(f.Verifier)), nil
}

// Complete exchanges the code that the browser brought for a token, and returns
// what that says. secret is the one of the OIDC client, "" if it has none. issuer
// is the one that came with the code, "" if none did. Errors are those of JWT.
func (p *Providers) Complete(ctx context.Context, m *berth.ACLAuthMethod, f Flow, secret, code, issuer string) (*Claims, error) {
	s, err := p.source(ctx, m)
	if err != nil {
		return nil, err
	}
	switch {
	case len(code) > maxToken:
		return nil, berth.Errorf(berth.Invalid, "Code: must have at most %d bytes, got %d", maxToken, len(code))
	case issuer != "" && issuer != m.Config.OIDCDiscoveryURL: // RFC 9207
		return nil, denied("another provider sent the code")
	}
	ctx = oidc.ClientContext(ctx, s.client)
	token, err := s.oauth(m, secret, f.Redirect).Exchange(ctx, code, oauth2.VerifierOption(f.Verifier))
	if err != nil {
		return nil, s.exchangeFailed(m, err)
	}
	id, ok := token.Extra("id_token").(string)
	if !ok || len(id) > maxToken {
		return nil, berth.Errorf(berth.Unavailable, "the provider of auth method %q answers without an ID token", m.Name)
	}
	claims, err := s.verify(ctx, m, id, m.Config.OIDCClientID)
	if err != nil {
		return nil, err
	}
	if nonce, _ := claims["nonce"].(string); nonce != f.Nonce || f.Nonce == "" {
		return nil, denied("it was made for another login")
	}
	if !m.Config.OIDCDisableUserInfo && s.provider.UserInfoEndpoint() != "" {
		if err := s.addUserInfo(ctx, m, token, claims); err != nil {
			return nil, err
		}
	}
	return p.accept(m, claims, false)
}

// denied refuses a token.
func denied(why string) error {
	return berth.Errorf(berth.Denied, "Permission denied: the login token is not valid: %s", why)
}

// accept checks times, audience and issuer of a token whose signature is right,
// and picks the claims that the method maps.
func (p *Providers) accept(m *berth.ACLAuthMethod, claims map[string]any, foreign bool) (*Claims, error) {
	now, c := p.now(), m.Config
	at := func(name string) (time.Time, bool) {
		n, ok := claims[name].(json.Number)
		if !ok {
			return time.Time{}, false
		}
		s, err := n.Float64()
		return time.Unix(int64(s), 0), err == nil
	}
	expires, ok := at("exp")
	switch {
	case !ok:
		return nil, denied("it has no end (exp)")
	case !now.Before(expires.Add(c.ExpirationLeeway + c.ClockSkewLeeway)):
		return nil, denied("it has expired")
	}
	for _, name := range []string{"nbf", "iat"} {
		t, ok := at(name)
		if claims[name] != nil && !ok {
			return nil, denied(name + " is not a time")
		}
		if ok && t.Add(-c.NotBeforeLeeway-c.ClockSkewLeeway).After(now) {
			return nil, denied("it is not valid yet")
		}
	}
	audience := texts(claims["aud"])
	meant := slices.ContainsFunc(audience, func(a string) bool { return slices.Contains(c.BoundAudiences, a) })
	if !meant && (len(c.BoundAudiences) > 0 || foreign && len(audience) > 0) {
		return nil, denied("it is meant for somebody else: its audience (aud) is none of BoundAudiences")
	}
	if issuer, _ := claims["iss"].(string); len(c.BoundIssuer) > 0 && !slices.Contains(c.BoundIssuer, issuer) {
		return nil, denied("its issuer (iss) is none of BoundIssuer")
	}
	return pick(c, claims)
}

// decodeClaims reads claims. Numbers stay as they are written.
func decodeClaims(text []byte) (map[string]any, error) {
	var claims map[string]any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	err := d.Decode(&claims)
	return claims, err
}

// Claims are what a method maps of somebody's claims, by the names that it maps
// them to. Selectors of binding rules see value.NAME and list.NAME.
type Claims struct {
	Value map[string]string   `json:"value"`
	List  map[string][]string `json:"list"`
}

// pick returns the claims that a method maps. Claims that are not there are left
// out.
func pick(c *berth.AuthMethodConfig, claims map[string]any) (*Claims, error) {
	out := &Claims{Value: map[string]string{}, List: map[string][]string{}}
	for claim, name := range c.ClaimMappings {
		v, there := claims[claim]
		if !there {
			continue
		}
		s, ok := text(v)
		if !ok {
			return nil, denied("claim " + berth.Clip(claim, 64) + " must be text, a number or a boolean")
		}
		out.Value[name] = s
	}
	for claim, name := range c.ListClaimMappings {
		if v, there := claims[claim]; there {
			out.List[name] = texts(v)
		}
	}
	return out, nil
}

// text returns a single value as text.
func text(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case bool:
		if v {
			return "true", true
		}
		return "false", true
	case json.Number:
		return v.String(), true
	}
	return "", false
}

// texts returns a list, or a single value, as texts. What is neither is left out.
func texts(v any) []string {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	out := []string{}
	for _, x := range list {
		if s, ok := text(x); ok {
			out = append(out, s)
		}
	}
	return out
}

// scopes returns what is asked of the provider.
func scopes(c *berth.AuthMethodConfig) []string {
	out := []string{oidc.ScopeOpenID}
	for _, s := range c.OIDCScopes {
		if s = strings.TrimSpace(s); s != "" && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

package login

import (
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"berth"
	"berth/internal/authmethod"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// source is where the keys of a method come from.
type source struct {
	index    uint64 // of the method that it was made for
	since    time.Time
	log      *slog.Logger
	client   *http.Client
	failures *atomic.Int64  // requests that the provider did not answer well
	provider *oidc.Provider // nil: only keys are known of it
	keys     oidc.KeySet    // if provider is nil
}

// Check returns an Invalid error for a configuration whose keys or certificates
// cannot be read.
func Check(c *berth.AuthMethodConfig) error {
	var ps berth.Problems
	if _, err := publicKeys(c.JWTValidationPubKeys); err != nil {
		ps.Addf("Config.JWTValidationPubKeys", "%v", err)
	}
	for name, list := range map[string][]string{"DiscoveryCaPem": c.DiscoveryCaPem, "JWKSCACert": authority(c.JWKSCACert)} {
		if _, err := roots(list); err != nil {
			ps.Addf("Config."+name, "%v", err)
		}
	}
	return ps.Err()
}

// errPEM is in the errors of keys and certificates that cannot be read.
var errPEM = errors.New("must be public keys or certificates in PEM")

// publicKeys reads keys in PEM: public keys or certificates.
func publicKeys(list []string) (keys []crypto.PublicKey, err error) {
	for _, s := range list {
		b, _ := pem.Decode([]byte(s))
		if b == nil {
			return nil, errPEM
		}
		if key, err := x509.ParsePKIXPublicKey(b.Bytes); err == nil {
			keys = append(keys, key)
		} else if cert, err := x509.ParseCertificate(b.Bytes); err == nil {
			keys = append(keys, cert.PublicKey)
		} else if key, err := x509.ParsePKCS1PublicKey(b.Bytes); err == nil {
			keys = append(keys, key)
		} else {
			return nil, errPEM
		}
	}
	return keys, nil
}

// authority returns the list of one certificate, or none.
func authority(cert string) []string {
	if cert == "" {
		return nil
	}
	return []string{cert}
}

// roots returns the certificates to trust, nil for those of the system.
func roots(list []string) (*x509.CertPool, error) {
	if len(list) == 0 {
		return nil, nil
	}
	pool := x509.NewCertPool()
	for _, s := range list {
		if !pool.AppendCertsFromPEM([]byte(s)) {
			return nil, errors.New("must be certificates in PEM")
		}
	}
	return pool, nil
}

// open finds the keys of a method.
func open(ctx context.Context, m *berth.ACLAuthMethod, log *slog.Logger) (*source, error) {
	c, s := m.Config, &source{index: m.ModifyIndex, log: log, failures: new(atomic.Int64)}
	authorities := c.DiscoveryCaPem
	if c.JWKSURL != "" {
		authorities = authority(c.JWKSCACert)
	}
	pool, err := roots(authorities)
	if err != nil {
		return nil, berth.Errorf(berth.Invalid, "auth method %q: certificates: %w", m.Name, err)
	}
	s.client = newClient(pool, s.failures)
	ctx = oidc.ClientContext(ctx, s.client)
	switch {
	case len(c.JWTValidationPubKeys) > 0:
		keys, err := publicKeys(c.JWTValidationPubKeys)
		if err != nil {
			return nil, berth.Errorf(berth.Invalid, "auth method %q: JWTValidationPubKeys: %w", m.Name, err)
		}
		s.keys = &oidc.StaticKeySet{PublicKeys: keys}
	case c.JWKSURL != "":
		s.keys = oidc.NewRemoteKeySet(context.WithoutCancel(ctx), c.JWKSURL)
	default:
		if s.provider, err = oidc.NewProvider(ctx, c.OIDCDiscoveryURL); err != nil {
			return nil, s.unavailable(m, "its discovery document", err)
		}
	}
	return s, nil
}

// newClient returns a client for requests to a provider. Connections are not
// kept: logins are rare.
func newClient(pool *x509.CertPool, failures *atomic.Int64) *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DisableKeepAlives = true
	t.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	return &http.Client{Transport: &bounded{t, failures}, Timeout: patience, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if len(via) > 3 || via[0].URL.Scheme == "https" && r.URL.Scheme != "https" {
			return errors.New("the provider redirects too often, or to where there is no TLS")
		}
		return nil
	}}
}

// bounded bounds answers, and counts failures.
type bounded struct {
	next     http.RoundTripper
	failures *atomic.Int64
}

// RoundTrip implements http.RoundTripper.
func (b *bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.next.RoundTrip(r)
	if err != nil || resp.StatusCode >= 500 {
		b.failures.Add(1)
	}
	if err == nil {
		resp.Body = &limited{io.LimitReader(resp.Body, maxAnswer), resp.Body}
	}
	return resp, err
}

// limited is a body that ends early.
type limited struct {
	io.Reader
	io.Closer
}

// unavailable returns the error for a provider that does not answer. Why goes to
// the log only: anybody can try to log in.
func (s *source) unavailable(m *berth.ACLAuthMethod, what string, err error) error {
	s.log.Warn("the provider of an auth method does not answer", "method", m.Name, "about", what, "error", berth.Clip(err.Error(), 512))
	return berth.Errorf(berth.Unavailable, "the provider of auth method %q cannot be asked for %s: see the log of the leader", m.Name, what)
}

// verify checks signature and issuer of a token, and, if client is not "", that
// it is meant for that client. It returns the claims.
func (s *source) verify(ctx context.Context, m *berth.ACLAuthMethod, token, client string) (map[string]any, error) {
	algs := m.Config.SigningAlgs
	if len(algs) == 0 {
		algs = authmethod.Algorithms[:1]
	}
	config := &oidc.Config{ClientID: client, SkipClientIDCheck: client == "", SkipExpiryCheck: true, SupportedSigningAlgs: algs}
	var v *oidc.IDTokenVerifier
	if s.provider != nil {
		v = s.provider.Verifier(config)
	} else {
		config.SkipIssuerCheck = true // BoundIssuer is checked
		v = oidc.NewVerifier("", s.keys, config)
	}
	before := s.failures.Load()
	id, err := v.Verify(ctx, token)
	switch {
	case err != nil && (s.failures.Load() != before || ctx.Err() != nil):
		return nil, s.unavailable(m, "its keys", err)
	case err != nil:
		return nil, denied("its form, issuer, audience, algorithm or signature is wrong")
	}
	var raw json.RawMessage
	if err := id.Claims(&raw); err != nil {
		return nil, denied("its claims cannot be read")
	}
	claims, err := decodeClaims(raw)
	if err != nil || claims == nil {
		return nil, denied("its claims cannot be read")
	}
	return claims, nil
}

// oauth returns the client that the provider knows.
func (s *source) oauth(m *berth.ACLAuthMethod, secret, redirect string) *oauth2.Config {
	return &oauth2.Config{
		ClientID: m.Config.OIDCClientID, ClientSecret: secret, RedirectURL: redirect, Endpoint: s.provider.Endpoint(), Scopes: scopes(m.Config),
	}
}

// exchangeFailed is the error for a code that the provider did not take. Of the
// provider's answer only the code of its error is told: the rest may hold
// anything.
func (s *source) exchangeFailed(m *berth.ACLAuthMethod, err error) error {
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok && refused.ErrorCode != "" {
		return berth.Errorf(berth.Denied, "Permission denied: the provider refuses the code: %q", berth.Clip(refused.ErrorCode, 64))
	}
	return s.unavailable(m, "a token", err)
}

// addUserInfo adds what the provider tells about the user beyond the token.
func (s *source) addUserInfo(ctx context.Context, m *berth.ACLAuthMethod, token *oauth2.Token, claims map[string]any) error {
	info, err := s.provider.UserInfo(ctx, oauth2.StaticTokenSource(token))
	if err != nil {
		return s.unavailable(m, "the user", err)
	}
	if sub, _ := claims["sub"].(string); info.Subject != sub || sub == "" {
		return denied("the provider tells about another user")
	}
	var raw json.RawMessage
	if err := info.Claims(&raw); err != nil {
		return denied("what the provider tells about the user cannot be read")
	}
	more, err := decodeClaims(raw)
	if err != nil {
		return denied("what the provider tells about the user cannot be read")
	}
	for name, v := range more {
		if _, there := claims[name]; !there { // what is signed counts
			claims[name] = v
		}
	}
	return nil
}

package api

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth"
	"berth/internal/authmethod"
	"berth/internal/limit"
	"berth/internal/login"
	"berth/internal/state"
	"berth/op"

	"golang.org/x/oauth2"
)

// logins registers the operations on auth methods and binding rules, and those
// that log in.
func (s *Server) logins() {
	readList(s, op.ListAuthMethods, listAuthMethods)
	read(s, op.ReadAuthMethod, readAuthMethod)
	sealing := func(info *op.Info) local[op.WriteAuthMethod, op.AuthMethod] {
		return func(ctx context.Context, who Caller, opts *op.Write, in *op.WriteAuthMethod) (out op.AuthMethod, _ uint64, err error) {
			if in.Config != nil && in.Config.OIDCClientSecret != "" {
				if err := s.allow(info, who, ""); err != nil {
					return out, 0, err
				}
				if err := s.ensureRootKey(ctx); err != nil {
					return out, 0, err
				}
			}
			return runWrite(ctx, s, info, who, opts, in, s.writeAuthMethod)
		}
	}
	onLeader(s, op.CreateAuthMethod, sealing(op.CreateAuthMethod.Info))
	onLeader(s, op.UpdateAuthMethod, sealing(op.UpdateAuthMethod.Info))
	write(s, op.RemoveAuthMethod, removeAuthMethod)
	readList(s, op.ListBindingRules, listBindingRules)
	read(s, op.ReadBindingRule, readBindingRule)
	write(s, op.CreateBindingRule, writeBindingRule)
	write(s, op.UpdateBindingRule, writeBindingRule)
	write(s, op.RemoveBindingRule, removeBindingRule)
	onLeader(s, op.Login, s.loginJWT)
	onLeader(s, op.BeginOIDC, s.beginOIDC)
	onLeader(s, op.CompleteOIDC, s.completeOIDC)
}

// maxLogins is how many logins can be in progress at a time: each may wait for a
// provider, and anybody can try.
const maxLogins = 32

var loginsLimit = limit.Declare(limit.Info{
	Name: "logins", Of: "Logins in progress at a time, which wait for a provider", Unit: limit.Count, Default: maxLogins, Beyond: "429",
})

// methodFor returns the auth method of a login, if this server leads. leave is to
// be called when the login is over.
func (s *Server) methodFor(ctx context.Context, info *op.Info, who Caller, opts *op.Write, name, kind string) (w *Write, m *berth.ACLAuthMethod, leave func(), err error) {
	w, leader, err := s.admitWrite(ctx, info, who, opts)
	if err == nil {
		err = confirm(ctx, leader)
	}
	if err != nil {
		return nil, nil, nil, err
	}
	if s.guard == nil {
		return nil, nil, nil, errACLOff
	}
	if m = w.AuthMethod(name); m == nil || m.Type != kind {
		return nil, nil, nil, berth.Errorf(berth.Invalid, "AuthMethodName: there is no auth method %q of type %s", berth.Clip(name, 64), kind)
	}
	select {
	case s.loggingIn <- struct{}{}:
		return w, m, func() { <-s.loggingIn }, nil
	default:
		loginsLimit.Refuse()
		return nil, nil, nil, berth.Errorf(berth.Limited, "%d logins are in progress: try again", maxLogins)
	}
}

// loginJWT exchanges a JWT for a token.
func (s *Server) loginJWT(ctx context.Context, who Caller, opts *op.Write, in *op.LoginRequest) (out op.ACLToken, _ uint64, err error) {
	if in.LoginToken == "" {
		return out, 0, berth.Errorf(berth.Invalid, "LoginToken: is missing: want a token that the auth method accepts")
	}
	_, m, leave, err := s.methodFor(ctx, op.Login.Info, who, opts, in.AuthMethodName, berth.AuthJWT)
	if err != nil {
		return out, 0, err
	}
	defer leave()
	claims, err := s.providers.JWT(ctx, m, in.LoginToken)
	if err != nil {
		return out, 0, err
	}
	return s.bind(ctx, op.Login.Info, who, opts, m, claims)
}

// flowTime is how long a person may take at the provider.
const flowTime = 10 * time.Minute

// minNonce and maxNonce bound the nonce of a client.
const minNonce, maxNonce = 8, 256

// checkFlow returns what is wrong with a request of the flow.
func checkFlow(m *berth.ACLAuthMethod, redirect, nonce string) error {
	switch {
	case !slices.Contains(m.Config.AllowedRedirectURIs, redirect):
		return berth.Errorf(berth.Invalid, "RedirectURI: %q is not one of the AllowedRedirectURIs of auth method %q", berth.Clip(redirect, 128), m.Name)
	case len(nonce) < minNonce || len(nonce) > maxNonce:
		return berth.Errorf(berth.Invalid, "ClientNonce: must have %d to %d bytes, got %d", minNonce, maxNonce, len(nonce))
	}
	return nil
}

// beginOIDC returns where a person logs in. What this cluster must know when the
// person comes back is in the state parameter, encrypted, so that any leader can
// read it.
func (s *Server) beginOIDC(ctx context.Context, who Caller, opts *op.Write, in *op.OIDCAuthURLRequest) (out op.OIDCAuthURL, _ uint64, err error) {
	if err := s.ensureRootKey(ctx); err != nil {
		return out, 0, err
	}
	w, m, leave, err := s.methodFor(ctx, op.BeginOIDC.Info, who, opts, in.AuthMethodName, berth.AuthOIDC)
	if err != nil {
		return out, 0, err
	}
	defer leave()
	if err := checkFlow(m, in.RedirectURI, in.ClientNonce); err != nil {
		return out, 0, err
	}
	f := login.Flow{Redirect: in.RedirectURI, Nonce: in.ClientNonce, Verifier: oauth2.GenerateVerifier()}
	if f.State, err = s.sealFlow(w, m, f); err != nil {
		return out, 0, err
	}
	out.AuthURL, err = s.providers.AuthURL(ctx, m, f)
	return out, 0, err
}

// flowKey is what the state parameter is bound to. It is the name of no variable.
var flowKey = berth.VariableKey{Path: "acl/oidc"}

// fingerprint tells texts apart without holding them.
func fingerprint(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:])
}

// bound is what a flow that began is bound to.
func boundTo(m *berth.ACLAuthMethod, f login.Flow) string {
	return fingerprint(strings.Join([]string{m.Name, strconv.FormatUint(m.CreateIndex, 10), f.Redirect, f.Nonce}, "\x00"))
}

// sealFlow returns the state parameter of a login.
func (s *Server) sealFlow(w *Write, m *berth.ACLAuthMethod, f login.Flow) (string, error) {
	row := w.ActiveKey()
	if s.Keyring == nil || row == nil {
		return "", errNoKeyring
	}
	key, err := s.Keyring.Open(row)
	if err != nil {
		return "", err
	}
	data, err := key.Seal(flowKey, map[string]string{
		"bound": boundTo(m, f), "verifier": f.Verifier, "until": strconv.FormatInt(w.Now.Add(flowTime).Unix(), 10),
	})
	return base64.RawURLEncoding.EncodeToString(slices.Concat(row.ID[:], data)), err
}

// openFlow reads the state parameter of a login, and returns the verifier.
func (s *Server) openFlow(w *Write, m *berth.ACLAuthMethod, f login.Flow) (verifier string, err error) {
	stale := berth.Errorf(berth.Denied, "Permission denied: the login was not begun here, or took longer than %v: begin again", flowTime)
	b, err := base64.RawURLEncoding.DecodeString(f.State)
	var id berth.RootKeyID
	if err != nil || len(b) <= len(id) || len(b) > 4096 {
		return "", stale
	}
	copy(id[:], b)
	items, err := s.openVariable(w.Snapshot, &berth.SealedVariable{Path: flowKey.Path, KeyID: id, Data: b[len(id):]})
	if err != nil {
		return "", stale
	}
	until, err := strconv.ParseInt(items["until"], 10, 64)
	if err != nil || w.Now.Unix() > until || subtle.ConstantTimeCompare([]byte(items["bound"]), []byte(boundTo(m, f))) != 1 {
		return "", stale
	}
	return items["verifier"], nil
}

// completeOIDC ends a login with a browser: it has the provider exchange the code,
// which works once.
func (s *Server) completeOIDC(ctx context.Context, who Caller, opts *op.Write, in *op.OIDCComplete) (out op.ACLToken, _ uint64, err error) {
	if in.Code == "" || in.State == "" {
		return out, 0, berth.Errorf(berth.Invalid, "Code and State: must not be empty")
	}
	w, m, leave, err := s.methodFor(ctx, op.CompleteOIDC.Info, who, opts, in.AuthMethodName, berth.AuthOIDC)
	if err != nil {
		return out, 0, err
	}
	defer leave()
	if err := checkFlow(m, in.RedirectURI, in.ClientNonce); err != nil {
		return out, 0, err
	}
	f := login.Flow{Redirect: in.RedirectURI, State: in.State, Nonce: in.ClientNonce}
	if f.Verifier, err = s.openFlow(w, m, f); err != nil {
		return out, 0, err
	}
	secret, err := s.clientSecret(w.Snapshot, m.Name)
	if err != nil {
		return out, 0, err
	}
	claims, err := s.providers.Complete(ctx, m, f, secret, in.Code, in.Iss)
	if err != nil {
		return out, 0, err
	}
	return s.bind(ctx, op.CompleteOIDC.Info, who, opts, m, claims)
}

// errUnbound is the answer to somebody who is known, and whom no rule grants
// anything.
var errUnbound = berth.Errorf(berth.Denied, "Permission denied: no binding rule of the auth method grants anything to these claims")

// bind makes a token with what the binding rules grant to claims.
func (s *Server) bind(ctx context.Context, info *op.Info, who Caller, opts *op.Write, m *berth.ACLAuthMethod, claims *login.Claims) (op.ACLToken, uint64, error) {
	return runWrite(ctx, s, info, who, opts, claims, func(w *Write, claims *login.Claims) (ch Change[op.ACLToken], err error) {
		now := w.AuthMethod(m.Name)
		if now == nil || now.CreateIndex != m.CreateIndex || now.ModifyIndex != m.ModifyIndex {
			return ch, berth.Errorf(berth.Conflict, "auth method %q was changed during the login: try again", m.Name)
		}
		t, rules, err := bound(w.Snapshot, m, claims)
		if m.Config.VerboseLogging {
			s.Logger.Debug("a login", "method", m.Name, "value", claims.Value, "list", claims.List, "rules", rules, "refused", err != nil)
		}
		if err != nil {
			return ch, err
		}
		secret := w.secret()
		t.AccessorID, t.SecretHash = w.uuid(), sha256.Sum256([]byte(secret))
		t.CreateTime, t.ExpirationTime = w.Now.UnixNano(), w.Now.Add(m.MaxTokenTTL).UnixNano()
		return propose(&state.UpsertACLTokens{Tokens: []*berth.ACLToken{t}}, func(o *Outcome) op.ACLToken { return created(o, t.AccessorID, secret) }), nil
	})
}

// bound returns the token that binding rules grant, without IDs and times, and
// the rules that apply. Rules that name what does not exist grant nothing.
func bound(snap *state.Snapshot, m *berth.ACLAuthMethod, claims *login.Claims) (t *berth.ACLToken, rules []string, err error) {
	value := func(name string) string {
		switch field, ok := strings.CutPrefix(name, "value."); {
		case ok:
			return claims.Value[field]
		case name == "auth_method_type":
			return m.Type
		default:
			return m.Name
		}
	}
	t = &berth.ACLToken{Type: berth.TokenClient, Global: m.TokenLocality == berth.LocalityGlobal}
	t.Name, _ = authmethod.Expand(m.TokenNameFormat, value)
	t.Name = cut(t.Name, 256)
	for r := range snap.BindingRules() {
		if r.AuthMethod != m.Name || !selects(r, claims) {
			continue
		}
		rules = append(rules, r.ID)
		name, whole := authmethod.Expand(r.BindName, value)
		if r.BindType == berth.BindManagement {
			t.Type = berth.TokenManagement
		}
		if !whole { // a claim that the name needs is not there
			continue
		}
		switch r.BindType {
		case berth.BindPolicy:
			if snap.ACLPolicy(name) != nil && !slices.Contains(t.Policies, name) {
				t.Policies = append(t.Policies, name)
			}
		case berth.BindRole:
			role := snap.ACLRoleNamed(name)
			if role == nil {
				role = snap.ACLRole(name)
			}
			if role != nil && !slices.Contains(t.Roles, role.ID) {
				t.Roles = append(t.Roles, role.ID)
			}
		}
	}
	switch {
	case t.Type == berth.TokenManagement:
		t.Policies, t.Roles = nil, nil
	case len(t.Policies)+len(t.Roles) == 0:
		return nil, rules, errUnbound
	}
	return t, rules, nil
}

// selects reports whether a binding rule is for somebody with these claims. A
// selector that fails is for nobody.
func selects(r *berth.ACLBindingRule, claims *login.Claims) bool {
	f, err := selectorOf(r)
	if err != nil || f == nil {
		return err == nil
	}
	ok, err := f.Match(func(int) any { return claims })
	return ok && err == nil
}

package api

import (
	"reflect"
	"strings"
	"time"

	"berth"
	"berth/internal/authmethod"
	"berth/internal/filter"
	"berth/internal/login"
	"berth/internal/state"
	"berth/op"
)

// authMethodView shows an auth method, without its secret.
func authMethodView(s *state.Snapshot, m *berth.ACLAuthMethod) op.AuthMethod {
	c := *m.Config
	if s.Variable(berth.AuthSecret(m.Name)) != nil {
		c.OIDCClientSecret = op.Redacted
	}
	return op.AuthMethod{
		Name: m.Name, Type: m.Type, TokenLocality: m.TokenLocality, TokenNameFormat: m.TokenNameFormat, MaxTokenTTL: m.MaxTokenTTL.String(),
		Default: m.Default, Config: &c, CreateTime: time.Unix(0, m.CreateTime).UTC(), ModifyTime: time.Unix(0, m.ModifyTime).UTC(),
		CreateIndex: m.CreateIndex, ModifyIndex: m.ModifyIndex,
	}
}

// listAuthMethods returns the names of auth methods, to anybody.
func listAuthMethods(r *Read, _ *op.Query) ([]op.AuthMethodStub, error) {
	r.Table(state.ACLAuthMethods)
	l := scanned(r.Query, r.AuthMethods(), byID(func(m *berth.ACLAuthMethod) string { return m.Name }))
	return page(r, l, func(m *berth.ACLAuthMethod) bool { return strings.HasPrefix(m.Name, r.Query.Prefix) }, func(m *berth.ACLAuthMethod) op.AuthMethodStub {
		return op.AuthMethodStub{Name: m.Name, Type: m.Type, Default: m.Default, CreateIndex: m.CreateIndex, ModifyIndex: m.ModifyIndex}
	})
}

// readAuthMethod returns an auth method.
func readAuthMethod(r *Read, in *op.AuthMethodRef) (out op.AuthMethod, err error) {
	r.Table(state.ACLAuthMethods)
	m := r.AuthMethod(in.MethodName)
	if m == nil {
		return out, noAuthMethod(in.MethodName)
	}
	return authMethodView(r.Snapshot, m), nil
}

// noAuthMethod is the error for a name that no auth method has.
func noAuthMethod(name string) error {
	return berth.Errorf(berth.NotFound, "ACL auth method not found: %s", berth.Clip(name, 64))
}

// writeAuthMethod decides that an auth method is created or replaced. Its client
// secret is encrypted here, before anything is proposed.
func (s *Server) writeAuthMethod(w *Write, in *op.WriteAuthMethod) (ch Change[op.AuthMethod], err error) {
	m := &berth.ACLAuthMethod{
		Name: in.Name, Type: in.Type, TokenLocality: in.TokenLocality, TokenNameFormat: in.TokenNameFormat, MaxTokenTTL: in.MaxTokenTTL,
		Default: in.Default, Config: in.Config,
	}
	if m.Name == "" {
		m.Name = in.MethodName
	}
	if in.MethodName != "" && in.MethodName != m.Name {
		return ch, berth.Errorf(berth.Invalid, "Name: %q in the body differs from %q in the path", berth.Clip(in.Name, 64), berth.Clip(in.MethodName, 64))
	}
	authmethod.Canonicalize(m)
	if err := authmethod.Validate(m); err != nil {
		return ch, err
	}
	if low, high := s.tokenTTL(); m.MaxTokenTTL < low || m.MaxTokenTTL > high {
		return ch, berth.Errorf(berth.Invalid, "MaxTokenTTL: must be from %v to %v, got %v", low, high, m.MaxTokenTTL)
	}
	if err := login.Check(m.Config); err != nil {
		return ch, err
	}
	c := &state.UpsertAuthMethod{Method: m, Create: in.MethodName == "", Now: w.Now.UnixNano()}
	if c.Create {
		oneMore(authMethodsLimit, w.Count(state.ACLAuthMethods))
	}
	config := *m.Config
	switch secret := config.OIDCClientSecret; secret {
	case "":
	case op.Redacted:
		if w.Variable(berth.AuthSecret(m.Name)) == nil {
			return ch, berth.Errorf(berth.Invalid, "Config.OIDCClientSecret: %q keeps the secret that is stored, but no secret is stored: give it", op.Redacted)
		}
		c.Keep = true
	default:
		if c.Secret, err = s.sealSecret(w, m.Name, secret); err != nil {
			return ch, err
		}
	}
	config.OIDCClientSecret, m.Config = "", &config
	return propose(c, func(o *Outcome) op.AuthMethod {
		now := o.After.AuthMethod(m.Name)
		if now == nil { // deleted meanwhile
			now = m
		}
		return authMethodView(o.After, now)
	}), nil
}

// sealSecret encrypts the client secret of an auth method with the active root
// key.
func (s *Server) sealSecret(w *Write, method, secret string) (*state.SealedSecret, error) {
	row := w.ActiveKey()
	switch {
	case s.Keyring == nil:
		return nil, errNoKeyring
	case row == nil:
		return nil, berth.Errorf(berth.Unavailable, "the cluster has no root key yet: a server may be too old to know them")
	}
	key, err := s.Keyring.Open(row)
	if err != nil {
		return nil, err
	}
	data, err := key.Seal(berth.AuthSecret(method), map[string]string{secretItem: secret})
	return &state.SealedSecret{KeyID: row.ID, Data: data, Size: len(secretItem) + len(secret)}, err
}

// secretItem is the name of the client secret among what is encrypted.
const secretItem = "OIDCClientSecret"

// clientSecret decrypts the client secret of an auth method, "" if it has none.
func (s *Server) clientSecret(snap *state.Snapshot, method string) (string, error) {
	v := snap.Variable(berth.AuthSecret(method))
	if v == nil {
		return "", nil
	}
	items, err := s.openVariable(snap, v)
	return items[secretItem], err
}

// removeAuthMethod decides that an auth method is deleted.
func removeAuthMethod(_ *Write, in *op.DeleteAuthMethod) (Change[op.WriteAnswer], error) {
	return propose[op.WriteAnswer](&state.DeleteAuthMethods{Names: []string{in.MethodName}}, nil), nil
}

// bindingRuleView shows a binding rule.
func bindingRuleView(r *berth.ACLBindingRule) op.BindingRule {
	return op.BindingRule{
		ID: r.ID, Description: r.Description, AuthMethod: r.AuthMethod, Selector: r.Selector, BindType: r.BindType, BindName: r.BindName,
		CreateTime: time.Unix(0, r.CreateTime).UTC(), ModifyTime: time.Unix(0, r.ModifyTime).UTC(), CreateIndex: r.CreateIndex, ModifyIndex: r.ModifyIndex,
	}
}

// listBindingRules returns the binding rules.
func listBindingRules(r *Read, _ *op.Query) ([]op.BindingRuleStub, error) {
	r.Table(state.ACLBindingRules)
	l := scanned(r.Query, r.BindingRules(), byID(func(x *berth.ACLBindingRule) string { return x.ID }))
	return page(r, l, func(x *berth.ACLBindingRule) bool { return strings.HasPrefix(x.ID, r.Query.Prefix) }, func(x *berth.ACLBindingRule) op.BindingRuleStub {
		return op.BindingRuleStub{ID: x.ID, Description: x.Description, AuthMethod: x.AuthMethod, CreateIndex: x.CreateIndex, ModifyIndex: x.ModifyIndex}
	})
}

// readBindingRule returns a binding rule.
func readBindingRule(r *Read, in *op.BindingRuleRef) (out op.BindingRule, err error) {
	r.Table(state.ACLBindingRules)
	x := r.BindingRule(in.RuleID)
	if x == nil {
		return out, berth.Errorf(berth.NotFound, "ACL binding rule not found: %s", berth.Clip(in.RuleID, 64))
	}
	return bindingRuleView(x), nil
}

// writeBindingRule decides that a binding rule is created or replaced.
func writeBindingRule(w *Write, in *op.WriteBindingRule) (ch Change[op.BindingRule], err error) {
	rule := &berth.ACLBindingRule{
		ID: in.RuleID, Description: in.Description, AuthMethod: in.AuthMethod, Selector: in.Selector, BindType: in.BindType, BindName: in.BindName,
	}
	old := w.BindingRule(in.RuleID)
	switch {
	case in.RuleID == "" && in.ID != "":
		return ch, berth.Errorf(berth.Invalid, "ID: must be empty: the servers choose it")
	case in.RuleID == "":
		rule.ID = w.uuid()
	case in.ID != "" && in.ID != in.RuleID:
		return ch, berth.Errorf(berth.Invalid, "ID: %q in the body differs from %q in the path", berth.Clip(in.ID, 64), berth.Clip(in.RuleID, 64))
	case old != nil && rule.AuthMethod == "": // it stays
		rule.AuthMethod = old.AuthMethod
	}
	if err := authmethod.ValidateRule(rule); err != nil {
		return ch, err
	}
	if _, err := selectorOf(rule); err != nil {
		return ch, berth.Errorf(berth.Invalid, "Selector: %w", err)
	}
	if in.RuleID == "" {
		oneMore(rulesLimit, w.Count(state.ACLBindingRules))
	}
	return propose(&state.UpsertBindingRule{Rule: rule, Create: in.RuleID == "", Now: w.Now.UnixNano()}, func(o *Outcome) op.BindingRule {
		if now := o.After.BindingRule(rule.ID); now != nil {
			return bindingRuleView(now)
		}
		return bindingRuleView(rule) // deleted meanwhile
	}), nil
}

// selectorOf returns who a binding rule is for; nil: everybody.
func selectorOf(r *berth.ACLBindingRule) (*filter.Filter, error) {
	if strings.TrimSpace(r.Selector) == "" {
		return nil, nil
	}
	return filter.Compile(r.Selector, filter.Part{Type: reflect.TypeFor[login.Claims]()})
}

// removeBindingRule decides that a binding rule is deleted.
func removeBindingRule(_ *Write, in *op.DeleteBindingRule) (Change[op.WriteAnswer], error) {
	return propose[op.WriteAnswer](&state.DeleteBindingRules{IDs: []string{in.RuleID}}, nil), nil
}

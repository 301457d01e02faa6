package state

import (
	"iter"
	"slices"

	"berth"
	"berth/internal/authmethod"
	"berth/internal/state/codec"
)

// AuthMethod returns the auth method with a name, or nil.
func (s *Snapshot) AuthMethod(name string) *berth.ACLAuthMethod { return s.acl.methods.get(name) }

// AuthMethods returns all auth methods in order of name.
func (s *Snapshot) AuthMethods() iter.Seq[*berth.ACLAuthMethod] { return s.acl.methods.all() }

// BindingRule returns the binding rule with an ID, or nil.
func (s *Snapshot) BindingRule(id string) *berth.ACLBindingRule { return s.acl.rules.get(id) }

// BindingRules returns all binding rules in order of ID.
func (s *Snapshot) BindingRules() iter.Seq[*berth.ACLBindingRule] { return s.acl.rules.all() }

// OneTimeToken returns the one-time token with the hash of a secret, or nil.
func (s *Snapshot) OneTimeToken(hash [32]byte) *berth.OneTimeToken {
	return s.acl.oneTime.get(string(hash[:]))
}

// OneTimeTokens returns all one-time tokens in order of their hashes.
func (s *Snapshot) OneTimeTokens() iter.Seq[*berth.OneTimeToken] { return s.acl.oneTime.all() }

// SealedSecret is a secret that a root key encrypts.
type SealedSecret struct {
	KeyID berth.RootKeyID
	Data  []byte
	Size  int // of what is encrypted, in bytes
}

// UpsertAuthMethod creates or replaces an auth method, and its client secret.
type UpsertAuthMethod struct {
	Method *berth.ACLAuthMethod
	Create bool          // it must not exist; else it must
	Secret *SealedSecret // nil: see Keep
	Keep   bool          // the secret stays as it is; else there is none without Secret
	Now    int64
}

// MaxAuthMethods is the largest number of auth methods.
const MaxAuthMethods = 1000

// Apply implements Command.
func (c *UpsertAuthMethod) Apply(tx *Tx) error {
	if c.Method == nil {
		return berth.Errorf(berth.Invalid, "auth method: is missing")
	}
	if err := authmethod.Validate(c.Method); err != nil {
		return err
	}
	if c.Method.Config.OIDCClientSecret != "" {
		return berth.Errorf(berth.Invalid, "auth method: the client secret must be encrypted")
	}
	name := c.Method.Name
	old := tx.AuthMethod(name)
	switch {
	case c.Create && old != nil:
		return berth.Errorf(berth.Conflict, "Name: auth method %q exists", name)
	case !c.Create && old == nil:
		return berth.Errorf(berth.NotFound, "ACL auth method not found: %s", name)
	case old != nil && old.Type != c.Method.Type:
		return berth.Errorf(berth.Invalid, "Type: an auth method of type %s stays one", old.Type)
	case old == nil && tx.acl.methods.count >= MaxAuthMethods:
		return berth.Errorf(berth.Limited, "there are %d auth methods, the maximum is %d", tx.acl.methods.count, MaxAuthMethods)
	case c.Secret != nil && (tx.RootKey(c.Secret.KeyID) == nil || len(c.Secret.Data) == 0):
		return berth.Errorf(berth.Conflict, "root key %s was removed meanwhile: try again", c.Secret.KeyID)
	}
	for other := range tx.AuthMethods() {
		if c.Method.Default && other.Default && other.Name != name && other.Type == c.Method.Type {
			return berth.Errorf(berth.Conflict, "Default: auth method %q is the default of type %s", other.Name, other.Type)
		}
	}
	row := *c.Method
	row.CreateIndex, row.ModifyIndex, row.CreateTime, row.ModifyTime = tx.Index, tx.Index, c.Now, c.Now
	if old != nil {
		row.CreateIndex, row.CreateTime = old.CreateIndex, old.CreateTime
	}
	tx.acl.methods.put(tx, ACLAuthMethods, name, &row)
	tx.storeAuthSecret(name, c.Secret, c.Keep, c.Now)
	return nil
}

// storeAuthSecret stores, keeps or removes the client secret of an auth method.
func (tx *Tx) storeAuthSecret(method string, secret *SealedSecret, keep bool, now int64) {
	k := berth.AuthSecret(method)
	old := tx.Variable(k)
	switch {
	case secret != nil:
		v := &berth.SealedVariable{
			Path: k.Path, KeyID: secret.KeyID, Data: secret.Data, Size: secret.Size,
			CreateIndex: tx.Index, CreateTime: now, ModifyIndex: tx.Index, ModifyTime: now,
		}
		if old != nil {
			v.CreateIndex, v.CreateTime = old.CreateIndex, old.CreateTime
		}
		tx.putVariable(old, v)
	case old != nil && !keep:
		tx.removeVariable(old)
	}
}

// DeleteAuthMethods deletes auth methods, with their binding rules: those would
// count for another method of that name. Tokens that were made stay.
type DeleteAuthMethods struct{ Names []string }

// Apply implements Command.
func (c *DeleteAuthMethods) Apply(tx *Tx) error {
	if err := checkRows("auth methods", len(c.Names)); err != nil {
		return err
	}
	for _, name := range c.Names {
		if tx.AuthMethod(name) == nil {
			return berth.Errorf(berth.NotFound, "ACL auth method not found: %.150s", name)
		}
	}
	var rules []string
	for r := range tx.BindingRules() {
		if slices.Contains(c.Names, r.AuthMethod) {
			rules = append(rules, r.ID)
		}
	}
	for _, id := range rules {
		tx.acl.rules.drop(tx, ACLBindingRules, id)
	}
	for _, name := range c.Names {
		tx.acl.methods.drop(tx, ACLAuthMethods, name)
		tx.storeAuthSecret(name, nil, false, 0)
	}
	return nil
}

// UpsertBindingRule creates or replaces a binding rule.
type UpsertBindingRule struct {
	Rule   *berth.ACLBindingRule
	Create bool // it must not exist; else it must
	Now    int64
}

// MaxBindingRules is the largest number of binding rules. Each login looks at
// all of them.
const MaxBindingRules = 10_000

// Apply implements Command.
func (c *UpsertBindingRule) Apply(tx *Tx) error {
	if c.Rule == nil || c.Rule.ID == "" {
		return berth.Errorf(berth.Invalid, "a binding rule needs an ID")
	}
	if err := authmethod.ValidateRule(c.Rule); err != nil {
		return err
	}
	old := tx.BindingRule(c.Rule.ID)
	switch {
	case c.Create && old != nil:
		return berth.Errorf(berth.Conflict, "ID: binding rule %s exists", c.Rule.ID)
	case !c.Create && old == nil:
		return berth.Errorf(berth.NotFound, "ACL binding rule not found: %.64s", c.Rule.ID)
	case old != nil && old.AuthMethod != c.Rule.AuthMethod:
		return berth.Errorf(berth.Invalid, "AuthMethod: a binding rule of auth method %q stays one", old.AuthMethod)
	case tx.AuthMethod(c.Rule.AuthMethod) == nil:
		return berth.Errorf(berth.Invalid, "AuthMethod: auth method %.150q not found", c.Rule.AuthMethod)
	case old == nil && tx.acl.rules.count >= MaxBindingRules:
		return berth.Errorf(berth.Limited, "there are %d binding rules, the maximum is %d", tx.acl.rules.count, MaxBindingRules)
	}
	row := *c.Rule
	row.CreateIndex, row.ModifyIndex, row.CreateTime, row.ModifyTime = tx.Index, tx.Index, c.Now, c.Now
	if old != nil {
		row.CreateIndex, row.CreateTime = old.CreateIndex, old.CreateTime
	}
	tx.acl.rules.put(tx, ACLBindingRules, row.ID, &row)
	return nil
}

// DeleteBindingRules deletes binding rules. Tokens that were made stay.
type DeleteBindingRules struct{ IDs []string }

// Apply implements Command.
func (c *DeleteBindingRules) Apply(tx *Tx) error {
	if err := checkRows("binding rules", len(c.IDs)); err != nil {
		return err
	}
	for _, id := range c.IDs {
		if tx.BindingRule(id) == nil {
			return berth.Errorf(berth.NotFound, "ACL binding rule not found: %.64s", id)
		}
	}
	for _, id := range c.IDs {
		tx.acl.rules.drop(tx, ACLBindingRules, id)
	}
	return nil
}

// loadAuthMethod adds an auth method.
func loadAuthMethod(l *loader, r *codec.Reader) error {
	m := read[berth.ACLAuthMethod](r)
	if r.Err() != nil {
		return nil
	}
	if err := authmethod.Validate(m); err != nil {
		return err
	}
	return l.tx.acl.methods.load(l, "auth method", m.Name, m)
}

// loadBindingRule adds a binding rule.
func loadBindingRule(l *loader, r *codec.Reader) error {
	x := read[berth.ACLBindingRule](r)
	return l.tx.acl.rules.load(l, "binding rule", x.ID, x)
}

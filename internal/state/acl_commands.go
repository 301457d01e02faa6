package state

import (
	"berth"
	"berth/internal/acl"
	"berth/internal/validate"
)

// MaxACLRows is the largest number of tokens, policies or roles that one command
// names.
const MaxACLRows = 1000

// checkRows refuses a command that names none or too many.
func checkRows(what string, n int) error {
	if n == 0 || n > MaxACLRows {
		return berth.Errorf(berth.Invalid, "%s: must name 1 to %d, got %d", what, MaxACLRows, n)
	}
	return nil
}

// BootstrapACL makes the first token, which may do everything. It works once, and
// again with the index of the last time.
type BootstrapACL struct {
	Token *berth.ACLToken
	Reset uint64 // index of the last bootstrap; 0: there must have been none
}

// Apply implements Command.
func (c *BootstrapACL) Apply(tx *Tx) error {
	if done := tx.Bootstrapped(); done != c.Reset {
		return berth.Errorf(berth.Invalid, "ACL bootstrap already done (reset index: %d)", done)
	}
	if c.Token == nil || c.Token.Type != berth.TokenManagement {
		return berth.Errorf(berth.Invalid, "the first token must be of type management")
	}
	if err := tx.checkToken(c.Token); err != nil {
		return err
	}
	if tx.ACLToken(c.Token.AccessorID) != nil {
		return berth.Errorf(berth.Conflict, "the accessor ID is taken")
	}
	tx.storeToken(c.Token)
	tx.acl.bootstrapped = tx.Index
	return nil
}

// checkToken returns what is wrong with a token that is to be stored.
func (tx *Tx) checkToken(t *berth.ACLToken) error {
	if t == nil || t.AccessorID == "" || t.SecretHash == [32]byte{} {
		return berth.Errorf(berth.Invalid, "a token needs an accessor ID and a secret")
	}
	if err := validate.ACLToken(t); err != nil {
		return err
	}
	for _, name := range t.Policies {
		if tx.ACLPolicy(name) == nil {
			return berth.Errorf(berth.Invalid, "Policies: policy %.150q not found", name)
		}
	}
	for _, id := range t.Roles {
		if tx.ACLRole(id) == nil {
			return berth.Errorf(berth.Invalid, "Roles: role %.150q not found", id)
		}
	}
	old := tx.ACLToken(t.AccessorID)
	if old != nil && old.SecretHash != t.SecretHash {
		return berth.Errorf(berth.Conflict, "the secret of a token cannot be changed")
	}
	if old == nil && tx.ACLTokenOf(t.SecretHash) != nil {
		return berth.Errorf(berth.Conflict, "another token has this secret")
	}
	return nil
}

// storeToken stores a token that was checked.
func (tx *Tx) storeToken(t *berth.ACLToken) {
	row, old := *t, tx.ACLToken(t.AccessorID)
	row.CreateIndex, row.ModifyIndex = tx.Index, tx.Index
	if old != nil {
		row.CreateIndex, row.CreateTime, row.ExpirationTime = old.CreateIndex, old.CreateTime, old.ExpirationTime
	}
	tx.putToken(old, &row)
}

// UpsertACLTokens creates or changes tokens. Secret and times stay as they are.
type UpsertACLTokens struct {
	Tokens []*berth.ACLToken
}

// Apply implements Command.
func (c *UpsertACLTokens) Apply(tx *Tx) error {
	if err := checkRows("tokens", len(c.Tokens)); err != nil {
		return err
	}
	seen, accessors := map[[32]byte]bool{}, map[string]bool{}
	for _, t := range c.Tokens {
		if err := tx.checkToken(t); err != nil {
			return err
		}
		if seen[t.SecretHash] {
			return berth.Errorf(berth.Invalid, "two tokens have one secret")
		}
		if accessors[t.AccessorID] {
			return berth.Errorf(berth.Invalid, "two tokens have the accessor %s", t.AccessorID)
		}
		seen[t.SecretHash], accessors[t.AccessorID] = true, true
	}
	for _, t := range c.Tokens {
		tx.storeToken(t)
	}
	return nil
}

// DeleteACLTokens deletes tokens.
type DeleteACLTokens struct {
	Accessors []string
}

// Apply implements Command.
func (c *DeleteACLTokens) Apply(tx *Tx) error {
	if err := checkRows("tokens", len(c.Accessors)); err != nil {
		return err
	}
	for _, id := range c.Accessors {
		if tx.ACLToken(id) == nil {
			return berth.Errorf(berth.NotFound, "ACL token %.64q not found", id)
		}
	}
	for _, id := range c.Accessors {
		tx.removeToken(id)
	}
	return nil
}

// UpsertACLPolicies creates or replaces policies.
type UpsertACLPolicies struct {
	Policies []*berth.ACLPolicy
}

// Apply implements Command.
func (c *UpsertACLPolicies) Apply(tx *Tx) error {
	if err := checkRows("policies", len(c.Policies)); err != nil {
		return err
	}
	for _, p := range c.Policies {
		if p == nil {
			return berth.Errorf(berth.Invalid, "policies: one of them is empty")
		}
		if err := validate.ACLPolicy(p); err != nil {
			return err
		}
		if len(p.Rules) > acl.MaxRules { // handlers parse them; a build that reads them otherwise must not differ here
			return berth.Errorf(berth.Invalid, "Rules: at most %d bytes, got %d", acl.MaxRules, len(p.Rules))
		}
	}
	for _, p := range c.Policies {
		row, old := *p, tx.ACLPolicy(p.Name)
		row.CreateIndex, row.ModifyIndex = tx.Index, tx.Index
		if old != nil {
			row.CreateIndex = old.CreateIndex
		}
		tx.putPolicy(old, &row)
	}
	return nil
}

// boundSince is the log version since which policies can be bound to jobs.
const boundSince = 5

// needs returns the log version that the command needs.
func (c *UpsertACLPolicies) needs() int {
	for _, p := range c.Policies {
		if p != nil && p.JobACL != nil {
			return boundSince
		}
	}
	return kinds[NumberOf(c)].since
}

// DeleteACLPolicies deletes policies. Tokens and roles that name them stay, and
// lose what they granted.
type DeleteACLPolicies struct {
	Names []string
}

// Apply implements Command.
func (c *DeleteACLPolicies) Apply(tx *Tx) error {
	if err := checkRows("policies", len(c.Names)); err != nil {
		return err
	}
	for _, name := range c.Names {
		if tx.ACLPolicy(name) == nil {
			return berth.Errorf(berth.NotFound, "ACL policy %.150q not found", name)
		}
	}
	for _, name := range c.Names {
		tx.removePolicy(name)
	}
	return nil
}

// UpsertACLRoles creates or changes roles.
type UpsertACLRoles struct {
	Roles []*berth.ACLRole
}

// Apply implements Command.
func (c *UpsertACLRoles) Apply(tx *Tx) error {
	if err := checkRows("roles", len(c.Roles)); err != nil {
		return err
	}
	names := map[string]string{}
	for _, r := range c.Roles {
		if r == nil || r.ID == "" {
			return berth.Errorf(berth.Invalid, "a role needs an ID")
		}
		if err := validate.ACLRole(r); err != nil {
			return err
		}
		for _, p := range r.Policies {
			if tx.ACLPolicy(p.Name) == nil {
				return berth.Errorf(berth.Invalid, "Policies: policy %.150q not found", p.Name)
			}
		}
		if other := tx.ACLRoleNamed(r.Name); other != nil && other.ID != r.ID || names[r.Name] != "" {
			return berth.Errorf(berth.Conflict, "Name: another role is called %q", r.Name)
		}
		names[r.Name] = r.ID
	}
	for _, r := range c.Roles {
		row, old := *r, tx.ACLRole(r.ID)
		row.CreateIndex, row.ModifyIndex = tx.Index, tx.Index
		if old != nil {
			row.CreateIndex = old.CreateIndex
		}
		tx.putRole(old, &row)
	}
	return nil
}

// DeleteACLRoles deletes roles. Tokens that have them stay, and lose what they
// granted.
type DeleteACLRoles struct {
	IDs []string
}

// Apply implements Command.
func (c *DeleteACLRoles) Apply(tx *Tx) error {
	if err := checkRows("roles", len(c.IDs)); err != nil {
		return err
	}
	for _, id := range c.IDs {
		if tx.ACLRole(id) == nil {
			return berth.Errorf(berth.NotFound, "ACL role %.64q not found", id)
		}
	}
	for _, id := range c.IDs {
		tx.removeRole(id)
	}
	return nil
}

package api

import (
	"crypto/sha256"
	"slices"
	"strings"
	"time"

	"berth"
	"berth/internal/acl"
	"berth/internal/state"
	"berth/internal/validate"
	"berth/op"
)

// access registers the operations on tokens, policies and roles.
func (s *Server) access() {
	write(s, op.BootstrapACL, s.bootstrapACL)
	readList(s, op.ListACLTokens, listTokens)
	read(s, op.ReadACLToken, readToken)
	read(s, op.ReadOwnToken, readOwnToken)
	write(s, op.CreateACLToken, s.writeToken)
	write(s, op.UpdateACLToken, s.writeToken)
	write(s, op.RemoveACLToken, removeToken)
	write(s, op.MakeOneTimeToken, s.makeOneTime)
	write(s, op.ExchangeOneTimeToken, s.exchangeOneTime)
	readList(s, op.ListACLPolicies, listPolicyNames)
	read(s, op.ReadACLPolicy, readACLPolicy)
	read(s, op.ReadOwnPolicies, readOwnPolicies)
	write(s, op.ApplyACLPolicy, writeACLPolicy)
	write(s, op.RemoveACLPolicy, removeACLPolicy)
	readList(s, op.ListACLRoles, listRoles)
	read(s, op.ReadACLRole, readRole)
	read(s, op.FindACLRole, findRole)
	write(s, op.CreateACLRole, writeRole)
	write(s, op.UpdateACLRole, writeRole)
	write(s, op.RemoveACLRole, removeRole)
	read(s, op.AskACL, canI)
	read(s, op.WhoAmI, s.whoAmI)
}

// errACLOff is the answer to what makes no sense without access control.
var errACLOff = berth.Errorf(berth.Invalid, "ACL support disabled: the servers' configuration has no acl { enabled = true }")

// self returns the token of the caller, nil if it has none.
func (r *Read) self() *berth.ACLToken {
	return r.ACLTokenOf(sha256.Sum256([]byte(r.Caller.Token)))
}

// tokenView shows a token, without its secret.
func tokenView(s *state.Snapshot, t *berth.ACLToken) op.ACLToken {
	v := op.ACLToken{
		AccessorID: t.AccessorID, Name: t.Name, Type: t.Type, Policies: t.Policies, Global: t.Global,
		CreateTime: time.Unix(0, t.CreateTime).UTC(), CreateIndex: t.CreateIndex, ModifyIndex: t.ModifyIndex,
	}
	if t.ExpirationTime != 0 {
		at := time.Unix(0, t.ExpirationTime).UTC()
		v.ExpirationTime = &at
	}
	for _, id := range t.Roles {
		l := berth.ACLLink{ID: id}
		if role := s.ACLRole(id); role != nil {
			l.Name = role.Name
		}
		v.Roles = append(v.Roles, l)
	}
	return v
}

// uuid returns a random ID as text.
func (w *Write) uuid() string {
	var id berth.ID[berth.ACLToken]
	w.random(id[:])
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return id.String()
}

// secret returns a random secret. It has the form of an ID, as clients expect, and
// 122 random bits.
func (w *Write) secret() string { return w.uuid() }

// bootstrapACL decides that the first token is made.
func (s *Server) bootstrapACL(w *Write, in *op.Bootstrap) (ch Change[op.ACLToken], err error) {
	if s.guard == nil {
		return ch, errACLOff
	}
	secret := in.BootstrapSecret
	if secret == "" {
		secret = w.secret()
	} else if _, err := berth.ParseID[berth.ACLToken](secret); err != nil {
		return ch, berth.Errorf(berth.Invalid, "BootstrapSecret: must be a UUID")
	}
	t := &berth.ACLToken{
		AccessorID: w.uuid(), SecretHash: sha256.Sum256([]byte(secret)), Name: "Bootstrap Token", Type: berth.TokenManagement, Global: true, CreateTime: w.Now.UnixNano(),
	}
	c := &state.BootstrapACL{Token: t}
	if s.ResetIndex != nil {
		if n := s.ResetIndex(); n != 0 && n == w.Bootstrapped() {
			c.Reset = n
		}
	}
	return propose(c, func(o *Outcome) op.ACLToken { return created(o, t.AccessorID, secret) }), nil
}

// created is the answer that shows a secret.
func created(o *Outcome, accessor, secret string) op.ACLToken {
	t := o.After.ACLToken(accessor)
	if t == nil { // deleted in between
		return op.ACLToken{AccessorID: accessor}
	}
	v := tokenView(o.After, t)
	v.SecretID = secret
	return v
}

// listTokens returns all tokens, or the global ones.
func listTokens(r *Read, in *op.ACLTokensQuery) ([]op.ACLToken, error) {
	r.At(max(r.LastChange(state.ACLTokens), r.LastChange(state.ACLRoles)), state.OnTable(state.ACLTokens), state.OnTable(state.ACLRoles))
	l := scanned(r.Query, r.ACLTokens(), byID(func(t *berth.ACLToken) string { return t.AccessorID }))
	return page(r, l, func(t *berth.ACLToken) bool {
		return strings.HasPrefix(t.AccessorID, r.Query.Prefix) && (t.Global || !in.Global)
	}, func(t *berth.ACLToken) op.ACLToken { return tokenView(r.Snapshot, t) })
}

// readToken returns a token to its holder, and to those who may do everything.
func readToken(r *Read, in *op.ACLTokenRef) (op.ACLToken, error) {
	r.Table(state.ACLTokens)
	if self := r.self(); self == nil || self.AccessorID != in.AccessorID {
		if err := r.may(acl.Management, ""); err != nil {
			return op.ACLToken{}, err
		}
	}
	t := r.ACLToken(in.AccessorID)
	if t == nil {
		return op.ACLToken{}, berth.Errorf(berth.NotFound, "ACL token not found: %s", berth.Clip(in.AccessorID, 64))
	}
	return tokenView(r.Snapshot, t), nil
}

// readOwnToken returns the caller's token.
func readOwnToken(r *Read, _ *op.Query) (op.ACLToken, error) {
	r.Table(state.ACLTokens)
	t := r.self()
	if w := r.workload(); w != nil {
		return op.ACLToken{AccessorID: w.alloc.String(), Name: w.name, Type: berth.TokenClient, Policies: w.policies}, nil
	}
	if t == nil {
		return op.ACLToken{
			AccessorID: "anonymous", Name: "Anonymous Token", Type: berth.TokenClient, Policies: []string{berth.AnonymousPolicy},
		}, nil
	}
	return tokenView(r.Snapshot, t), nil
}

// writeToken decides that a token is created or changed.
func (s *Server) writeToken(w *Write, in *op.WriteACLToken) (ch Change[op.ACLToken], err error) {
	if s.guard == nil {
		return ch, errACLOff
	}
	t := &berth.ACLToken{
		AccessorID: in.AccessorID, Name: in.Name, Type: in.Type, Policies: in.Policies, Global: in.Global, CreateTime: w.Now.UnixNano(),
	}
	for _, l := range in.Roles {
		role := w.ACLRole(l.ID)
		if l.ID == "" {
			role = w.ACLRoleNamed(l.Name)
		}
		if role == nil {
			return ch, berth.Errorf(berth.Invalid, "Roles: role %q not found", berth.Clip(l.ID+l.Name, 64))
		}
		t.Roles = append(t.Roles, role.ID)
	}
	secret := ""
	old := w.ACLToken(in.Accessor)
	switch {
	case in.Accessor != "" && in.AccessorID != "" && in.AccessorID != in.Accessor:
		return ch, berth.Errorf(berth.Invalid, "AccessorID: %q in the body differs from %q in the path", berth.Clip(in.AccessorID, 64), berth.Clip(in.Accessor, 64))
	case in.Accessor == "" && (in.AccessorID != "" || in.SecretID != ""):
		return ch, berth.Errorf(berth.Invalid, "AccessorID and SecretID must be empty: the servers choose them, unless the path names the AccessorID")
	case old != nil && old.Type != in.Type && in.Type != "":
		return ch, berth.Errorf(berth.Invalid, "Type: a token of type %s stays one", old.Type)
	case old != nil && in.SecretID != "" && sha256.Sum256([]byte(in.SecretID)) != old.SecretHash:
		return ch, berth.Errorf(berth.Conflict, "SecretID: the secret of a token cannot be changed")
	case old != nil:
		t.AccessorID, t.SecretHash, t.Type = old.AccessorID, old.SecretHash, old.Type
	default:
		if secret, err = s.newToken(w, in, t); err != nil {
			return ch, err
		}
	}
	if err := validate.ACLToken(t); err != nil {
		return ch, err
	}
	return propose(&state.UpsertACLTokens{Tokens: []*berth.ACLToken{t}}, func(o *Outcome) op.ACLToken { return created(o, t.AccessorID, secret) }), nil
}

// newToken fills in the IDs and times of a token that is to be made, and returns
// its secret. A caller that names an accessor ID uploads the token: it brings the
// secret as well.
func (s *Server) newToken(w *Write, in *op.WriteACLToken, t *berth.ACLToken) (secret string, err error) {
	if in.ExpirationTTL != 0 {
		if low, high := s.tokenTTL(); in.ExpirationTTL < low || in.ExpirationTTL > high {
			return "", berth.Errorf(berth.Invalid, "ExpirationTTL: must be from %v to %v, got %v", low, high, in.ExpirationTTL)
		}
		t.ExpirationTime = w.Now.Add(in.ExpirationTTL).UnixNano()
	}
	if in.Accessor == "" {
		secret = w.secret()
		t.AccessorID, t.SecretHash = w.uuid(), sha256.Sum256([]byte(secret))
		return secret, nil
	}
	if in.SecretID == "" {
		return "", berth.Errorf(berth.NotFound, "ACL token not found: %s", berth.Clip(in.Accessor, 64))
	}
	var ps berth.Problems
	if _, err := berth.ParseID[berth.ACLToken](in.Accessor); err != nil {
		ps.Addf("AccessorID", "must be a UUID, got %q", berth.Clip(in.Accessor, 64))
	}
	if _, err := berth.ParseID[berth.ACLToken](in.SecretID); err != nil {
		ps.Addf("SecretID", "must be a UUID")
	}
	if in.Type == berth.TokenManagement {
		ps.Addf("Type", "a token with IDs of the caller's choice must be of type client")
	}
	t.AccessorID, t.SecretHash = in.Accessor, sha256.Sum256([]byte(in.SecretID))
	return in.SecretID, ps.Err()
}

// tokenTTL returns the bounds of how long tokens that expire are valid.
func (s *Server) tokenTTL() (low, high time.Duration) {
	low, high = s.MinTokenTTL, s.MaxTokenTTL
	if low == 0 {
		low = time.Minute
	}
	if high == 0 {
		high = 24 * time.Hour
	}
	return low, high
}

// removeToken decides that a token is deleted.
func removeToken(_ *Write, in *op.DeleteACLToken) (Change[op.WriteAnswer], error) {
	return propose[op.WriteAnswer](&state.DeleteACLTokens{Accessors: []string{in.AccessorID}}, nil), nil
}

// holds returns the names of the caller's policies; all is true for one who may
// do everything.
func (r *Read) holds() (names []string, all bool) {
	if r.may(acl.Management, "") == nil {
		return nil, true
	}
	t := r.self()
	if w := r.workload(); w != nil {
		return w.policies, false
	}
	if t == nil {
		return []string{berth.AnonymousPolicy}, false
	}
	names = slices.Clone(t.Policies)
	for _, id := range t.Roles {
		if role := r.ACLRole(id); role != nil {
			for _, p := range role.Policies {
				names = append(names, p.Name)
			}
		}
	}
	return names, false
}

// policyStub shows a policy in a list.
func policyStub(p *berth.ACLPolicy) op.ACLPolicyStub {
	return op.ACLPolicyStub{Name: p.Name, Description: p.Description, JobACL: p.JobACL, CreateIndex: p.CreateIndex, ModifyIndex: p.ModifyIndex}
}

// onACL makes the answer change with tokens, policies and roles.
func (r *Read) onACL() {
	r.At(r.ACLVersion(), state.OnTable(state.ACLTokens), state.OnTable(state.ACLPolicies), state.OnTable(state.ACLRoles))
}

// listPolicyNames returns the policies that the caller has, or all to one who may
// do everything.
func listPolicyNames(r *Read, _ *op.Query) ([]op.ACLPolicyStub, error) {
	r.onACL()
	names, all := r.holds()
	l := scanned(r.Query, r.ACLPolicies(), byID(func(p *berth.ACLPolicy) string { return p.Name }))
	return page(r, l, func(p *berth.ACLPolicy) bool {
		return strings.HasPrefix(p.Name, r.Query.Prefix) && (all || slices.Contains(names, p.Name))
	}, policyStub)
}

// readACLPolicy returns a policy to those who have it.
func readACLPolicy(r *Read, in *op.ACLPolicyRef) (*berth.ACLPolicy, error) {
	r.onACL()
	if names, all := r.holds(); !all && !slices.Contains(names, in.PolicyName) {
		return nil, r.may(acl.Management, "")
	}
	p := r.ACLPolicy(in.PolicyName)
	if p == nil {
		return nil, berth.Errorf(berth.NotFound, "ACL policy not found: %s", berth.Clip(in.PolicyName, 64))
	}
	return p, nil
}

// readOwnPolicies returns the policies of the caller.
func readOwnPolicies(r *Read, _ *op.Query) ([]op.ACLPolicyStub, error) {
	r.onACL()
	out := []op.ACLPolicyStub{}
	names, _ := r.holds()
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if p := r.ACLPolicy(name); p != nil {
			out = append(out, policyStub(p))
		}
	}
	return out, nil
}

// writeACLPolicy decides that a policy is created or replaced.
func writeACLPolicy(_ *Write, in *op.WriteACLPolicy) (ch Change[op.WriteAnswer], err error) {
	if in.Name != "" && in.Name != in.PolicyName {
		return ch, berth.Errorf(berth.Invalid, "Name: %q in the body differs from %q in the path", berth.Clip(in.Name, 64), berth.Clip(in.PolicyName, 64))
	}
	p := &berth.ACLPolicy{Name: in.PolicyName, Description: in.Description, Rules: in.Rules, JobACL: in.JobACL}
	if err := validate.ACLPolicy(p); err != nil {
		return ch, err
	}
	if _, err := acl.Parse(p.Rules); err != nil {
		return ch, berth.Errorf(berth.Invalid, "Rules: %w", err)
	}
	return propose[op.WriteAnswer](&state.UpsertACLPolicies{Policies: []*berth.ACLPolicy{p}}, nil), nil
}

// removeACLPolicy decides that a policy is deleted.
func removeACLPolicy(_ *Write, in *op.DeleteACLPolicy) (Change[op.WriteAnswer], error) {
	return propose[op.WriteAnswer](&state.DeleteACLPolicies{Names: []string{in.PolicyName}}, nil), nil
}

// hasRole reports whether the caller may see a role: one of its own, or any if it
// may do everything.
func (r *Read) hasRole(id string) bool {
	if t := r.self(); t != nil && slices.Contains(t.Roles, id) {
		return true
	}
	return r.may(acl.Management, "") == nil
}

// listRoles returns the roles that the caller may see.
func listRoles(r *Read, _ *op.Query) ([]*berth.ACLRole, error) {
	r.onACL()
	l := scanned(r.Query, r.ACLRoles(), byID(func(x *berth.ACLRole) string { return x.ID }))
	return page(r, l, func(x *berth.ACLRole) bool { return strings.HasPrefix(x.ID, r.Query.Prefix) && r.hasRole(x.ID) },
		func(x *berth.ACLRole) *berth.ACLRole { return x })
}

// role returns a role that the caller may see.
func (r *Read) role(x *berth.ACLRole, name string) (*berth.ACLRole, error) {
	r.onACL()
	if x == nil || !r.hasRole(x.ID) {
		if err := r.may(acl.Management, ""); err != nil {
			return nil, err
		}
		return nil, berth.Errorf(berth.NotFound, "ACL role not found: %s", berth.Clip(name, 64))
	}
	return x, nil
}

// readRole returns the role with an ID.
func readRole(r *Read, in *op.ACLRoleRef) (*berth.ACLRole, error) {
	return r.role(r.ACLRole(in.RoleID), in.RoleID)
}

// findRole returns the role with a name.
func findRole(r *Read, in *op.ACLRoleByName) (*berth.ACLRole, error) {
	return r.role(r.ACLRoleNamed(in.RoleName), in.RoleName)
}

// writeRole decides that a role is created or changed.
func writeRole(w *Write, in *op.WriteACLRole) (ch Change[*berth.ACLRole], err error) {
	role := &berth.ACLRole{ID: in.RoleID, Name: in.Name, Description: in.Description}
	for _, p := range in.Policies {
		role.Policies = append(role.Policies, berth.ACLLink{Name: p.Name})
	}
	switch {
	case in.RoleID == "" && in.ID != "":
		return ch, berth.Errorf(berth.Invalid, "ID: must be empty: the servers choose it")
	case in.RoleID == "":
		role.ID = w.uuid()
	case in.ID != "" && in.ID != in.RoleID:
		return ch, berth.Errorf(berth.Invalid, "ID: %q in the body differs from %q in the path", berth.Clip(in.ID, 64), berth.Clip(in.RoleID, 64))
	case w.ACLRole(in.RoleID) == nil:
		return ch, berth.Errorf(berth.NotFound, "ACL role not found: %s", berth.Clip(in.RoleID, 64))
	}
	if err := validate.ACLRole(role); err != nil {
		return ch, err
	}
	return propose(&state.UpsertACLRoles{Roles: []*berth.ACLRole{role}}, func(o *Outcome) *berth.ACLRole {
		if now := o.After.ACLRole(role.ID); now != nil {
			return now
		}
		return role
	}), nil
}

// removeRole decides that a role is deleted.
func removeRole(_ *Write, in *op.DeleteACLRole) (Change[op.WriteAnswer], error) {
	return propose[op.WriteAnswer](&state.DeleteACLRoles{IDs: []string{in.RoleID}}, nil), nil
}

// canI tells the caller what it may do.
func canI(r *Read, in *op.CanQuery) (op.Can, error) {
	c := acl.Capability(in.Capability)
	if !c.Known() {
		return op.Can{}, berth.Errorf(berth.Invalid, "capability: unknown capability %q", berth.Clip(in.Capability, 64))
	}
	r.onACL()
	r.Ready()
	name := r.Space()
	if !c.Namespaced() && !strings.HasPrefix(in.Capability, "variables:") {
		name = ""
	}
	return op.Can{Allowed: r.may(c, name) == nil}, nil
}

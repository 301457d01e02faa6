package state

import (
	"crypto/subtle"
	"iter"

	"berth"
	"berth/internal/acl"
	"berth/internal/cow"
)

// aclTable holds tokens, policies and roles.
type aclTable struct {
	tokens   rows[berth.ACLToken]
	policies rows[berth.ACLPolicy]
	roles    rows[berth.ACLRole]
	methods  keyed[berth.ACLAuthMethod]  // by name
	rules    keyed[berth.ACLBindingRule] // by ID
	oneTime  keyed[berth.OneTimeToken]   // by SHA-256 of the one-time secret

	byAccessor cow.Tree[string]
	bySecret   cow.Tree[string] // SHA-256 of the secret
	byPolicy   cow.Tree[string]
	byRole     cow.Tree[string] // ID
	byRoleName cow.Tree[string]

	bootstrapped uint64 // index of the last bootstrap, 0 if there was none
}

// Bootstrapped returns the index at which the first token was last made, 0 if it
// never was.
func (s *Snapshot) Bootstrapped() uint64 { return s.acl.bootstrapped }

// ACLVersion returns the index of the last change of any token, policy or role.
func (s *Snapshot) ACLVersion() uint64 {
	return max(s.LastChange(ACLTokens), s.LastChange(ACLPolicies), s.LastChange(ACLRoles))
}

// get returns the row of a key, or nil.
func get[T any](r *rows[T], by *cow.Tree[string], key string) *T {
	slot, ok := by.First(key)
	if !ok {
		return nil
	}
	return r.vec.Get(slot)
}

// ACLToken returns the token with an accessor ID, or nil.
func (s *Snapshot) ACLToken(accessor string) *berth.ACLToken {
	return get(&s.acl.tokens, &s.acl.byAccessor, accessor)
}

// ACLTokenOf returns the token with the hash of a secret, or nil.
func (s *Snapshot) ACLTokenOf(hash [32]byte) *berth.ACLToken {
	t := get(&s.acl.tokens, &s.acl.bySecret, string(hash[:]))
	if t == nil || subtle.ConstantTimeCompare(t.SecretHash[:], hash[:]) != 1 {
		return nil
	}
	return t
}

// ACLPolicy returns a policy, or nil.
func (s *Snapshot) ACLPolicy(name string) *berth.ACLPolicy {
	return get(&s.acl.policies, &s.acl.byPolicy, name)
}

// ACLRole returns the role with an ID, or nil.
func (s *Snapshot) ACLRole(id string) *berth.ACLRole { return get(&s.acl.roles, &s.acl.byRole, id) }

// ACLRoleNamed returns the role with a name, or nil.
func (s *Snapshot) ACLRoleNamed(name string) *berth.ACLRole {
	return get(&s.acl.roles, &s.acl.byRoleName, name)
}

// ACLTokens returns all tokens in order of accessor ID.
func (s *Snapshot) ACLTokens() iter.Seq[*berth.ACLToken] {
	return rowsOf(&s.acl.tokens, s.acl.byAccessor.All())
}

// ACLPolicies returns all policies in order of name.
func (s *Snapshot) ACLPolicies() iter.Seq[*berth.ACLPolicy] {
	return rowsOf(&s.acl.policies, s.acl.byPolicy.All())
}

// ACLRoles returns all roles in order of ID.
func (s *Snapshot) ACLRoles() iter.Seq[*berth.ACLRole] {
	return rowsOf(&s.acl.roles, s.acl.byRole.All())
}

// RightsOf returns what a token allows: with its policies, and those of its
// roles. Links to what was deleted grant nothing.
func (s *Snapshot) RightsOf(t *berth.ACLToken) *acl.ACL {
	if t.Type == berth.TokenManagement {
		return acl.Everything()
	}
	return s.RightsBy(s.PoliciesOf(t)...)
}

// PoliciesOf returns the names of the policies of a token, and of its roles.
func (s *Snapshot) PoliciesOf(t *berth.ACLToken) []string {
	names := append([]string{}, t.Policies...)
	for _, id := range t.Roles {
		if r := s.ACLRole(id); r != nil {
			for _, p := range r.Policies {
				names = append(names, p.Name)
			}
		}
	}
	return names
}

// WorkloadPolicies returns the names of the policies that are bound to a task.
func (s *Snapshot) WorkloadPolicies(namespace, job, group, task string) []string {
	names := []string{}
	for p := range s.ACLPolicies() {
		if p.JobACL.Binds(namespace, job, group, task) {
			names = append(names, p.Name)
		}
	}
	return names
}

// RightsBy returns what policies allow together.
func (s *Snapshot) RightsBy(names ...string) *acl.ACL {
	var policies []*acl.Policy
	for _, name := range names {
		row := s.ACLPolicy(name)
		if row == nil {
			continue
		}
		p, err := acl.Parse(row.Rules)
		if err != nil { // an older build accepted it: nothing is safer than less than it says
			return acl.New()
		}
		policies = append(policies, p)
	}
	return acl.New(policies...)
}

// putToken stores a token. old is the row it replaces, or nil.
func (tx *Tx) putToken(old, t *berth.ACLToken) {
	x := &tx.acl
	var slot uint32
	if old == nil {
		slot = x.tokens.insert(tx, t)
		x.byAccessor.Add(tx.edit, t.AccessorID, slot)
		x.bySecret.Add(tx.edit, string(t.SecretHash[:]), slot)
	} else {
		slot, _ = x.byAccessor.First(t.AccessorID)
		x.tokens.set(tx, slot, t)
	}
	tx.note(ACLTokens, anyOrNil(old), t)
}

// removeToken deletes a token; one that is gone is skipped.
func (tx *Tx) removeToken(accessor string) {
	x := &tx.acl
	slot, ok := x.byAccessor.First(accessor)
	if !ok {
		return
	}
	t := x.tokens.vec.Get(slot)
	x.byAccessor.Remove(tx.edit, accessor, slot)
	x.bySecret.Remove(tx.edit, string(t.SecretHash[:]), slot)
	x.tokens.remove(tx, slot)
	tx.note(ACLTokens, t, nil)
}

// putPolicy stores a policy. old is the row it replaces, or nil.
func (tx *Tx) putPolicy(old, p *berth.ACLPolicy) {
	x := &tx.acl
	if old == nil {
		x.byPolicy.Add(tx.edit, p.Name, x.policies.insert(tx, p))
	} else {
		slot, _ := x.byPolicy.First(p.Name)
		x.policies.set(tx, slot, p)
	}
	tx.note(ACLPolicies, anyOrNil(old), p)
}

// removePolicy deletes a policy; one that is gone is skipped.
func (tx *Tx) removePolicy(name string) {
	x := &tx.acl
	slot, ok := x.byPolicy.First(name)
	if !ok {
		return
	}
	p := x.policies.vec.Get(slot)
	x.byPolicy.Remove(tx.edit, name, slot)
	x.policies.remove(tx, slot)
	tx.note(ACLPolicies, p, nil)
}

// putRole stores a role. old is the row it replaces, or nil.
func (tx *Tx) putRole(old, r *berth.ACLRole) {
	x := &tx.acl
	var slot uint32
	if old == nil {
		slot = x.roles.insert(tx, r)
		x.byRole.Add(tx.edit, r.ID, slot)
	} else {
		slot, _ = x.byRole.First(r.ID)
		x.roles.set(tx, slot, r)
		x.byRoleName.Remove(tx.edit, old.Name, slot)
	}
	x.byRoleName.Add(tx.edit, r.Name, slot)
	tx.note(ACLRoles, anyOrNil(old), r)
}

// removeRole deletes a role; one that is gone is skipped.
func (tx *Tx) removeRole(id string) {
	x := &tx.acl
	slot, ok := x.byRole.First(id)
	if !ok {
		return
	}
	r := x.roles.vec.Get(slot)
	x.byRole.Remove(tx.edit, id, slot)
	x.byRoleName.Remove(tx.edit, r.Name, slot)
	x.roles.remove(tx, slot)
	tx.note(ACLRoles, r, nil)
}

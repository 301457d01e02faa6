package state

import (
	"crypto/sha256"
	"iter"
	"slices"

	"berth"
	"berth/internal/state/codec"
)

// Regions copy these tables from the authoritative one.
const (
	CopyPools      = "node pools"
	CopyQuotas     = "quotas"
	CopyNamespaces = "namespaces"
	CopyPolicies   = "policies"
	CopyRoles      = "roles"
	CopyTokens     = "tokens" // the global ones
	CopyMethods    = "auth methods"
	CopyRules      = "binding rules"
)

// A Copied is one of those tables.
type Copied struct {
	Name   string
	Table  Table
	Access bool // it is of access control
	all    func(*Snapshot) iter.Seq2[string, any]
	decode func([]byte) (any, error)
}

// CopiedTables are the tables that regions copy, each after those that its rows
// refer to.
var CopiedTables = []Copied{
	copied(CopyPools, NodePools, false, (*Snapshot).NodePools, func(_ *Snapshot, p berth.NodePool) (string, *berth.NodePool) {
		if berth.BuiltIn(p.Name) {
			return "", nil
		}
		p.CreateIndex, p.ModifyIndex = 0, 0
		return p.Name, &p
	}),
	copied(CopyQuotas, Quotas, false, (*Snapshot).Quotas, func(_ *Snapshot, q berth.Quota) (string, *berth.Quota) {
		q.Region, q.CreateIndex, q.ModifyIndex = "", 0, 0
		return q.Name, &q
	}),
	copied(CopyNamespaces, Namespaces, false, (*Snapshot).Namespaces, func(_ *Snapshot, n berth.Namespace) (string, *berth.Namespace) {
		n.CreateIndex, n.ModifyIndex = 0, 0
		return n.Name, &n
	}),
	copied(CopyPolicies, ACLPolicies, true, (*Snapshot).ACLPolicies, func(_ *Snapshot, p berth.ACLPolicy) (string, *berth.ACLPolicy) {
		p.CreateIndex, p.ModifyIndex = 0, 0
		return p.Name, &p
	}),
	copied(CopyRoles, ACLRoles, true, (*Snapshot).ACLRoles, copyOfRole),
	copied(CopyTokens, ACLTokens, true, (*Snapshot).ACLTokens, copyOfToken),
	copied(CopyMethods, ACLAuthMethods, true, (*Snapshot).AuthMethods, func(_ *Snapshot, m berth.ACLAuthMethod) (string, *berth.ACLAuthMethod) {
		m.CreateTime, m.CreateIndex, m.ModifyIndex = 0, 0, 0
		return m.Name, &m
	}),
	copied(CopyRules, ACLBindingRules, true, (*Snapshot).BindingRules, func(_ *Snapshot, r berth.ACLBindingRule) (string, *berth.ACLBindingRule) {
		r.CreateTime, r.ModifyTime, r.CreateIndex, r.ModifyIndex = 0, 0, 0, 0
		return r.ID, &r
	}),
}

// copied describes a table. strip returns the key of a row and what of it is equal
// in all regions, "" if it is not copied.
func copied[T any](name string, t Table, access bool, rows func(*Snapshot) iter.Seq[*T], strip func(*Snapshot, T) (string, *T)) Copied {
	return Copied{name, t, access, func(s *Snapshot) iter.Seq2[string, any] {
		return func(yield func(string, any) bool) {
			for row := range rows(s) {
				if key, out := strip(s, *row); key != "" && !yield(key, out) {
					return
				}
			}
		}
	}, func(b []byte) (any, error) {
		row := new(T)
		return row, codec.Unmarshal(b, row)
	}}
}

// copyOfRole leaves out links to policies that were deleted: they grant nothing,
// and a region could not store them. A role that has no others is not copied.
func copyOfRole(s *Snapshot, r berth.ACLRole) (string, *berth.ACLRole) {
	r.Policies = slices.DeleteFunc(slices.Clone(r.Policies), func(l berth.ACLLink) bool { return s.ACLPolicy(l.Name) == nil })
	r.CreateIndex, r.ModifyIndex = 0, 0
	if len(r.Policies) == 0 {
		return "", nil
	}
	return r.ID, &r
}

// copyOfToken does the same for a token. One that can do nothing without what was
// deleted is copied while it still has anything.
func copyOfToken(s *Snapshot, t berth.ACLToken) (string, *berth.ACLToken) {
	if !t.Global {
		return "", nil
	}
	t.Policies = slices.DeleteFunc(slices.Clone(t.Policies), func(name string) bool { return s.ACLPolicy(name) == nil })
	t.Roles = slices.DeleteFunc(slices.Clone(t.Roles), func(id string) bool {
		role := s.ACLRole(id)
		if role == nil {
			return true
		}
		key, _ := copyOfRole(s, *role)
		return key == ""
	})
	t.CreateIndex, t.ModifyIndex = 0, 0
	if t.Type != berth.TokenManagement && len(t.Policies)+len(t.Roles) == 0 {
		return "", nil
	}
	return t.AccessorID, &t
}

// CopiedTable returns the table with a name; ok reports whether it is copied.
func CopiedTable(name string) (t Copied, ok bool) {
	i := slices.IndexFunc(CopiedTables, func(c Copied) bool { return c.Name == name })
	if i < 0 {
		return Copied{}, false
	}
	return CopiedTables[i], true
}

// All returns the rows in order of key: what of them is equal in all regions.
func (c Copied) All(s *Snapshot) iter.Seq2[string, any] { return c.all(s) }

// Encode returns a row that All returned in the form in which regions exchange it.
func (c Copied) Encode(row any) []byte { return codec.Marshal(row) }

// Decode returns the row that Encode wrote.
func (c Copied) Decode(b []byte) (row any, err error) { return c.decode(b) }

// Hash returns the hash by which regions compare a row.
func (c Copied) Hash(row any) [32]byte { return sha256.Sum256(c.Encode(row)) }

// CopiesChanged returns the index of the last change of anything that regions
// copy, and what to watch for the next one.
func (s *Snapshot) CopiesChanged() (index uint64, keys []WatchKey) {
	for _, c := range CopiedTables {
		index = max(index, s.LastChange(c.Table))
		keys = append(keys, OnTable(c.Table))
	}
	return index, keys
}

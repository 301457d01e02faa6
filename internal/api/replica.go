package api

import (
	"slices"

	"berth"
	"berth/internal/state"
	"berth/op"
)

// replicas registers what servers of other regions ask this one for.
func (s *Server) replicas() {
	read(s, op.ListReplica, s.listReplica)
	read(s, op.ReadReplica, s.readReplica)
}

// copied returns the table that a server of another region asks for.
func (s *Server) copied(name string) (state.Copied, error) {
	t, ok := state.CopiedTable(name)
	switch {
	case !ok:
		return t, berth.Errorf(berth.Invalid, "Table: unknown table %.40q", name)
	case t.Access && s.guard == nil:
		return t, errACLOff
	}
	return t, nil
}

// listReplica returns keys and hashes of a table.
func (s *Server) listReplica(r *Read, in *op.ReplicaQuery) (out op.ReplicaPage, err error) {
	index, keys := r.CopiesChanged()
	r.At(index, keys...)
	t, err := s.copied(in.Table)
	if err != nil || r.Waits() {
		return out, err
	}
	for key, row := range t.All(r.Snapshot) {
		switch {
		case key <= in.After:
		case len(out.Rows) == op.ReplicaPageRows:
			out.More = true
			return out, nil
		default:
			hash := t.Hash(row)
			out.Rows = append(out.Rows, op.ReplicaRow{Key: key, Hash: hash[:]})
		}
	}
	return out, nil
}

// readReplica returns rows of a table.
func (s *Server) readReplica(r *Read, in *op.ReplicaRef) (out op.ReplicaCopies, err error) {
	index, keys := r.CopiesChanged()
	r.At(index, keys...)
	t, err := s.copied(in.Table)
	if err != nil {
		return out, err
	}
	if n := len(in.Keys); n == 0 || n > op.ReplicaKeys {
		return out, berth.Errorf(berth.Invalid, "Keys: must name 1 to %d rows, got %d", op.ReplicaKeys, n)
	}
	for key, row := range t.All(r.Snapshot) {
		if !slices.Contains(in.Keys, key) {
			continue
		}
		c := op.ReplicaCopy{Data: t.Encode(row)}
		if t.Name == state.CopyMethods {
			if c.Secret, err = s.clientSecret(r.Snapshot, key); err != nil {
				return out, err
			}
		}
		out.Rows = append(out.Rows, c)
	}
	return out, nil
}

// SealSecret encrypts the client secret of an auth method with the active root key
// of a state.
func (s *Server) SealSecret(snap *state.Snapshot, method, secret string) (*state.SealedSecret, error) {
	return s.sealSecret(&Write{Snapshot: snap}, method, secret)
}

// atAuthority reports whether an operation changes what the authoritative region
// has for all regions, so that it is done there and copied from there.
func (s *Server) atAuthority(in any) bool {
	if s.Authority == "" {
		return false
	}
	snap := s.Store.Snapshot()
	global := func(accessor string) (is, known bool) {
		t := snap.ACLToken(accessor)
		return t != nil && t.Global, t != nil
	}
	method := func(name string) bool {
		for m := range snap.AuthMethods() {
			if m.Name == name || name == "" && m.Default {
				return m.TokenLocality == berth.LocalityGlobal
			}
		}
		return false
	}
	switch q := in.(type) {
	case *op.WriteNodePool, *op.DeleteNodePool, *op.WriteQuota, *op.DeleteQuota, *op.WriteNamespace, *op.DeleteNamespace:
		return true
	case *op.Bootstrap, *op.WriteACLPolicy, *op.DeleteACLPolicy, *op.WriteACLRole, *op.DeleteACLRole:
		return true
	case *op.WriteAuthMethod, *op.DeleteAuthMethod, *op.WriteBindingRule, *op.DeleteBindingRule:
		return true
	case *op.WriteACLToken:
		if is, known := global(q.Accessor); known {
			return is
		}
		return q.Global
	case *op.DeleteACLToken:
		is, _ := global(q.AccessorID)
		return is
	case *op.LoginRequest:
		return method(q.AuthMethodName)
	case *op.OIDCAuthURLRequest:
		return method(q.AuthMethodName)
	case *op.OIDCComplete:
		return method(q.AuthMethodName)
	}
	return false
}

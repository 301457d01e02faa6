package replicate

import (
	"berth"
	"berth/internal/state"
)

// makeWay returns the commands that delete what would refuse rows: another role
// with a name that is taken over, a token whose secret is another one, and the
// mark of a default auth method that moved.
func (l *Loop) makeWay(snap *state.Snapshot, rows []any) (do []state.Command) {
	for _, row := range rows {
		switch r := row.(type) {
		case *berth.ACLRole:
			if other := snap.ACLRoleNamed(r.Name); other != nil && other.ID != r.ID {
				do = append(do, &state.DeleteACLRoles{IDs: []string{other.ID}})
			}
		case *berth.ACLToken:
			if old := snap.ACLToken(r.AccessorID); old != nil && old.SecretHash != r.SecretHash {
				do = append(do, &state.DeleteACLTokens{Accessors: []string{old.AccessorID}})
			}
		case *berth.ACLAuthMethod:
			for other := range snap.AuthMethods() {
				if r.Default && other.Default && other.Type == r.Type && other.Name != r.Name {
					plain := *other
					plain.Default = false
					do = append(do, &state.UpsertAuthMethod{Method: &plain, Keep: true, Now: other.ModifyTime})
				}
			}
		}
	}
	return do
}

// together returns the command that stores all rows of a table, nil if each needs
// its own.
func (l *Loop) together(rows []any) state.Command {
	switch rows[0].(type) {
	case *berth.NodePool:
		return &state.UpsertNodePools{Pools: of[berth.NodePool](rows)}
	case *berth.Quota:
		return &state.UpsertQuotas{Quotas: of[berth.Quota](rows), Region: l.Region}
	case *berth.Namespace:
		return &state.UpsertNamespaces{Namespaces: of[berth.Namespace](rows)}
	case *berth.ACLPolicy:
		return &state.UpsertACLPolicies{Policies: of[berth.ACLPolicy](rows)}
	case *berth.ACLRole:
		return &state.UpsertACLRoles{Roles: of[berth.ACLRole](rows)}
	case *berth.ACLToken:
		return &state.UpsertACLTokens{Tokens: of[berth.ACLToken](rows)}
	}
	return nil
}

// of returns rows with their type.
func of[T any](rows []any) (out []*T) {
	for _, r := range rows {
		out = append(out, r.(*T))
	}
	return out
}

// one returns the command that stores one row, and its key.
func (l *Loop) one(snap *state.Snapshot, row any, secret string) (c state.Command, key string, err error) {
	switch r := row.(type) {
	case *berth.NodePool:
		return l.together([]any{r}), r.Name, nil
	case *berth.Quota:
		return l.together([]any{r}), r.Name, nil
	case *berth.Namespace:
		return l.together([]any{r}), r.Name, nil
	case *berth.ACLPolicy:
		return l.together([]any{r}), r.Name, nil
	case *berth.ACLRole:
		return l.together([]any{r}), r.ID, nil
	case *berth.ACLToken:
		return l.together([]any{r}), r.AccessorID, nil
	case *berth.ACLBindingRule:
		return &state.UpsertBindingRule{Rule: r, Create: snap.BindingRule(r.ID) == nil, Now: r.ModifyTime}, r.ID, nil
	case *berth.ACLAuthMethod:
		c := &state.UpsertAuthMethod{Method: r, Create: snap.AuthMethod(r.Name) == nil, Now: r.ModifyTime}
		if secret != "" {
			c.Secret, err = l.Seal(snap, r.Name, secret)
		}
		return c, r.Name, err
	}
	return nil, "", berth.Errorf(berth.Unavailable, "a %T is no row that regions copy", row)
}

// remove returns the command that deletes a row.
func remove(table, key string) state.Command {
	names := []string{key}
	switch table {
	case state.CopyPools:
		return &state.DeleteNodePools{Names: names}
	case state.CopyQuotas:
		return &state.DeleteQuotas{Names: names}
	case state.CopyNamespaces:
		return &state.DeleteNamespaces{Names: names}
	case state.CopyPolicies:
		return &state.DeleteACLPolicies{Names: names}
	case state.CopyRoles:
		return &state.DeleteACLRoles{IDs: names}
	case state.CopyTokens:
		return &state.DeleteACLTokens{Accessors: names}
	case state.CopyMethods:
		return &state.DeleteAuthMethods{Names: names}
	}
	return &state.DeleteBindingRules{IDs: names}
}

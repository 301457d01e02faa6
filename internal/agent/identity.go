package agent

import (
	"context"

	"berth/op"
)

// sign gets identities of tasks from servers.
func (a *Agent) sign(ctx context.Context, ask []op.IdentityRequest) ([]op.SignedIdentity, error) {
	q := a.query()
	q.AllowStale = false // an old state may not have the allocation yet
	out, err := op.Call(ctx, a.c.Servers, op.Sign, &op.SignIdentities{NodeID: a.id, Identities: ask, Query: q})
	if err != nil {
		return nil, err
	}
	return out.SignedIdentities, nil
}

package agent

import (
	"context"

	"berth/internal/agent/task"
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

// inputs says where templates, artifacts and secrets of tasks come from.
func (a *Agent) inputs() task.Inputs {
	return task.Inputs{Command: a.c.Supervisor, Values: a.values, Fetch: a.fetcher, Deny: a.c.DenyFunctions}
}

// values gets what a task wants to know from servers.
func (a *Agent) values(ctx context.Context, q *op.WantsQuery) (*op.WantsAnswer, error) {
	in := *q
	opts := a.query()
	opts.AllowStale = false // an old state may not have the allocation yet
	opts.MinQueryIndex, opts.MaxQueryTime = q.MinQueryIndex, q.MaxQueryTime
	in.NodeID, in.Query = a.id, opts
	return op.Call(ctx, a.c.Servers, op.Wants, &in)
}

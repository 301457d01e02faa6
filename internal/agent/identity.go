package agent

import (
	"context"

	"berth"
	"berth/internal/agent/secretprovider"
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
	return task.Inputs{Command: a.c.Supervisor, Values: a.values, Fetch: a.fetcher, Deny: a.c.DenyFunctions, Wait: a.c.TemplateWait, WaitBounds: a.c.TemplateWaitBounds, Secrets: secretprovider.Providers{Command: a.c.Supervisor, Dir: a.c.SecretProviderDir, Open: a.c.Artifacts.Open}}
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

// turn asks the leader for a turn of an allocation to restart, or tells it of one.
func (a *Agent) turn(ctx context.Context, id berth.AllocID, state string) (*op.TurnAnswer, error) {
	return op.Call(ctx, a.c.Servers, op.Turn, &op.TellTurn{NodeID: a.id, AllocID: id, State: state, Query: a.query()})
}

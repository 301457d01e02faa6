package agent

import (
	"context"

	"berth"
	"berth/op"
)

// peers is servers as one allocation of a stream job sees them. It implements
// connect.Servers.
type peers struct {
	a  *Agent
	id berth.AllocID
}

// Connectivity implements connect.Servers. Nobody is asked before servers know
// the node.
func (p peers) Connectivity(ctx context.Context, have string, index uint64, leader bool) (*op.ConnectivityAnswer, error) {
	select {
	case <-p.a.registered:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	q := &op.ConnectivityQuery{NodeID: p.a.id, SecretID: p.a.secret, AllocID: p.id, Have: have, Query: p.a.query()}
	q.MinQueryIndex, q.MaxQueryTime, q.AllowStale = index, watchTime, !leader
	return op.Call(ctx, p.a.c.Servers, op.PullConnectivity, q)
}

// ReportConnectivity implements connect.Servers.
func (p peers) ReportConnectivity(ctx context.Context, pe string, launch uint64, state string) error {
	_, err := op.Call(ctx, p.a.c.Servers, op.TellConnectivity, &op.ReportConnectivity{
		NodeID: p.a.id, SecretID: p.a.secret, AllocID: p.id, PE: pe, Launch: launch, State: state, Write: p.a.write(),
	})
	return err
}

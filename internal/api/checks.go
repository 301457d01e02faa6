package api

import (
	"context"

	"berth"
	"berth/op"
)

// CheckReader reads how the checks of an allocation's services go, wherever it
// runs.
type CheckReader interface {
	// Checks returns the status of each check by its ID.
	Checks(ctx context.Context, node berth.NodeID, alloc string) (map[string]op.CheckStatus, error)
}

// checks serves how checks go: what the agent of the allocation's node knows.
func (s *Server) checks() {
	// Nomad has two paths for the same.
	for _, o := range []op.Op[op.AllocRef, map[string]op.CheckStatus]{op.AllocChecks, op.AllocChecksToo} {
		s.checksAt(o)
	}
}

// checksAt serves how checks go under the path of an operation.
func (s *Server) checksAt(o op.Op[op.AllocRef, map[string]op.CheckStatus]) {
	add(s, o, func(ctx context.Context, who Caller, in *op.AllocRef) (out map[string]op.CheckStatus, m op.Meta, err error) {
		if err := s.admit(ctx, o.Info, who, in.Opts()); err != nil {
			return nil, m, err
		}
		a, err := s.newRead(who, in.Opts()).alloc(in.AllocID, o.Need)
		if err != nil {
			return nil, m, err
		}
		from, ok := s.Logs.(CheckReader)
		if !ok {
			return nil, m, berth.Errorf(berth.Unavailable, "this agent cannot reach the agent of node %s", a.NodeID)
		}
		out, err = from.Checks(ctx, a.NodeID, a.ID.String())
		return out, op.Meta{KnownLeader: true}, err
	}).regional = true
}

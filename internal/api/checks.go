package api

import (
	"context"

	"berth/op"
)

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
		got, m, err := calledAgent(ctx, s, a.NodeID, op.AgentChecks, &op.AllocRef{AllocID: a.ID.String()})
		if err == nil && got.Results == nil {
			got.Results = map[string]op.CheckStatus{}
		}
		return got.Results, m, err
	}).regional = true
}

package api

import (
	"context"
	"net/http"

	"berth"
	"berth/op"
)

// hosts serves what the agent of a node answers about the node: figures,
// collection of what has ended, and metadata. Agents are not told the caller's
// token.
func (s *Server) hosts() {
	ofNode(s, op.ReadHost, op.AgentReadHost)
	ofNode(s, op.ReadMeta, op.AgentReadMeta)
	x := add(s, op.ApplyMeta, func(ctx context.Context, who Caller, in *op.ChangeMeta) (out op.NodeMeta, m op.Meta, err error) {
		q := &op.Query{Region: in.Region, AuthToken: in.AuthToken}
		return askNode(ctx, s, op.ApplyMeta.Info, who, q, in.NodeID, op.AgentApplyMeta, func(id string) *op.ChangeMeta { return &op.ChangeMeta{NodeID: id, Meta: in.Meta, Unset: in.Unset} }, in.Check())
	})
	y := addStream(s, op.CollectNode, func(ctx context.Context, who Caller, in *op.NodeTarget, e *exchange) error {
		_, _, err := askNode(ctx, s, op.CollectNode.Info, who, in.Opts(), in.NodeID, op.AgentCollectNode, func(id string) *op.NodeTarget { return &op.NodeTarget{NodeID: id} }, nil)
		if err == nil { // without a body, as Nomad's Go client wants it
			e.w.Header().Set("Content-Length", "0")
			e.w.WriteHeader(http.StatusOK)
		}
		return err
	})
	for _, x := range []*operation{x, y} {
		x.regional = true
		s.ofNode(x)
	}

	ofAlloc(s, op.ReadUsage, op.AgentReadUsage, func(q *op.AllocStatsQuery) (string, *op.AllocStatsQuery) {
		return q.AllocID, &op.AllocStatsQuery{AllocID: q.AllocID, Task: q.Task}
	})
	ofAlloc(s, op.ReadPause, op.AgentReadPause, func(q *op.PauseQuery) (string, *op.PauseQuery) {
		return q.AllocID, &op.PauseQuery{AllocID: q.AllocID, Task: q.Task}
	})
	p := add(s, op.PauseTask, func(ctx context.Context, who Caller, in *op.PauseAlloc) (out op.Nothing, m op.Meta, err error) {
		node, err := s.nodeOf(ctx, op.PauseTask.Info, who, &op.Query{Region: in.Region, Namespace: in.Namespace, AuthToken: in.AuthToken}, in.AllocID)
		if err == nil {
			err = in.Check()
		}
		if err != nil {
			return out, m, err
		}
		return calledAgent(ctx, s, node, op.AgentPauseTask, &op.PauseAlloc{AllocID: in.AllocID, Task: in.Task, ScheduleState: in.ScheduleState})
	})
	p.regional = true
	s.ofAlloc(p)
	ofAlloc(s, op.CollectAlloc, op.AgentCollectAlloc, func(q *op.AllocTarget) (string, *op.AllocTarget) {
		return q.AllocID, &op.AllocTarget{AllocID: q.AllocID}
	})
}

// ofNode serves a read that the agent of a node answers.
func ofNode[Out any](s *Server, o, at op.Op[op.NodeTarget, Out]) {
	x := add(s, o, func(ctx context.Context, who Caller, in *op.NodeTarget) (out Out, m op.Meta, err error) {
		return askNode(ctx, s, o.Info, who, in.Opts(), in.NodeID, at, func(id string) *op.NodeTarget { return &op.NodeTarget{NodeID: id} }, nil)
	})
	x.regional = true
	s.ofNode(x)
}

// askNode has the agent of a node answer. bad refuses the request after the caller
// was found to have the right to make it.
func askNode[In, Out any](ctx context.Context, s *Server, info *op.Info, who Caller, q *op.Query, id string, at op.Op[In, Out], in func(node string) *In, bad error) (out Out, m op.Meta, err error) {
	node, err := s.targetOf(ctx, info, who, q, id)
	if err == nil {
		err = bad
	}
	if err != nil {
		return out, m, err
	}
	return calledAgent(ctx, s, node, at, in(node.String()))
}

// calledAgent is the answer of a node's agent.
func calledAgent[In, Out any](ctx context.Context, s *Server, node berth.NodeID, at op.Op[In, Out], in *In) (out Out, m op.Meta, err error) {
	got, err := callAgent(ctx, s, node, at, in)
	if err != nil {
		return out, m, err
	}
	return *got, op.Meta{KnownLeader: true}, nil
}

// ofAlloc serves a read that the agent of an allocation answers. bare returns
// the allocation that an input names, and the input for the agent.
func ofAlloc[In, Out any](s *Server, o, at op.Op[In, Out], bare func(*In) (string, *In)) {
	x := add(s, o, func(ctx context.Context, who Caller, in *In) (out Out, m op.Meta, err error) {
		id, q := bare(in)
		node, err := s.nodeOf(ctx, o.Info, who, queryOf(in), id)
		if err != nil {
			return out, m, err
		}
		return calledAgent(ctx, s, node, at, q)
	})
	x.regional = true
	s.ofAlloc(x)
}

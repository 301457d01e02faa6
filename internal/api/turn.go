package api

import (
	"context"

	"berth"
	"berth/op"
)

// turns registers what agents ask before templates restart an allocation.
func (s *Server) turns() {
	add(s, op.Turn, s.turn).always = true // who leads gives turns
}

// turn tells the leader how an allocation stands. That it still led is confirmed
// afterwards: a later leader, which gives no turn at first, began after the answer.
func (s *Server) turn(ctx context.Context, who Caller, in *op.TellTurn) (out op.TurnAnswer, m op.Meta, err error) {
	if err := s.region(in.Region); err != nil {
		return out, m, err
	}
	leader, err := s.Cluster.Leader()
	if err != nil {
		return out, m, &termOver{err}
	}
	snap := s.Store.Snapshot()
	n, err := prove(snap, in.NodeID, in.AuthToken)
	if err != nil {
		return out, m, err
	}
	if a := snap.Alloc(in.AllocID); a == nil || a.NodeID != n.ID || a.Ended() {
		return out, m, berth.Errorf(berth.Denied, "Permission denied: allocation %s does not run on node %s", in.AllocID, n.ID)
	}
	switch in.State {
	case op.TurnWanted, op.TurnTaken, op.TurnFailed, op.TurnOver:
	default:
		return out, m, berth.Errorf(berth.Invalid, "State: must be wanted, taken, failed or over, got %.40q", in.State)
	}
	out = leader.Turn(in.AllocID, in.State)
	return out, op.Meta{Index: snap.Index, KnownLeader: true}, confirm(ctx, leader)
}

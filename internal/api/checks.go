package api

import (
	"context"
	"net/http"

	"berth"
	"berth/op"
)

// CheckReader reads how the checks of an allocation's services go, wherever it
// runs.
type CheckReader interface {
	Checks(ctx context.Context, node berth.NodeID, alloc string) (map[string]op.CheckStatus, error)
}

// checks serves how checks go: what the agent of the allocation's node knows.
func (s *Server) checks() {
	s.served[op.AllocChecks.Name] = true
	s.routes.add(op.AllocChecks.Info, func(w http.ResponseWriter, r *http.Request, path values) {
		in, q, err := decodeQuery[op.AllocRef](r, path, s.Region)
		var out map[string]op.CheckStatus
		if err == nil && s.Others != nil && s.away(q.Region) {
			s.passAway(w, r, op.AllocChecks.Info, q.Region)
			return
		}
		if err == nil {
			out, err = s.readChecks(r, in, q)
		}
		if err != nil {
			s.fail(w, err)
			return
		}
		s.reply(w, r, out, &op.Meta{KnownLeader: true})
	})
}

func (s *Server) readChecks(r *http.Request, in *op.AllocRef, q *op.Query) (map[string]op.CheckStatus, error) {
	who := caller(r, q.AuthToken)
	if err := s.admit(r.Context(), op.AllocChecks.Info, who, q); err != nil {
		return nil, err
	}
	rd := s.newRead(who, q)
	a, err := rd.alloc(in.AllocID, op.AllocChecks.Need)
	if err != nil {
		return nil, err
	}
	from, ok := s.Logs.(CheckReader)
	if !ok {
		return nil, berth.Errorf(berth.Unavailable, "this agent cannot reach the agent of node %s", a.NodeID)
	}
	return from.Checks(r.Context(), a.NodeID, a.ID.String())
}

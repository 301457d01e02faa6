package api

import (
	"context"

	"berth"
	"berth/op"
)

// self is the node of an agent that is not a server: it answers for its own
// allocations without one.
type self struct {
	has  func(alloc string) bool
	node func() berth.NodeID
	// guarded is true with access control. Only servers know the namespaces of
	// allocations, and when a right ends, so they decide about allocations here,
	// too.
	guarded bool
}

// located is where an allocation is, and in which namespace.
type located struct {
	node      berth.NodeID
	namespace string
}

// locate finds the allocation that a request names, if the caller has the right
// that the operation needs.
func (s *Server) locate(ctx context.Context, info *op.Info, who Caller, q *op.Query, alloc string) (at located, err error) {
	if s.self != nil { // see ofAlloc: the allocation is here, and there is no access control
		return located{s.self.node(), q.Namespace}, s.Authorize(who, info.Need, q.Namespace)
	}
	if err := s.admit(ctx, info, who, q); err != nil {
		return at, err
	}
	a, err := s.newRead(who, q).alloc(alloc, info.Need)
	if err != nil {
		return at, err
	}
	return located{a.NodeID, a.Job.Namespace}, nil
}

// nodeOf returns the node of the allocation that a request names, if the caller
// has the right that the operation needs.
func (s *Server) nodeOf(ctx context.Context, info *op.Info, who Caller, q *op.Query, alloc string) (berth.NodeID, error) {
	at, err := s.locate(ctx, info, who, q, alloc)
	return at.node, err
}

// targetOf returns the node that a request about a node is for, if the caller has
// the right that the operation needs. Without an ID it is that of this agent.
func (s *Server) targetOf(ctx context.Context, info *op.Info, who Caller, q *op.Query, id string) (node berth.NodeID, err error) {
	if s.self != nil { // see ofNode: it is the agent's own
		return s.self.node(), s.Authorize(who, info.Need, "")
	}
	if err := s.admit(ctx, info, who, q); err != nil {
		return node, err
	}
	if id != "" {
		n, err := s.newRead(who, q).node(id)
		if err != nil {
			return node, err
		}
		return n.ID, nil
	}
	if s.Node == nil {
		return node, berth.Errorf(berth.Invalid, "node_id: missing: this agent is not a node, so a request must name one")
	}
	return s.Node(), nil
}

// ofNode lets an agent that is not a server answer an operation that finds its
// node by targetOf for its own node.
func (s *Server) ofNode(x *operation) {
	x.own = func(in any) bool {
		if s.self == nil {
			return false
		}
		id := ""
		switch q := in.(type) {
		case *op.NodeTarget:
			id = q.NodeID
		case *op.ChangeMeta:
			id = q.NodeID
		case *op.RenewNode:
			id = q.NodeID
		}
		return id == "" || id == s.self.node().String()
	}
}

// ofAlloc lets an agent that is not a server answer an operation that finds its
// node by locate, for allocations of its own. With access control a server
// answers, and calls the agent.
func (s *Server) ofAlloc(x *operation) {
	x.own = func(in any) bool { return s.self != nil && !s.self.guarded && s.self.has(allocOf(in)) }
}

// allocOf returns the ID of the allocation that an input names.
func allocOf(in any) string {
	switch q := in.(type) {
	case *op.FileQuery:
		return q.AllocID
	case *op.FileRead:
		return q.AllocID
	case *op.FileFollow:
		return q.AllocID
	case *op.ExecTask:
		return q.AllocID
	case *op.ForwardPort:
		return q.AllocID
	case *op.AllocStatsQuery:
		return q.AllocID
	case *op.AllocTarget:
		return q.AllocID
	}
	return ""
}

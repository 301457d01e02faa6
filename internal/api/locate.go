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
}

// nodeOf returns the node of the allocation that a request names, if the caller
// has the right that the operation needs.
func (s *Server) nodeOf(ctx context.Context, info *op.Info, who Caller, q *op.Query, alloc string) (berth.NodeID, error) {
	if s.self != nil { // see ofAlloc: the allocation is here
		return s.self.node(), s.Authorize(who, info.Need, q.Namespace)
	}
	if err := s.admit(ctx, info, who, q); err != nil {
		return berth.NodeID{}, err
	}
	a, err := s.newRead(who, q).alloc(alloc, info.Need)
	if err != nil {
		return berth.NodeID{}, err
	}
	return a.NodeID, nil
}

// ofAlloc lets an agent that is not a server answer an operation that finds its
// node by nodeOf, for allocations of its own.
func (s *Server) ofAlloc(x *operation) {
	x.own = func(in any) bool { return s.self != nil && s.self.has(allocOf(in)) }
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
	}
	return ""
}

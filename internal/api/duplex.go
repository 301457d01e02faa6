package api

import (
	"context"
	"net/http"
	"time"

	"berth"
	"berth/internal/peer"
	"berth/op"

	"github.com/coder/websocket"
)

// Agents calls what agents serve, at the agent of any node, wherever that is
// connected. Errors keep their kind; NotFound may mean that the agent of the
// node cannot be reached.
type Agents interface {
	// Agent returns a caller of a node's agent.
	Agent(node berth.NodeID) op.Caller
	// Open opens a call in which both ends send messages. It returns once the
	// agent has accepted it. The call ends with ctx.
	Open(ctx context.Context, node berth.NodeID, method string, in any) (op.Duplex, error)
}

// addDuplex registers an operation in which both ends send messages: over HTTP
// it is a websocket.
func addDuplex[In, Out any](s *Server, o op.Op[In, Out], run func(ctx context.Context, who Caller, in *In, x op.Incoming) error) *operation {
	x := s.serve(o.Info, func() any { return new(In) })
	x.duplex = func(ctx context.Context, who Caller, in any, from op.Incoming) error {
		return run(ctx, who, in.(*In), from)
	}
	return x
}

// doDuplex answers an operation of messages, here or on the server that place
// chooses.
func (s *Server) doDuplex(ctx context.Context, x *operation, who Caller, in any, from op.Incoming) error {
	return s.place(ctx, x, in, func(ctx context.Context, conn peer.Conn, scope op.Scope) error {
		if conn == nil {
			return x.duplex(ctx, who, in, from)
		}
		if err := ready(from); err != nil {
			return err
		}
		r, err := s.forward(x, who, in, scope)
		if err != nil {
			return err
		}
		to, err := conn.Duplex(ctx, r)
		if err != nil {
			return err
		}
		return peer.Join(from, to)
	})
}

// ready returns why a call cannot be accepted, whatever its handler says: it came
// over HTTP, and does not ask for a websocket. Handlers ask before they have an
// effect.
func ready(from op.Incoming) error {
	if c, ok := from.(interface{ Ready() error }); ok {
		return c.Ready()
	}
	return nil
}

// ForwardedDuplex is Forwarded for operations of messages.
func (s *Server) ForwardedDuplex(ctx context.Context, r *op.Forwarded, agent bool, from op.Incoming) error {
	x, who, in, err := s.received(r, agent)
	if err != nil {
		return err
	}
	if x.duplex == nil {
		return berth.Errorf(berth.Invalid, "%s is no call of messages", r.Name)
	}
	done, err := s.auditForwarded(ctx, x, who, in, agent)
	if err != nil {
		return err
	}
	err = s.doDuplex(context.WithValue(ctx, scopeKey{}, r.Scope), x, who, in, from)
	done(err)
	return err
}

// serveDuplex answers an operation of messages over HTTP. It returns an error
// while nothing has been sent.
func (s *Server) serveDuplex(w http.ResponseWriter, r *http.Request, x *operation, who Caller, in any) error {
	ws := &socket{ctx: r.Context(), w: w, r: r, kind: websocket.MessageText}
	if x.info.Bytes {
		ws.kind = websocket.MessageBinary
	}
	err := s.doDuplex(r.Context(), x, who, in, ws)
	return ws.end(err)
}

// openAgent opens a call at the agent of an allocation and passes messages between
// it and the caller. It ends when the caller's right does.
func (s *Server) openAgent(ctx context.Context, info *op.Info, who Caller, at located, method string, in any, from op.Incoming) error {
	if err := ready(from); err != nil {
		return err
	}
	if s.Agents == nil {
		return unreachable(at.node)
	}
	ctx, lost, stop := s.whileIn(ctx, info, who, at.namespace)
	defer stop()
	to, err := s.Agents.Open(ctx, at.node, method, in)
	if err == nil {
		err = peer.Join(from, to)
	}
	if refused := lost(); refused != nil {
		return refused
	}
	return err
}

// callAgent calls an operation that agents serve, at a node's agent.
func callAgent[In, Out any](ctx context.Context, s *Server, node berth.NodeID, o op.Op[In, Out], in *In) (*Out, error) {
	return callAgentFor(ctx, s, actTime, node, o, in)
}

// callAgentFor is callAgent for what may take longer than usual.
func callAgentFor[In, Out any](ctx context.Context, s *Server, most time.Duration, node berth.NodeID, o op.Op[In, Out], in *In) (*Out, error) {
	if s.Agents == nil {
		return nil, unreachable(node)
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	return op.Call(ctx, s.Agents.Agent(node), o, in)
}

// unreachable is the error for an agent that this one has no way to.
func unreachable(node berth.NodeID) error {
	return berth.Errorf(berth.Unavailable, "this agent cannot reach the agent of node %s", node)
}

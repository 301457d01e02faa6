package agent

import (
	"context"
	"reflect"

	"berth"
	"berth/internal/peer"
	"berth/internal/wire"
	"berth/op"
)

// serving is what servers may ask of an agent: over the wire, or within one
// process.
type serving struct {
	calls map[string]func(ctx context.Context, in any) (any, error)            // by RPC name; in and the answer are pointers
	opens map[string]func(ctx context.Context, in any, from op.Incoming) error // by RPC name
	wires []func(*wire.Server)                                                 // register all of them
}

// onCall serves an operation that has one answer.
func onCall[In, Out any](s *serving, o op.Op[In, Out], f func(context.Context, *In) (*Out, error)) {
	s.calls[o.RPC] = func(ctx context.Context, in any) (any, error) {
		q, ok := in.(*In)
		if !ok {
			return nil, berth.Errorf(berth.Invalid, "%s takes a %T, not a %T", o.Name, q, in)
		}
		out, err := f(ctx, q)
		if err != nil {
			return nil, err
		}
		return out, nil
	}
	s.wires = append(s.wires, func(w *wire.Server) {
		peer.Handle(w, o, func(ctx context.Context, _ *wire.Call, in *In) (*Out, error) { return f(ctx, in) })
	})
}

// onOpen serves an operation in which both ends send messages.
func onOpen[In, Out any](s *serving, o op.Op[In, Out], f func(context.Context, *In, op.Incoming) error) {
	s.opens[o.RPC] = func(ctx context.Context, in any, from op.Incoming) error {
		q, ok := in.(*In)
		if !ok {
			return berth.Errorf(berth.Invalid, "%s takes a %T, not a %T", o.Name, q, in)
		}
		return f(ctx, q, from)
	}
	s.wires = append(s.wires, func(w *wire.Server) {
		peer.HandleStream(w, o, func(ctx context.Context, _ *wire.Call, in *In, st *wire.Stream) error { return f(ctx, in, st) })
	})
}

// serve returns what the agent answers.
func (a *Agent) serve() *serving {
	s := &serving{calls: map[string]func(context.Context, any) (any, error){}, opens: map[string]func(context.Context, any, op.Incoming) error{}}
	a.serveFiles(s)
	a.serveHost(s)
	a.serveCollect(s)
	a.serveMeta(s)
	a.serveTasks(s)
	a.serveChecks(s)
	a.serveLogs(s)
	a.serveDiagnostics(s)
	a.serveIdentity(s)
	a.serveVolumes(s)
	a.serveDisks(s)
	a.serveCSI(s)
	onOpen(s, op.AgentExec, a.exec)
	onOpen(s, op.AgentPortForward, a.forward)
	return s
}

// Call implements op.Caller for servers in the same process.
func (a *Agent) Call(ctx context.Context, method string, in, out any) error {
	f := a.serving.calls[method]
	if f == nil {
		return berth.Errorf(berth.Invalid, "unknown method %q", method)
	}
	got, err := f(ctx, in)
	if err == nil {
		reflect.ValueOf(out).Elem().Set(reflect.ValueOf(got).Elem())
	}
	return err
}

// Open opens a call of messages for servers in the same process. It returns once
// the agent has accepted it.
func (a *Agent) Open(ctx context.Context, method string, in any) (op.Duplex, error) {
	f := a.serving.opens[method]
	if f == nil {
		return nil, berth.Errorf(berth.Invalid, "unknown method %q", method)
	}
	return peer.Open(ctx, func(ctx context.Context, from op.Incoming) error { return f(ctx, in, from) })
}

// Alone is an agent as the only one that can be called.
type Alone struct{ a *Agent }

// AsAgents returns what calls this agent for its own node, and no other.
func (a *Agent) AsAgents() Alone { return Alone{a} }

// Agent returns a caller of this agent. node must be its own.
func (l Alone) Agent(node berth.NodeID) op.Caller { return l.of(node) }

// Open opens a call of messages; see [Agent.Open]. node must be this one.
func (l Alone) Open(ctx context.Context, node berth.NodeID, method string, in any) (op.Duplex, error) {
	return l.of(node).Open(ctx, method, in)
}

// callable is what can be called of an agent.
type callable interface {
	op.Caller
	Open(ctx context.Context, method string, in any) (op.Duplex, error)
}

// of returns the agent if the node is its own, else what refuses all calls.
func (l Alone) of(node berth.NodeID) callable {
	if node != l.a.id {
		return elsewhere{node, l.a.id}
	}
	return l.a
}

// elsewhere refuses calls of another node.
type elsewhere struct{ node, own berth.NodeID }

// Call implements op.Caller.
func (e elsewhere) Call(context.Context, string, any, any) error {
	return berth.Errorf(berth.NotFound, "node %s is not this one, %s", e.node, e.own)
}

// Open refuses the call.
func (e elsewhere) Open(ctx context.Context, _ string, _ any) (op.Duplex, error) {
	return nil, e.Call(ctx, "", nil, nil)
}

package server

import (
	"context"

	"berth"
	"berth/internal/msgpack"
	"berth/internal/peer"
	"berth/internal/wire"
	"berth/op"
)

// A node's agent is called over the session that it opened to one of the servers.
// Other servers relay their calls through that one.

// notConnected is the error for an agent that no server can call at the moment.
func notConnected(id berth.NodeID) error {
	return berth.Errorf(berth.NotFound, "the agent of node %s is not connected to any reachable server", id)
}

// handleRelays registers the calls by which other servers reach agents through
// this one.
func (s *Server) handleRelays() {
	peer.Handle(s.wire, op.NodeConnected, func(_ context.Context, _ *wire.Call, in *op.NodeID) (*op.Connected, error) {
		return &op.Connected{Connected: s.sessions.of(in.NodeID) != nil}, nil
	})
	peer.Handle(s.wire, op.RelayCall, func(ctx context.Context, _ *wire.Call, in *op.Relay) (*op.Relayed, error) {
		sess := s.sessions.of(in.NodeID)
		if sess == nil {
			return nil, notConnected(in.NodeID)
		}
		// The call is passed on as bytes: this server need not know the method.
		var out wire.Raw
		err := sess.Call(ctx, in.Method, wire.Raw(in.Arg), &out)
		return &op.Relayed{Answer: out}, err
	})
	peer.HandleStream(s.wire, op.RelayStream, func(ctx context.Context, _ *wire.Call, in *op.Relay, st *wire.Stream) error {
		sess := s.sessions.of(in.NodeID)
		if sess == nil {
			return notConnected(in.NodeID)
		}
		from, err := sess.Stream(ctx, in.Method, wire.Raw(in.Arg))
		if err != nil {
			return err
		}
		return peer.Join(st, from)
	})
}

// findAgent returns a session to the server that a node's agent is connected to.
func (s *Server) findAgent(ctx context.Context, id berth.NodeID) (*wire.Session, error) {
	if s.config.Cluster == nil {
		return nil, berth.Errorf(berth.NotFound, "the agent of node %s is not connected to this server", id)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*dialTimeout)
	defer cancel()
	// All servers are asked at a time; the first that has the agent wins.
	asked := 0
	found := make(chan *wire.Session)
	for _, m := range s.alive(s.config.Region) {
		if m.RPC == s.config.Advertise {
			continue
		}
		asked++
		go func() { // ends with ctx
			sess := s.askConnected(ctx, m.RPC, id)
			select {
			case found <- sess:
			case <-ctx.Done():
			}
		}()
	}
	for range asked {
		select {
		case sess := <-found:
			if sess != nil {
				return sess, nil
			}
		case <-ctx.Done():
			return nil, notConnected(id)
		}
	}
	return nil, notConnected(id)
}

// askConnected returns a session to the server at addr if the agent of a node
// is connected there, else nil.
func (s *Server) askConnected(ctx context.Context, addr string, id berth.NodeID) *wire.Session {
	sess, err := s.links.to(ctx, addr)
	if err != nil {
		return nil
	}
	out, err := op.Call(ctx, sess, op.NodeConnected, &op.NodeID{NodeID: id})
	if err != nil || !out.Connected {
		return nil
	}
	return sess
}

// agentOf calls the agent of a node through any server that it is connected to.
type agentOf struct {
	server *Server
	node   berth.NodeID
}

// Call implements op.Caller.
func (a agentOf) Call(ctx context.Context, method string, in, out any) error {
	if sess := a.server.sessions.of(a.node); sess != nil {
		return sess.Call(ctx, method, in, out)
	}
	via, relay, err := a.via(ctx, method, in)
	if err != nil {
		return err
	}
	relayed, err := op.Call(ctx, via, op.RelayCall, relay)
	if err != nil {
		return err
	}
	return wire.Raw(relayed.Answer).Decode(out)
}

// stream opens a call of messages to the agent.
func (a agentOf) stream(ctx context.Context, method string, in any) (*wire.Stream, error) {
	if sess := a.server.sessions.of(a.node); sess != nil {
		return sess.Stream(ctx, method, in)
	}
	via, relay, err := a.via(ctx, method, in)
	if err != nil {
		return nil, err
	}
	return via.Stream(ctx, op.RelayStream.RPC, relay)
}

// via returns a session to the server that the agent is connected to, and the
// relay request for it.
func (a agentOf) via(ctx context.Context, method string, in any) (*wire.Session, *op.Relay, error) {
	sess, err := a.server.findAgent(ctx, a.node)
	if err != nil {
		return nil, nil, err
	}
	arg, err := msgpack.Append(nil, in)
	return sess, &op.Relay{NodeID: a.node, Method: method, Arg: arg}, err
}

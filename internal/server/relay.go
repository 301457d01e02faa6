package server

import (
	"context"
	"errors"
	"io"

	"berth"
	"berth/internal/wire"
	"berth/op"
)

// A node's agent is called back over the session that it opened, which stands
// at one of the servers. The others ask that one.
const (
	connectedRPC   = "Node.Connected"
	relayRPC       = "Node.Relay"
	relayStreamRPC = "Node.RelayStream"
)

// relayed is a call of an agent by way of the server that it is connected to.
type relayed struct {
	NodeID berth.NodeID
	Method string
	Arg    wire.Raw
}

// relaying is the same before it is sent.
type relaying struct {
	NodeID berth.NodeID
	Method string
	Arg    any
}

type nodeRef struct{ NodeID berth.NodeID }

type connected struct{ Connected bool }

func notConnected(id berth.NodeID) error {
	return berth.Errorf(berth.NotFound, "the agent of node %s is not connected to any server that can be reached", id)
}

func (s *Server) handleRelays() {
	s.wire.HandleServers(connectedRPC, func(_ context.Context, c *wire.Call) (any, error) {
		var in nodeRef
		if err := c.Decode(&in); err != nil {
			return nil, err
		}
		return &connected{s.sessions.of(in.NodeID) != nil}, nil
	})
	s.wire.HandleServers(relayRPC, func(ctx context.Context, c *wire.Call) (any, error) {
		var in relayed
		if err := c.Decode(&in); err != nil {
			return nil, err
		}
		sess := s.sessions.of(in.NodeID)
		if sess == nil {
			return nil, notConnected(in.NodeID)
		}
		return sess.CallRaw(ctx, in.Method, in.Arg)
	})
	s.wire.HandleStreamServers(relayStreamRPC, func(ctx context.Context, c *wire.Call, st *wire.Stream) error {
		var in relayed
		if err := c.Decode(&in); err != nil {
			return err
		}
		sess := s.sessions.of(in.NodeID)
		if sess == nil {
			return notConnected(in.NodeID)
		}
		from, err := sess.Stream(ctx, in.Method, in.Arg)
		if err != nil {
			return err
		}
		defer from.Close()
		return receive(from, st.Send)
	})
}

// receive hands on what comes from a stream until it ends.
func receive(from *wire.Stream, to func([]byte) error) error {
	for {
		b, err := from.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := to(b); err != nil {
			return err
		}
	}
}

// find returns a session to another server that a node's agent is connected
// to.
func (s *Server) find(ctx context.Context, id berth.NodeID) (*wire.Session, error) {
	if s.config.Cluster == nil {
		return nil, berth.Errorf(berth.NotFound, "the agent of node %s is not connected to this server", id)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*dialTime)
	defer cancel()
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

func (s *Server) askConnected(ctx context.Context, addr string, id berth.NodeID) *wire.Session {
	sess, err := s.links.to(ctx, addr)
	var out connected
	if err == nil {
		err = sess.Call(ctx, connectedRPC, &nodeRef{id}, &out)
	}
	if err != nil || !out.Connected {
		return nil
	}
	return sess
}

// ask calls the agent of a node, wherever it is connected.
func (s *Server) ask(ctx context.Context, node berth.NodeID, method string, in, out any) error {
	if sess := s.sessions.of(node); sess != nil {
		return sess.Call(ctx, method, in, out)
	}
	via, err := s.find(ctx, node)
	if err != nil {
		return err
	}
	return via.Call(ctx, relayRPC, &relaying{node, method, in}, out)
}

// stream opens a stream at the agent of a node, wherever it is connected.
func (s *Server) stream(ctx context.Context, node berth.NodeID, in *op.LogsQuery) (*wire.Stream, error) {
	if sess := s.sessions.of(node); sess != nil {
		return sess.Stream(ctx, op.ReadLogs.RPC, in)
	}
	via, err := s.find(ctx, node)
	if err != nil {
		return nil, err
	}
	return via.Stream(ctx, relayStreamRPC, &relaying{node, op.ReadLogs.RPC, in})
}

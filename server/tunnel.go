package server

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"

	"berth"
	"berth/wire"
)

// tunnel serves the HTTP API to an agent's side of a session: what people ask
// an agent that is no server goes this way. Only the agent of a known node may,
// so that the RPC port opens nothing that the HTTP port does not.
func (s *Server) tunnel(ctx context.Context, call *wire.Call, st *wire.Stream) error {
	if _, ok := call.Peer.Value().(berth.NodeID); !ok {
		return berth.Errorf(berth.Denied, "Permission denied: this connection has not proved that it is a node's agent")
	}
	if err := st.Accept(); err != nil {
		return err
	}
	conn := &ending{Conn: st.Conn(), ended: make(chan struct{})}
	srv := &http.Server{
		Handler:     s.api,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	stop := context.AfterFunc(ctx, func() { srv.Close() })
	defer stop()
	err := srv.Serve(&single{conn: conn, first: make(chan struct{}, 1)})
	<-conn.ended
	if errors.Is(err, errServed) || errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

var errServed = errors.New("the connection was served")

// ending is a connection that says when it was closed.
type ending struct {
	net.Conn
	once  sync.Once
	ended chan struct{}
}

// Close implements net.Conn.
func (c *ending) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { close(c.ended) })
	return err
}

// single is a listener with one connection.
type single struct {
	conn  *ending
	first chan struct{}
}

// Accept implements net.Listener.
func (l *single) Accept() (net.Conn, error) {
	select {
	case l.first <- struct{}{}:
		return l.conn, nil
	default:
		<-l.conn.ended
		return nil, errServed
	}
}

// Close implements net.Listener.
func (l *single) Close() error { return l.conn.Close() }

// Addr implements net.Listener.
func (l *single) Addr() net.Addr { return l.conn.LocalAddr() }

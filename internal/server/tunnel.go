package server

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"

	"berth"
	"berth/internal/api"
	"berth/internal/wire"
)

// tunnel serves the HTTP API to an agent's side of a session: what people ask
// an agent that is no server goes this way. Only the agent of a known node may,
// so that the RPC port opens nothing that the HTTP port does not; and every
// request needs its own caller's rights.
//
// Between the stream and the HTTP server stands a pipe. It has deadlines, which
// the stream has not and without which net/http neither limits a request nor
// closes a connection that it still reads from; and it lets the stream be read
// and written by goroutines that have ended when this returns.
func (s *Server) tunnel(ctx context.Context, call *wire.Call, st *wire.Stream) error {
	if _, ok := call.Peer.Value().(berth.NodeID); !ok {
		return berth.Errorf(berth.Denied, "Permission denied: this connection has not proved that it is a node's agent")
	}
	return s.serveHTTP(ctx, st, s.api)
}

// passed serves what other servers pass on, in the same way.
func (s *Server) passed(ctx context.Context, _ *wire.Call, st *wire.Stream) error {
	return s.serveHTTP(ctx, st, s.api.Passed())
}

func (s *Server) serveHTTP(ctx context.Context, st *wire.Stream, h http.Handler) error {
	if err := st.Accept(); err != nil {
		return err
	}
	far := st.Conn()
	near, mine := net.Pipe()
	var copies sync.WaitGroup
	copies.Go(func() { // requests
		io.Copy(mine, far)
		mine.Close()
	})
	copies.Go(func() { // answers
		io.Copy(far, mine)
		far.Close()
	})
	conn := &served{Conn: near, from: far.RemoteAddr(), ended: make(chan struct{})}
	err := api.Serve(ctx, &single{conn: conn, closed: make(chan struct{})}, h, api.Limits{}, s.config.Logger)
	conn.Close()
	copies.Wait()
	if errors.Is(err, errServed) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

var errServed = errors.New("the connection was served")

// served is a connection that says when it was closed, and whose it is.
type served struct {
	net.Conn
	from  net.Addr
	once  sync.Once
	ended chan struct{}
}

// RemoteAddr implements net.Conn.
func (c *served) RemoteAddr() net.Addr { return c.from }

// Close implements net.Conn.
func (c *served) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { close(c.ended) })
	return err
}

// single is a listener with one connection. Its one Accept after the first
// returns when that connection has ended.
type single struct {
	conn  *served
	taken bool // of the goroutine that accepts

	once   sync.Once
	closed chan struct{}
}

// Accept implements net.Listener.
func (l *single) Accept() (net.Conn, error) {
	if !l.taken {
		l.taken = true
		return l.conn, nil
	}
	select {
	case <-l.conn.ended:
		return nil, errServed
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *single) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (l *single) Addr() net.Addr { return l.conn.LocalAddr() }

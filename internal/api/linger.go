package api

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// Limits of a lingering close.
const (
	lingerBytes = 64 << 20 // of a request, read after the answer
	lingerIdle  = 2 * time.Second
	lingerTime  = 10 * time.Second
)

// lingerConn is a connection that is closed in two steps if a request on it was
// answered before all of it was read, because it is too large. Closing it with
// unread bytes would reset it, and the client would never see the answer. So
// the client sees the end of the answer, and what it still sends is read away,
// for a while.
type lingerConn struct {
	net.Conn
	raw      net.Conn // what Conn counts
	listener *limitedListener
	unread   atomic.Bool // the request may have more bytes than were read
	closing  atomic.Bool
}

type lingerKey struct{}

// withConn lets requests tell their connection that they were read.
func withConn(ctx context.Context, c net.Conn) context.Context {
	if l := lingerOf(c); l != nil {
		return context.WithValue(ctx, lingerKey{}, l)
	}
	return ctx
}

// lingerOf returns the connection below TLS, if there is that.
func lingerOf(c net.Conn) *lingerConn {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = t.NetConn()
	}
	l, _ := c.(*lingerConn)
	return l
}

// noteRequest is called when the state of a connection changes. An active one
// has the beginning of a request.
func noteRequest(c net.Conn, state http.ConnState) {
	if l := lingerOf(c); l != nil && state == http.StateActive {
		l.unread.Store(true)
	}
}

// requestRead notes that a request was read to its end.
func requestRead(ctx context.Context) {
	if l, ok := ctx.Value(lingerKey{}).(*lingerConn); ok {
		l.unread.Store(false)
	}
}

// Close implements net.Conn. A second call ends what the first one waits for.
func (c *lingerConn) Close() error {
	if c.closing.Swap(true) || !c.unread.Load() {
		return c.Conn.Close()
	}
	half, ok := c.raw.(interface{ CloseWrite() error })
	if !ok {
		return c.Conn.Close()
	}
	select {
	case c.listener.refusing <- struct{}{}:
	default: // too many others linger
		return c.Conn.Close()
	}
	if half.CloseWrite() != nil {
		<-c.listener.refusing
		return c.Conn.Close()
	}
	c.listener.refusals.Go(func() {
		defer func() { <-c.listener.refusing }()
		defer c.Conn.Close()
		b := make([]byte, 32<<10)
		over := time.Now().Add(lingerTime)
		for left := lingerBytes; left > 0; {
			idle := time.Now().Add(lingerIdle)
			if over.Before(idle) {
				idle = over
			}
			c.raw.SetReadDeadline(idle)
			n, err := c.raw.Read(b)
			if err != nil {
				return
			}
			left -= n
		}
	})
	return nil
}

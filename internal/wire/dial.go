package wire

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"berth/internal/wire/certs"
)

// Dialer opens connections to servers. It may be copied, and used by many
// goroutines.
type Dialer struct {
	// Handlers holds the methods that the far end may call in return; nil:
	// none. Its configuration has the caller's own region.
	Handlers *Server

	// Region is the region of the servers to dial; "" is the caller's own. With
	// TLS their certificates must name it.
	Region string

	TLS *tls.Config // of the material's Dial; nil: no TLS

	// Server means that the caller is a server. Without TLS this is announced
	// to the far end, which lifts the limits for strangers; with TLS the
	// certificate does.
	Server bool

	// Connect replaces the network; nil is TCP.
	Connect func(ctx context.Context, addr string) (net.Conn, error)
}

// Dial opens a session to the server at addr without TLS. handlers holds the
// methods that the far end may call in return; nil: none. ctx limits the dialing
// only. The caller must close the session.
func Dial(ctx context.Context, addr string, handlers *Server) (*Session, error) {
	return (&Dialer{Handlers: handlers}).Dial(ctx, addr)
}

// Dial opens a session to the server at addr. ctx limits the dialing only. The
// caller must close the session.
func (d *Dialer) Dial(ctx context.Context, addr string) (*Session, error) {
	conn, peer, err := d.open(ctx, addr, firstMux)
	if err != nil {
		return nil, err
	}
	handlers := d.handlers()
	stop := unblock(ctx, conn)
	s, err := newSession(conn, handlers, peer, nil, true)
	if err == nil && d.TLS != nil {
		// Only the far end's first bytes show whether it accepts our certificate.
		if _, err = s.mux.Ping(); err != nil {
			err = cmp.Or(s.below.failure(), err)
			s.mux.Close()
		}
	}
	if !stop() && err == nil {
		s.mux.Close()
		err = ctx.Err()
	}
	if err != nil {
		conn.Close()
		return nil, d.broken(ctx, addr, peer, err)
	}
	conn.SetReadDeadline(time.Time{}) // each write sets its own
	// The session outlives ctx, which was for dialing.
	life, end := context.WithCancel(context.Background())
	go func() {
		defer end()
		if err := s.serve(life); err != nil {
			handlers.complain(s.peer.Addr, err)
		}
	}()
	return s, nil
}

// Raft opens a Raft connection to the server at addr, and returns once that
// server has accepted it. ctx limits the dialing only.
func (d *Dialer) Raft(ctx context.Context, addr string) (net.Conn, error) {
	conn, peer, err := d.open(ctx, addr, firstRaft)
	if err != nil {
		return nil, err
	}
	stop := unblock(ctx, conn)
	welcome := [1]byte{0xff}
	_, err = io.ReadFull(conn, welcome[:])
	if err == nil && welcome[0] != raftWelcome {
		err = fmt.Errorf("it answers 0x%02x", welcome[0])
	}
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		conn.Close()
		if err == io.EOF && d.TLS == nil {
			err = errors.New("the server refused Raft traffic from this agent: see its log")
		}
		return nil, d.broken(ctx, addr, peer, err)
	}
	conn.SetDeadline(time.Time{})
	return conn, nil
}

// handlers returns what the far end may call, never nil.
func (d *Dialer) handlers() *Server {
	if d.Handlers == nil {
		return nobody
	}
	return d.Handlers
}

// open connects, finds out who is there, says who calls, and what follows. The
// connection keeps the deadline that this had.
func (d *Dialer) open(ctx context.Context, addr string, first byte) (conn net.Conn, peer *Peer, err error) {
	handlers := d.handlers()
	// Without TLS nothing is known of the far end, as in Peer.Role.
	peer = &Peer{role: RoleClient | RoleServer}
	if d.Connect != nil {
		conn, err = d.Connect(ctx, addr)
	} else {
		conn, err = new(net.Dialer).DialContext(ctx, "tcp", addr)
	}
	if err != nil {
		return nil, nil, broken(ctx, "dial "+addr, err)
	}
	plain := conn
	defer func() {
		if err != nil {
			plain.Close()
			err = d.broken(ctx, addr, peer, err)
		}
	}()
	peer.Addr = conn.RemoteAddr()
	stop := unblock(ctx, plain)
	plain.SetDeadline(time.Now().Add(handlers.cfg.Handshake))
	region, begin := cmp.Or(d.Region, handlers.cfg.Region), []byte{first}
	switch {
	case d.TLS != nil:
		conn, err = d.secure(ctx, plain, region)
		peer.trusted = true
		if peer.role = RoleServer; region != handlers.cfg.Region {
			peer.role = RoleForeign
		}
	case d.Server:
		begin = []byte{firstServer, first}
		peer.trusted = true
	}
	if err == nil {
		_, err = conn.Write(begin)
	}
	if !stop() && err == nil {
		err = ctx.Err()
	}
	return conn, peer, err
}

// secure begins TLS with a server of the region.
func (d *Dialer) secure(ctx context.Context, conn net.Conn, region string) (net.Conn, error) {
	if _, err := conn.Write([]byte{firstTLS}); err != nil {
		return conn, err
	}
	cfg := d.TLS.Clone()
	cfg.ServerName = certs.ServerName(region)
	secure := tls.Client(conn, cfg)
	return secure, secure.HandshakeContext(ctx)
}

// unblock ends reads and writes of a connection when ctx ends.
func unblock(ctx context.Context, conn net.Conn) (stop func() bool) {
	return context.AfterFunc(ctx, func() { conn.SetDeadline(longAgo) })
}

// broken returns why a server could not be dialed.
func (d *Dialer) broken(ctx context.Context, addr string, peer *Peer, err error) error {
	switch {
	case d.TLS == nil || ctx.Err() != nil:
	case refusedByTLS(err):
		err = fmt.Errorf("the server refused our certificate: %w%s; see the server's log", err, d.own())
	case (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)) && peer.trusted:
		err = fmt.Errorf("the server closed the connection: it may not use TLS (tls.rpc), or refuse our certificate%s; see the server's log", d.own())
	default:
		err = fmt.Errorf("TLS: %w", err)
	}
	return broken(ctx, "dial "+addr, err)
}

// refusedByTLS reports whether the far end ended a handshake with an alert.
func refusedByTLS(err error) bool {
	e, ok := errors.AsType[*net.OpError](err)
	return ok && e.Op == "remote error" // package tls sets this for alerts only
}

// own describes the caller's own certificate.
func (d *Dialer) own() string {
	if d.TLS.GetClientCertificate == nil {
		return ""
	}
	c, err := d.TLS.GetClientCertificate(new(tls.CertificateRequestInfo))
	if err != nil || c.Leaf == nil {
		return ""
	}
	return ": it is " + certs.Describe(c.Leaf)
}

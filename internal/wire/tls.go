package wire

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"berth/internal/wire/certs"
)

// shake serves the TLS handshake that the first byte announced, and reads the
// byte that follows. It sets the peer's role from its certificate. A peer
// without a usable role is refused, and not told why.
func (s *Server) shake(ctx context.Context, conn net.Conn, peer *Peer) (_ net.Conn, first byte, err error) {
	secure := tls.Server(conn, s.cfg.TLS)
	defer func() {
		if err != nil {
			part(secure, conn)
		}
	}()
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, 0, refusal{"connection refused: the TLS handshake failed", err}
	}
	// The chain was checked in the handshake. What remains is whom it names.
	shown := secure.ConnectionState().PeerCertificates
	if len(shown) == 0 {
		return nil, 0, refusal{"connection refused: the peer has no certificate", nil}
	}
	peer.role = certs.RoleOf(shown[0], s.cfg.Region, s.cfg.Unnamed)
	peer.trusted = peer.role&(RoleServer|RoleForeign) != 0
	if peer.role == RoleNone {
		return nil, 0, refusal{"connection refused: the peer's certificate names neither a server nor an agent of this region",
			fmt.Errorf("the certificate is %s: want %s or %s", certs.Describe(shown[0]), certs.ServerName(s.cfg.Region), certs.ClientName(s.cfg.Region))}
	}
	first, err = readFirst(secure)
	if err == nil && (first == firstTLS || first == firstServer) {
		err = refusal{"connection refused: TLS within TLS", nil}
	}
	return secure, first, err
}

// part ends a connection so that the peer can still read the TLS alert about its
// certificate: closing with unread bytes would discard the alert.
func part(secure *tls.Conn, conn net.Conn) {
	half, ok := conn.(interface{ CloseWrite() error })
	if !ok {
		return
	}
	conn.SetDeadline(time.Now().Add(time.Second))
	secure.CloseWrite() // fails before the handshake is done
	half.CloseWrite()
	io.CopyN(io.Discard, conn, 64<<10)
}

// refusal is why a connection is refused: a constant message and the details.
type refusal struct {
	msg string
	err error
}

// Error implements error.
func (r refusal) Error() string {
	if r.err == nil {
		return r.msg
	}
	return r.msg + ": " + r.err.Error()
}

// Unwrap returns the details, nil if there are none.
func (r refusal) Unwrap() error { return r.err }

// serveRaft hands a connection to Config.Raft, and returns when it is closed or
// ctx ends. First it sends one byte, so that the far end can tell an accepted
// connection from a refused one.
func (s *Server) serveRaft(ctx context.Context, conn net.Conn, peer *Peer) error {
	switch {
	case s.cfg.Raft == nil:
		return refusal{"connection refused: this agent does not accept raft traffic", nil}
	case !peer.Server():
		return refusal{"connection refused: raft traffic is accepted from servers of this region only", fmt.Errorf("the peer is %v", peer.Role())}
	}
	conn.SetWriteDeadline(time.Now().Add(s.cfg.Handshake))
	if _, err := conn.Write([]byte{raftWelcome}); err != nil {
		return err
	}
	conn.SetDeadline(time.Time{})
	// Raft owns the connection now. Serve must still wait for its end.
	given := &owned{Conn: conn, closed: make(chan struct{})}
	s.cfg.Raft(given, peer)
	select {
	case <-given.closed:
	case <-ctx.Done():
		given.Close()
	}
	return nil
}

// owned is a connection that Config.Raft has taken over. closed is closed with
// it.
type owned struct {
	net.Conn
	once   sync.Once
	closed chan struct{}
}

// Close implements net.Conn.
func (c *owned) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { close(c.closed) })
	return err
}

// raftWelcome is the byte with which a server accepts a Raft connection.
const raftWelcome = 0x00

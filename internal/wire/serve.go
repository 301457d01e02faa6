package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"berth"
	"berth/internal/accept"
)

// Serve serves connections from ln until ctx ends. It closes ln and every
// connection, and waits for all handlers to return. It returns an error only if
// somebody else has closed ln.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	ln = accept.Listen(ln, s.warn)
	ctx, cancel := context.WithCancel(ctx)
	var conns sync.WaitGroup
	defer conns.Wait()
	defer cancel()
	defer context.AfterFunc(ctx, func() { ln.Close() })()
	for {
		conn, err := ln.Accept()
		if err != nil {
			ln.Close()
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		// Counted before the first byte is read: a stranger has sent nothing
		// yet that could be believed.
		in := s.guests.enter(conn.RemoteAddr(), s.cfg.MaxConns)
		if in == nil {
			conn.Close()
			s.warn.Warn(msgTooMany, "address", conn.RemoteAddr(), "allowed", s.cfg.MaxConns, "allowed_in_all", s.cfg.MaxTotal)
			continue
		}
		conns.Go(func() {
			defer in.leave()
			defer conn.Close()
			// Closing the connection is what ends a handler's reads and writes.
			defer context.AfterFunc(ctx, func() { conn.Close() })()
			s.complain(conn.RemoteAddr(), s.serveConn(ctx, conn, in))
		})
	}
}

// msgTooMany is a constant, as lines are counted by message.
const msgTooMany = "connection refused: too many from one address or in all"

// serveConn serves one connection. The handshake timeout applies until its role
// and protocol are known.
func (s *Server) serveConn(ctx context.Context, conn net.Conn, in *visit) error {
	conn.SetDeadline(time.Now().Add(s.cfg.Handshake))
	peer := &Peer{Addr: conn.RemoteAddr()}
	conn, first, err := s.admit(ctx, conn, peer)
	if err != nil {
		return err
	}
	if peer.trusted && !in.trust(s.cfg.MaxConns) || !peer.trusted && in.trial {
		return refusal{msgTooMany, fmt.Errorf("the limit is %d", s.cfg.MaxConns)}
	}
	conn.SetWriteDeadline(time.Time{})
	// The connection is admitted. From here each protocol sets its own
	// deadlines.
	room := &share{&s.guests.large, &in.guest.large}
	switch first {
	case firstRPC, firstStream:
		r := &frameReader{conn: conn, patient: s.cfg.FrameTime, share: room, armed: true}
		return s.serveKind(ctx, first, r, peer)
	case firstMux:
		return s.serveMux(ctx, conn, peer, room)
	case firstRaft:
		return s.serveRaft(ctx, conn, peer)
	}
	return refusal{"connection refused: unknown first byte", fmt.Errorf("the byte is 0x%02x", first)}
}

// admit sets the peer's role and returns the byte that selects the protocol.
func (s *Server) admit(ctx context.Context, conn net.Conn, peer *Peer) (net.Conn, byte, error) {
	first, err := readFirst(conn)
	switch {
	case err != nil:
		return nil, 0, err
	case first == firstTLS && s.cfg.TLS == nil:
		return nil, 0, refusal{"connection refused: this agent does not use TLS (tls.rpc)", nil}
	case first == firstTLS:
		return s.shake(ctx, conn, peer)
	case s.cfg.OnlyTLS:
		return nil, 0, refusal{"connection refused: the peer does not use TLS, which this agent requires (tls.rpc)", nil}
	}
	peer.role = RoleClient | RoleServer
	if first == firstServer {
		peer.trusted = true
		if first, err = readFirst(conn); err == nil && (first == firstTLS || first == firstServer) {
			err = refusal{"connection refused: the byte 0x43 must come once, and without TLS", nil}
		}
	}
	return conn, first, err
}

// complain logs why a connection ended, if the peer caused it.
func (s *Server) complain(who net.Addr, err error) {
	var bad errFrame
	var no refusal
	switch {
	case errors.As(err, &no):
		s.warn.Warn(no.msg, "address", who, "why", no.err)
	case errors.As(err, &bad):
		s.warn.Warn("connection closed: the peer sent a malformed frame", "address", who, "error", bad.err)
	case berth.KindOf(err) == berth.TooLarge, berth.KindOf(err) == berth.Limited:
		s.warn.Warn("connection closed: the peer asked for too much", "address", who, "error", err)
	case isTimeout(err):
		s.warn.Warn("connection closed: the peer is too slow", "address", who, "error", err)
	}
}

// serveMux serves a yamux session that the peer opens.
func (s *Server) serveMux(ctx context.Context, conn net.Conn, peer *Peer, room *share) error {
	// The handshake deadline applies until yamux has read something.
	sess, err := newSession(conn, s, peer, room, false)
	if err != nil {
		return err
	}
	return sess.serve(ctx)
}

// serveStream serves one stream of a session.
func (s *Server) serveStream(ctx context.Context, conn net.Conn, peer *Peer, room *share) error {
	r := &frameReader{conn: conn, patient: s.cfg.FrameTime, share: room}
	r.arm(s.cfg.Handshake)
	if err := r.peek(); err != nil {
		return err
	}
	first := r.buf[r.off]
	r.off++
	if first != firstRPC && first != firstStream {
		return badFrame("a stream begins with 0x%02x, not 0x01 or 0x05", first)
	}
	return s.serveKind(ctx, first, r, peer)
}

// errFull is the answer to what a session has no streams for.
var errFull = berth.Errorf(berth.Limited, "the session has too many calls in progress: nothing was done, try again later")

// refuseStream answers the request on a stream that is beyond the limit. A
// stream that just ended would leave the caller in doubt about what was done.
func (s *Server) refuseStream(conn net.Conn, room *share) {
	r := &frameReader{conn: conn, patient: s.cfg.FrameTime, share: room}
	defer r.release()
	r.arm(s.cfg.Handshake)
	if r.peek() != nil {
		return
	}
	first := r.buf[r.off]
	r.off++
	frame, err := r.next(maxHeader, false)
	if err != nil {
		return
	}
	h, _, err := readHeader(frame, nil)
	if err != nil {
		return
	}
	if _, err := r.next(argStranger, true); err != nil && berth.KindOf(err) == "" {
		return
	}
	if first == firstRPC {
		_ = s.reply(r, h, nil, errFull)
		return
	}
	_ = (&Stream{conn: conn, r: r, patient: s.cfg.FrameTime}).finish(errFull)
}

// serveKind serves what comes after the first byte.
func (s *Server) serveKind(ctx context.Context, first byte, r *frameReader, peer *Peer) error {
	defer r.release()
	var err error
	if first == firstRPC {
		err = s.serveRPC(ctx, r, peer)
	} else {
		err = s.serveStreaming(ctx, r, peer)
	}
	if err == io.EOF {
		return nil
	}
	return err
}

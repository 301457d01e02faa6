package wire

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"berth"
)

// Serve answers whoever connects to ln, until ctx ends or ln fails. It closes
// ln and every connection, waits for all handlers to return, and returns why
// it ended: nil if ctx did.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
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
			if isTemporary(err) && pause(ctx, 50*time.Millisecond) {
				continue
			}
			return err
		}
		in, leave, ok := s.guests.enter(conn.RemoteAddr(), s.cfg.MaxConns)
		if !ok {
			conn.Close()
			s.warn.warn("connection refused: too many from one address", "address", conn.RemoteAddr(), "allowed", s.cfg.MaxConns)
			continue
		}
		conns.Go(func() {
			defer leave()
			defer conn.Close()
			defer context.AfterFunc(ctx, func() { conn.Close() })()
			s.serveConn(ctx, conn, in)
		})
	}
}

// isTemporary says whether accepting can go on, such as when the process is
// out of file descriptors for a moment.
func isTemporary(err error) bool {
	var t interface{ Temporary() bool }
	return errors.As(err, &t) && t.Temporary()
}

func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

func (s *Server) serveConn(ctx context.Context, conn net.Conn, in *guest) {
	conn.SetReadDeadline(time.Now().Add(s.cfg.Handshake))
	first, err := readFirst(conn)
	if err != nil {
		s.complain(conn.RemoteAddr(), err)
		return
	}
	room := &share{&s.guests.large, &in.large}
	peer := &Peer{Addr: conn.RemoteAddr()}
	switch first {
	case firstRPC, firstStream:
		r := &frameReader{conn: conn, patient: s.cfg.FrameTime, share: room, armed: true}
		s.complain(peer.Addr, s.serveKind(ctx, first, r, peer))
	case firstMux:
		s.complain(peer.Addr, s.serveMux(ctx, conn, peer, room))
	case firstRaft:
		s.warn.warn("connection refused: raft traffic is not built yet", "address", peer.Addr)
	case firstTLS:
		s.warn.warn("connection refused: TLS is not built yet", "address", peer.Addr)
	default:
		s.warn.warn("connection refused: its first byte names no protocol", "address", peer.Addr, "byte", first)
	}
}

// complain logs why a connection ended, if it is the peer's fault.
func (s *Server) complain(who net.Addr, err error) {
	var bad errFrame
	switch {
	case errors.As(err, &bad):
		s.warn.warn("connection closed: the peer sent a malformed frame", "address", who, "error", bad.err)
	case berth.KindOf(err) == berth.TooLarge, berth.KindOf(err) == berth.Limited:
		s.warn.warn("connection closed: the peer asked for too much", "address", who, "error", err)
	case isTimeout(err):
		s.warn.warn("connection closed: the peer is too slow", "address", who, "error", err)
	}
}

// serveMux serves a yamux session that the peer opens.
func (s *Server) serveMux(ctx context.Context, conn net.Conn, peer *Peer, room *share) error {
	// The deadline for the handshake stands until yamux has read something.
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

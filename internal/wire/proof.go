package wire

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"berth/internal/wire/certs"
)

// Where there is no TLS a server says who it is by the byte 0x42, before the
// byte that says what follows, and proves it by the key that the servers
// share, if they share one:
//
//	dialler   0x42, version, length of its region (one byte), its region, nonce
//	acceptor  0x00 if it has no key, 0x01 if it wants a proof; nonce
//	dialler   HMAC-SHA256 (of zeros without a key)
//	acceptor  0x00 if it is taken for a server; its own HMAC
//
// Each proof covers both nonces, the dialler's region, and who of the two
// speaks. It says who is at the far end, not that nobody stands between.

const (
	firstProof   = 0x42
	proofVersion = 1
	nonceSize    = 32
	regionMost   = 128
)

// mac is the proof of one side that it knows the key.
func mac(key []byte, side, region string, dialler, acceptor []byte) []byte {
	h := hmac.New(sha256.New, key)
	fmt.Fprintf(h, "berth server proof %d %s %q ", proofVersion, side, region)
	h.Write(dialler)
	h.Write(acceptor)
	return h.Sum(nil)
}

// nonces are drawn anew for every connection: a proof of one is worth nothing
// on another.
func newNonce() []byte {
	b := make([]byte, nonceSize)
	rand.Read(b)
	return b
}

// challenge serves what follows the byte 0x42, and reads the byte after it.
func (s *Server) challenge(conn net.Conn, peer *Peer) (byte, error) {
	var head [2]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return 0, err
	}
	if head[0] != proofVersion || head[1] == 0 || head[1] > regionMost {
		return 0, refusal{"connection refused: a server proves itself in a way that is not known here", nil}
	}
	rest := make([]byte, int(head[1])+nonceSize)
	if _, err := io.ReadFull(conn, rest); err != nil {
		return 0, err
	}
	region, theirs, ours := string(rest[:head[1]]), rest[head[1]:], newNonce()
	keys := s.keys()
	answer := append([]byte{0}, ours...)
	if len(keys) > 0 {
		answer[0] = 1
	}
	if _, err := conn.Write(answer); err != nil {
		return 0, err
	}
	proof := make([]byte, sha256.Size)
	if _, err := io.ReadFull(conn, proof); err != nil {
		return 0, err
	}
	answer = make([]byte, 1+sha256.Size)
	if len(keys) > 0 {
		key := keyOf(keys, proof, region, theirs, ours)
		if key == nil {
			return 0, refusal{"connection refused: a server does not know the key of this cluster", fmt.Errorf("it says that it is of the region %.140q", region)}
		}
		copy(answer[1:], mac(key, "acceptor", region, theirs, ours))
	}
	peer.role, peer.proved = certs.Foreign, true
	if region == s.cfg.Region {
		peer.role = certs.Server
	}
	if _, err := conn.Write(answer); err != nil {
		return 0, err
	}
	first, err := readFirst(conn)
	if err == nil && (first == firstTLS || first == firstProof) {
		err = refusal{"connection refused: a proof comes once, and in plain connections", nil}
	}
	return first, err
}

// keyOf returns which of the keys a dialler has proved to know, or nil.
func keyOf(keys [][]byte, proof []byte, region string, theirs, ours []byte) (found []byte) {
	for _, k := range keys {
		if hmac.Equal(proof, mac(k, "dialler", region, theirs, ours)) {
			found = k
		}
	}
	return found
}

var errNotServer = errors.New("it does not know the key of this cluster")

// prove is the dialler's side. Any of the acceptor's keys will do, and it has
// to know the one that the proof was made with.
func prove(conn net.Conn, region string, keys [][]byte) error {
	if region == "" || len(region) > regionMost {
		return fmt.Errorf("the region %.140q cannot be told: it has 1 to %d bytes", region, regionMost)
	}
	ours := newNonce()
	hello := append([]byte{firstProof, proofVersion, byte(len(region))}, region...)
	if _, err := conn.Write(append(hello, ours...)); err != nil {
		return err
	}
	asked := make([]byte, 1+nonceSize)
	if _, err := io.ReadFull(conn, asked); err != nil {
		return fmt.Errorf("it does not take a server's proof: %w", err)
	}
	keyed, theirs := asked[0] != 0, asked[1:]
	switch {
	case keyed && len(keys) == 0:
		return errors.New("it wants proof of the cluster's key (server.encrypt), and this agent has none")
	case !keyed && len(keys) > 0:
		return errors.New("it has no key (server.encrypt), and this server has one")
	}
	proof := make([]byte, sha256.Size)
	if keyed {
		proof = mac(keys[0], "dialler", region, ours, theirs)
	}
	if _, err := conn.Write(proof); err != nil {
		return err
	}
	answer := make([]byte, 1+sha256.Size)
	if _, err := io.ReadFull(conn, answer); err != nil {
		return fmt.Errorf("it does not take this server for one of the cluster, perhaps because their keys differ (server.encrypt): %w", err)
	}
	if keyed && !hmac.Equal(answer[1:], mac(keys[0], "acceptor", region, ours, theirs)) {
		return errNotServer
	}
	return nil
}

// keys returns what servers prove themselves by; nil if there is nothing.
func (s *Server) keys() [][]byte {
	if s.cfg.Keys == nil {
		return nil
	}
	return s.cfg.Keys()
}

// owned is a connection that was given away, and says when it was closed.
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

// unblock ends reads and writes of a connection when ctx ends.
func unblock(ctx context.Context, conn net.Conn) (stop func() bool) {
	return context.AfterFunc(ctx, func() { conn.SetDeadline(longAgo) })
}

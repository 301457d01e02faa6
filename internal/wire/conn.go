package wire

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/hashicorp/yamux"
)

// muxConn is the connection below a yamux session. It bounds how long a write
// may take, lifts the handshake's read deadline with the first bytes, and
// sends the two parts of a yamux data frame, which yamux writes one after the
// other, in one.
type muxConn struct {
	net.Conn
	patient time.Duration         // for a write
	greeted atomic.Bool           // the far end has sent something
	ending  func()                // called when the session is about to end, perhaps again
	failed  atomic.Pointer[error] // the first error of Read

	// Of the one goroutine of yamux that writes.
	extended time.Time // when the write deadline was last set
	held     []byte    // the head of a data frame whose body comes next
}

// joinMost is the largest body that is joined with its head in one write. yamux
// keeps a buffer as large as the largest body while a session lives, and so
// does muxConn; servers have thousands of mostly idle sessions, so writeAll
// cuts bodies to this size.
const joinMost = 4 << 10

// Read implements net.Conn. Its first error ends what waits on the session's
// streams.
func (c *muxConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && !c.greeted.Load() {
		c.greeted.Store(true)
		c.Conn.SetReadDeadline(time.Time{})
	}
	if err != nil {
		c.failed.CompareAndSwap(nil, &err)
		c.ending()
	}
	return n, err
}

// failure returns what ended reading, or nil.
func (c *muxConn) failure() error {
	if err := c.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// Close implements net.Conn.
func (c *muxConn) Close() error {
	c.ending()
	return c.Conn.Close()
}

// A yamux frame begins with version 0, type (0: data), flags, stream, length.
const muxHead = 12

// Write implements net.Conn. It may hold a head back until its body comes; the
// count of bytes is as if it had not.
func (c *muxConn) Write(b []byte) (int, error) {
	if len(c.held) == 0 && len(b) == muxHead && b[0] == 0 && b[1] == 0 && binary.BigEndian.Uint32(b[8:]) > 0 {
		c.held = append(c.held, b...) // the far end cannot use it before its body
		return len(b), nil
	}
	// Setting a deadline costs as much as a small write, so it is set ahead.
	if now := time.Now(); now.Sub(c.extended) > c.patient/8 {
		c.extended = now
		if err := c.Conn.SetWriteDeadline(now.Add(c.patient)); err != nil {
			return 0, err
		}
	}
	if len(c.held) == 0 {
		return c.Conn.Write(b)
	}
	// A failed write ends the session, so the head is not kept for another try.
	defer func() { c.held = c.held[:0] }()
	if len(b) > joinMost {
		if _, err := c.Conn.Write(c.held); err != nil {
			return 0, err
		}
		return c.Conn.Write(b)
	}
	c.held = append(c.held, b...)
	n, err := c.Conn.Write(c.held)
	return max(0, n-muxHead), err
}

// writeAll writes b in pieces. The timeout applies to each piece.
func writeAll(conn net.Conn, b []byte, patient time.Duration) error {
	piece := 256 << 10
	if _, mux := conn.(*yamux.Stream); mux {
		piece = joinMost
	}
	for len(b) > 0 {
		if err := conn.SetWriteDeadline(time.Now().Add(patient)); err != nil {
			return err
		}
		n, err := conn.Write(b[:min(piece, len(b))])
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// linger ends a connection or stream whose far end may still be sending, so
// that the far end can read the last answer: closing TCP with unread bytes
// discards what was sent, and a peer blocked in a write reads nothing.
func linger(conn net.Conn, most time.Duration) {
	half, ok := conn.(interface{ CloseWrite() error })
	if ok {
		half.CloseWrite()
	} else {
		conn.Close() // of a yamux stream: for sending alone
	}
	conn.SetReadDeadline(time.Now().Add(most))
	io.CopyN(io.Discard, conn, MaxReply)
}

// readFirst reads the byte that chooses a protocol.
func readFirst(conn net.Conn) (byte, error) {
	var b [1]byte
	n, err := conn.Read(b[:])
	if n == 1 {
		return b[0], nil
	}
	return 0, errors.Join(errors.New("no first byte"), err)
}

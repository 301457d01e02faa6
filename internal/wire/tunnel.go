package wire

import (
	"net"
	"sync"
	"time"
)

// Conn returns the stream as a connection: bytes, whose frames mean nothing. It
// keeps no deadlines: the stream has its own, and ends with its context.
func (s *Stream) Conn() net.Conn { return &tunnel{stream: s} }

type tunnel struct {
	stream *Stream
	close  sync.Once

	rest []byte // of the last frame; of the one goroutine that reads
}

// piece is the most bytes of one frame of a tunnel.
const piece = 64 << 10

// Read implements net.Conn.
func (t *tunnel) Read(b []byte) (int, error) {
	for len(t.rest) == 0 {
		payload, err := t.stream.Recv()
		if err != nil {
			return 0, err
		}
		t.rest = append(t.rest[:0], payload...)
	}
	n := copy(b, t.rest)
	t.rest = t.rest[n:]
	return n, nil
}

// Write implements net.Conn.
func (t *tunnel) Write(b []byte) (n int, err error) {
	for len(b) > 0 {
		k := min(len(b), piece)
		if err := t.stream.Send(b[:k]); err != nil {
			return n, err
		}
		n += k
		b = b[k:]
	}
	return n, nil
}

// Close implements net.Conn.
func (t *tunnel) Close() (err error) {
	t.close.Do(func() { err = t.stream.Close() })
	return err
}

// LocalAddr implements net.Conn.
func (t *tunnel) LocalAddr() net.Addr { return t.stream.conn.LocalAddr() }

// RemoteAddr implements net.Conn.
func (t *tunnel) RemoteAddr() net.Addr { return t.stream.conn.RemoteAddr() }

// SetDeadline implements net.Conn.
func (t *tunnel) SetDeadline(time.Time) error { return nil }

// SetReadDeadline implements net.Conn.
func (t *tunnel) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline implements net.Conn.
func (t *tunnel) SetWriteDeadline(time.Time) error { return nil }

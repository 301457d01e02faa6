package wire

import (
	"errors"
	"io"
	"net"
	"time"

	"berth"
	"berth/internal/msgpack"

	"github.com/hashicorp/yamux"
)

// Sizes of buffers, in bytes.
const (
	firstRead   = 1 << 10  // buffer of an idle stream
	smallBuffer = 2 << 10  // largest buffer kept between calls
	freeBuffer  = 64 << 10 // largest buffer not counted in the shared budget
)

// frameReader cuts what a connection sends into frames. One goroutine at a
// time uses it.
type frameReader struct {
	conn    net.Conn
	patient time.Duration // how long a frame that has begun may take to arrive
	share   *share        // of the memory for large frames; nil: not counted
	held    int           // taken from it

	buf   []byte // buf[off:] has arrived and is not used yet
	off   int
	armed bool            // the connection has a read deadline
	scan  msgpack.Scanner // finds the end of a frame, and goes on where it stopped
}

// next returns the next frame, which is valid until the following call. It waits
// without limit for the first byte, unless the connection already has a deadline;
// the rest of the frame must arrive in time. With begun the first byte must, too:
// an earlier frame of the same message has arrived. At the end of the stream,
// between frames, the error is io.EOF.
func (r *frameReader) next(limit int, begun bool) ([]byte, error) {
	r.scan.Reset()
	for {
		size, err := r.scan.Scan(r.buf[r.off:], limit)
		if err != nil {
			return nil, frameError(err)
		}
		if size > 0 {
			frame := r.buf[r.off : r.off+size : r.off+size]
			r.off += size
			return frame, nil
		}
		begun = begun || len(r.buf) > r.off
		if begun && !r.armed {
			r.arm(r.patient)
		}
		if err := r.fill(limit); err != nil {
			if err == io.EOF && begun {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
}

// fill reads more. A full buffer is replaced by one of twice the bytes that
// have arrived, so that a claimed length alone allocates nothing, and at most
// by what a frame within limit needs.
func (r *frameReader) fill(limit int) error {
	have := len(r.buf) - r.off
	if len(r.buf) == cap(r.buf) {
		want := max(firstRead, min(2*have, limit+firstRead))
		if r.share != nil && want > max(freeBuffer, r.held) {
			if !r.share.take(want - r.held) {
				return berth.Errorf(berth.Limited, "too many large requests are in progress: try again later")
			}
			r.held = want
		}
		b := make([]byte, have, want)
		copy(b, r.buf[r.off:])
		r.buf, r.off = b, 0
	}
	n, err := r.conn.Read(r.buf[len(r.buf):cap(r.buf)])
	r.buf = r.buf[:len(r.buf)+n]
	if n > 0 {
		return nil
	}
	return err
}

// peek waits for the first byte of another frame. The last frame stays valid.
func (r *frameReader) peek() error {
	for len(r.buf) == r.off {
		if len(r.buf) == cap(r.buf) {
			r.buf, r.off = make([]byte, 0, firstRead), 0
		}
		if err := r.fill(0); err != nil {
			return err
		}
	}
	return nil
}

// done releases the frames read so far.
func (r *frameReader) done() {
	r.disarm()
	if r.off == len(r.buf) {
		r.buf, r.off = r.buf[:0], 0
		if cap(r.buf) > smallBuffer {
			r.buf = nil
		}
	}
	if s, ok := r.conn.(*yamux.Stream); ok {
		s.Shrink() // its own buffer, which has grown to the largest frame
	}
	r.release()
}

// release gives back the reader's part of the shared memory budget. The owner
// of a reader must call it at the end.
func (r *frameReader) release() {
	if r.held > 0 {
		r.share.give(r.held)
		r.held = 0
	}
}

// arm sets a deadline for what comes next, until disarm.
func (r *frameReader) arm(d time.Duration) {
	r.armed = true
	r.conn.SetReadDeadline(time.Now().Add(d)) // fails only on a closed connection; Read returns that error
}

// disarm lifts the deadline that arm has set; other deadlines stay.
func (r *frameReader) disarm() {
	if r.armed {
		r.armed = false
		r.conn.SetReadDeadline(time.Time{})
	}
}

// isTimeout reports whether a read or write timed out.
func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

package peer

import (
	"io"
	"net/http"

	"berth"
	"berth/internal/msgpack"
	"berth/internal/wire"
	"berth/op"
)

// ServeStream serves a forwarded streaming operation: f writes the answer to w,
// and reads the body of the request if it needs it. An error of f ends the
// stream, and is the answer if nothing was written.
func ServeStream(st *wire.Stream, f func(w http.ResponseWriter, body io.Reader) error) error {
	if err := st.Accept(); err != nil {
		return err
	}
	w := &streamWriter{to: st, header: http.Header{}}
	err := f(w, &bodyReader{from: st})
	switch {
	case err != nil && w.began:
		return err
	case err != nil:
		return send(st, &op.StreamHead{Failure: FailureOf(err)})
	case !w.began:
		w.WriteHeader(http.StatusOK)
	}
	return w.failed
}

// send sends a head: the beginning of an answer, or the request for a body.
func send(st *wire.Stream, h *op.StreamHead) error {
	b, err := msgpack.Append(nil, h)
	if err != nil {
		return err
	}
	return st.Send(b)
}

// streamWriter is an http.ResponseWriter whose answer goes to another server. The
// stream has a timeout for each piece.
type streamWriter struct {
	to     *wire.Stream
	header http.Header // sent with the head
	began  bool        // the head was sent
	failed error       // of the stream; nothing more is sent after it
}

// Header implements http.ResponseWriter.
func (w *streamWriter) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *streamWriter) WriteHeader(status int) {
	if w.began {
		return
	}
	w.began = true
	w.failed = send(w.to, &op.StreamHead{Status: status, Header: w.header})
}

// Write implements http.ResponseWriter. It sends at once.
func (w *streamWriter) Write(b []byte) (n int, err error) {
	w.WriteHeader(http.StatusOK)
	for len(b) > 0 && w.failed == nil {
		k := min(len(b), pieceSize)
		if w.failed = w.to.Send(b[:k]); w.failed == nil {
			n += k
			b = b[k:]
		}
	}
	return n, w.failed
}

// FlushError supports http.ResponseController.
func (w *streamWriter) FlushError() error { return w.failed }

// bodyReader is the body of a request at another server. The first read asks for
// it, so that a refused request keeps its body and can go to another server.
type bodyReader struct {
	from  *wire.Stream
	asked bool   // the other server was asked to send it
	over  bool   // its last frame has come
	rest  []byte // of the last frame
}

// Read implements io.Reader.
func (r *bodyReader) Read(b []byte) (int, error) {
	if !r.asked {
		r.asked = true
		if err := send(r.from, &op.StreamHead{Continue: true}); err != nil {
			return 0, err
		}
	}
	for len(r.rest) == 0 {
		if r.over {
			return 0, io.EOF
		}
		// The end of a body is a frame of its own, so that a broken connection
		// is not taken for it.
		frame, err := r.from.Recv()
		if err == io.EOF { // the other server stopped sending
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return 0, err
		}
		switch frame[0] {
		case bodyPiece:
			r.rest = frame[1:]
		case bodyEnd:
			r.over = true
		default:
			return 0, berth.Errorf(berth.Invalid, "unknown body frame 0x%02x: want 0x%02x or 0x%02x", frame[0], bodyPiece, bodyEnd)
		}
	}
	n := copy(b, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

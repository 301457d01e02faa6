package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/yamux"

	"berth"
	"berth/internal/msgpack"
)

// Stream is one streaming RPC: frames of bytes both ways. One goroutine may
// send while another receives.
type Stream struct {
	conn    net.Conn
	r       *frameReader
	patient time.Duration // for a frame
	sess    *Session      // of the caller; nil at the server
	unhook  func() bool   // of the caller's context
	over    sync.Once     // for Close

	// At the server, a watcher owns the reader until the first Recv: it cancels a
	// handler that only sends when the caller is gone.
	watched   chan error
	receiving atomic.Bool // Recv was called, so it reports what the watcher finds
	stopped   atomic.Bool // by Interrupt

	mu       sync.Mutex
	accepted bool   // the answer has begun; always so at the caller
	closed   bool   // for sending
	buf      []byte // used again by send while it is small
}

// Stream opens a streaming RPC at the far end. It ends with ctx, or when it is
// closed, which the caller must do.
func (s *Session) Stream(ctx context.Context, method string, in any) (*Stream, error) {
	// The request is one write: first byte, header and argument.
	b := append(msgpack.AppendString(append([]byte{firstStream}, 0x81), "Method"), msgpack.AppendString(nil, method)...)
	b, err := msgpack.Append(b, in)
	if err != nil {
		return nil, berth.Errorf(berth.Invalid, "%s: encode %T: %w", method, in, err)
	}
	spare, err := s.slot(ctx, method, s.idle)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnsent, err)
	}
	if spare != nil {
		spare.conn.Close() // its slot is ours now
	}
	conn, err := s.mux.OpenStream()
	if err != nil {
		<-s.slots
		return nil, fmt.Errorf("%w: %w", ErrUnsent, broken(ctx, method, err))
	}
	s.hold(conn)
	s.begin()
	st := &Stream{
		conn: conn, sess: s, patient: s.server.cfg.FrameTime, accepted: true,
		r:      &frameReader{conn: conn, patient: s.server.cfg.FrameTime},
		unhook: context.AfterFunc(ctx, func() { conn.SetDeadline(longAgo); conn.Close() }),
	}
	if err := st.begin(b, s.server.cfg.CallTime); err != nil {
		st.Close()
		return nil, s.explain(ctx, method, err)
	}
	return st, nil
}

// begin asks for the stream and waits until it is accepted.
func (s *Stream) begin(request []byte, within time.Duration) error {
	if err := writeAll(s.conn, request, s.patient); err != nil {
		return err
	}
	s.r.arm(within)
	frame, err := s.r.next(maxHeader, false)
	if err != nil {
		return err
	}
	s.r.disarm()
	h, _, err := readHeader(frame, nil)
	if err == nil && h.text != "" {
		err = answered{h.error()}
	}
	return err
}

// Send sends one frame. The far end must take it in time.
func (s *Stream) Send(payload []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.send(payload, failure{})
}

// send sends the acceptance of the stream if that is still due, and a payload or
// the error that ended the stream.
func (s *Stream) send(payload []byte, end failure) error {
	if s.closed {
		return berth.Errorf(berth.Unavailable, "the stream is closed for sending")
	}
	// The acceptance and the first payload go out in one write.
	b := s.buf[:0]
	refuse := !s.accepted && end.text != ""
	if !s.accepted {
		s.accepted = true
		b = appendEnd(b, end)
	}
	switch {
	case refuse: // the refusal is the whole answer
	case end.text != "":
		b = appendEnd(b, end)
	case payload != nil:
		b = msgpack.AppendString(append(b, 0x82), "Error")
		b = msgpack.AppendRawHead(msgpack.AppendString(append(b, 0xc0), "Payload"), len(payload))
		b = append(b, payload...)
	}
	if cap(b) <= smallBuffer {
		s.buf = b
	}
	return writeAll(s.conn, b, s.patient)
}

// Accept tells the caller that the stream is accepted, before there is
// something to send.
func (s *Stream) Accept() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.accepted {
		return nil
	}
	return s.send(nil, failure{})
}

// Recv returns the payload of the next frame. At the end it returns io.EOF, or
// the error that the far end ended the stream with.
func (s *Stream) Recv() ([]byte, error) {
	if err := s.Accept(); err != nil { // the caller may be waiting for it
		return nil, err
	}
	if err := s.unwatch(); err != nil {
		return nil, ended(err)
	}
	for {
		s.r.done()
		if s.stopped.Load() { // done may have lifted the deadline that Interrupt set
			return nil, berth.Errorf(berth.Unavailable, "stream: receiving was interrupted")
		}
		frame, err := s.r.next(MaxFrame, false)
		if err != nil {
			return nil, ended(err)
		}
		// A frame has an error, a payload or neither; one with neither is
		// skipped.
		var payload []byte
		h, _, err := readHeader(frame, nil)
		if err == nil && h.text != "" {
			return nil, h.error()
		}
		if err == nil {
			err = fields(frame, func(key, value []byte) error {
				if string(key) == "Payload" {
					payload, _ = msgpack.Text(value)
				}
				return nil
			})
		}
		if err != nil {
			return nil, err
		}
		if len(payload) > 0 {
			// The frame is overwritten by the next one, and callers keep
			// payloads.
			return append([]byte(nil), payload...), nil
		}
	}
}

// Interrupt ends a Recv in progress, at the latest when the frame that has begun
// to arrive is complete, and fails those that follow. Sending still works.
func (s *Stream) Interrupt() {
	s.stopped.Store(true)
	s.conn.SetReadDeadline(longAgo)
}

// ended returns the error of a stream that broke off; io.EOF stays as it is,
// since it is the regular end.
func ended(err error) error {
	if err == io.EOF {
		return io.EOF
	}
	return berth.Errorf(berth.Unavailable, "stream: %w", err)
}

// watch waits until the caller sends something or is gone. In the second case it
// calls gone, unless the handler is in Recv, which returns the error.
func (s *Stream) watch(gone func()) {
	s.watched = make(chan error, 1)
	go func() {
		err := s.r.peek()
		if err != nil && !s.receiving.Load() {
			gone()
		}
		s.watched <- err
	}()
}

// unwatch takes the reader back from the watcher.
func (s *Stream) unwatch() error {
	if s.watched == nil {
		return nil
	}
	s.receiving.Store(true)
	err := <-s.watched
	s.watched = nil
	return err
}

// CloseSend tells the far end that nothing more will be sent. Receiving still
// works for five minutes. A handler that only sends takes it for the end of the
// stream.
func (s *Stream) CloseSend() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if half, ok := s.conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return s.conn.Close() // of a yamux stream: for sending alone
}

// Close ends the stream both ways.
func (s *Stream) Close() error {
	if s.sess != nil {
		s.unhook()
		s.sess.drop(s.conn.(*yamux.Stream))
	}
	s.conn.SetDeadline(longAgo) // ends a Recv or Send in progress
	err := s.conn.Close()
	if s.sess != nil {
		s.over.Do(func() { <-s.sess.slots; s.sess.end() })
	}
	return err
}

// serveStreaming serves one streaming RPC.
func (s *Server) serveStreaming(ctx context.Context, r *frameReader, peer *Peer) error {
	defer peer.busy()()
	frame, err := r.next(maxHeader, false)
	if err != nil {
		return err
	}
	h, m, err := readHeader(frame, func(name []byte) *method { return s.streams[string(name)] })
	if err != nil {
		return err
	}
	arg, err := r.next(limitFor(m, peer), true)
	if err != nil {
		return err
	}
	r.disarm()
	st := &Stream{conn: r.conn, r: r, patient: s.cfg.FrameTime}
	if m == nil {
		err = errNoMethod(h.method)
	} else {
		// The argument is valid until the first Recv, and the handler may
		// decode it after that.
		err = s.runStream(ctx, m, &Call{Method: m.name, Peer: peer, arg: append([]byte(nil), arg...)}, st)
	}
	return st.finish(err)
}

// runStream runs the handler of a stream, within the limits of its method. When
// it returns, nothing reads from the stream any more.
func (s *Server) runStream(ctx context.Context, m *method, c *Call, st *Stream) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		st.conn.SetReadDeadline(longAgo)
		st.unwatch()
	}()
	defer cancel()
	st.watch(cancel)
	defer m.inProcess.Add(-1)
	if n := m.inProcess.Add(1); n > m.maxCalls {
		return berth.Errorf(berth.Limited, "%s: %d streams are already open: try again later", m.name, m.maxCalls)
	}
	if err := m.refuses(c.Peer); err != nil {
		return err
	}
	defer s.rescue(m, &err)
	return m.stream(ctx, c, st)
}

// finish tells the caller how the stream ended.
func (s *Stream) finish(failed error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	var end failure
	if failed != nil && !errors.Is(failed, io.EOF) {
		end = failureOf(failed)
	}
	if err := s.send(nil, end); err != nil {
		return err
	}
	if _, half := s.conn.(interface{ CloseWrite() error }); half { // yamux streams do not have it
		linger(s.conn, time.Second)
	}
	return nil
}

// appendEnd appends a frame that says how a stream begins or ends. No error is
// nil, which reads as an absent one and as an empty text alike.
func appendEnd(b []byte, f failure) []byte {
	if f.text == "" {
		return append(msgpack.AppendString(append(b, 0x81), "Error"), 0xc0)
	}
	b = msgpack.AppendString(append(b, 0x81+f.extra()), "Error")
	return f.appendExtra(msgpack.AppendString(b, f.text))
}

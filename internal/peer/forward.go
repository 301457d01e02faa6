package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"berth"
	"berth/internal/msgpack"
	"berth/internal/state"
	"berth/internal/wire"
	"berth/op"
)

// These errors mean that a forwarded operation has no answer. Any other error is
// the answer of the far end.
var (
	// ErrNotLeader means that a request for the leader reached a server that does
	// not lead. Nothing was done.
	ErrNotLeader = berth.Errorf(berth.NoLeader, "%w: the server is not the leader, and nothing was done", state.ErrLost)
	// ErrUnreached means that a server was not reached. Nothing was done.
	ErrUnreached = errors.New("the server was not reached, and nothing was done")
	// ErrDropped means that the connection was lost before the server answered.
	// The operation may have been done.
	ErrDropped = errors.New("the connection to the server was lost before it answered")
)

// NothingDone reports whether an error means that the operation had no effect, so
// that it may be sent to another server.
func NothingDone(err error) bool {
	return errors.Is(err, ErrUnreached) || errors.Is(err, ErrNotLeader)
}

// Conn forwards operations to one server.
type Conn interface {
	// Forward returns the answer to an operation. The error is one of those
	// above, or the operation's own, with its kind; the answer then has nothing
	// but the index of the state that showed it, if the far end answered at all.
	Forward(ctx context.Context, r *op.Forwarded) (*op.Answer, error)
	// Stream returns the answer to a streaming operation. body is read only if
	// the far end asks for it, and no longer once the answer is closed, which
	// the caller must do. Errors are those of Forward.
	Stream(ctx context.Context, r *op.Forwarded, body io.Reader) (*Stream, error)
	// Duplex opens an operation in which both ends send messages. It returns
	// once the far end has accepted it. Errors are those of Forward.
	Duplex(ctx context.Context, r *op.Forwarded) (op.Duplex, error)
}

// Server returns a Conn over a session between two servers.
func Server(s *wire.Session) Conn {
	return &conn{s, op.Forward, op.ForwardStream.RPC, op.ForwardDuplex.RPC}
}

// OfAgent returns a Conn over a session from an agent to a server.
func OfAgent(s *wire.Session) Conn {
	return &conn{s, op.AgentForward, op.AgentForwardStream.RPC, op.AgentForwardDuplex.RPC}
}

// conn forwards over a session. call, stream and duplex are the methods for it,
// which differ for agents and servers.
type conn struct {
	session        *wire.Session
	call           op.Op[op.Forwarded, op.Answer]
	stream, duplex string // methods
}

// Forward implements Conn.
func (c *conn) Forward(ctx context.Context, r *op.Forwarded) (*op.Answer, error) {
	a, err := op.Call(ctx, c.session, c.call, r)
	if err != nil {
		return nil, lost(ctx, err)
	}
	return a, errorOf(&a.Failure)
}

// lost turns an error of the session into ErrUnreached or ErrDropped.
func lost(ctx context.Context, err error) error {
	switch kind := berth.KindOf(err); {
	case errors.Is(err, wire.ErrUnsent):
		return fmt.Errorf("%w: %w", ErrUnreached, err)
	case ctx.Err() != nil, kind == berth.Unavailable, kind == "":
		return fmt.Errorf("%w: %w", ErrDropped, err)
	}
	return err // the far end refused the call
}

// FailureOf returns the form in which an error is sent; nil is the zero value.
func FailureOf(err error) op.Failure {
	if err == nil {
		return op.Failure{}
	}
	f := op.Failure{Kind: berth.PublicKind(err), Code: berth.CodeOf(err), Error: err.Error(), NotLeader: errors.Is(err, ErrNotLeader)}
	if f.Error == "" {
		f.Error = "unknown error"
	}
	return f
}

// errorOf is the inverse of FailureOf.
func errorOf(f *op.Failure) error {
	switch {
	case f.NotLeader:
		return ErrNotLeader
	case f.Error == "":
		return nil
	case f.Kind == "":
		return errors.New(f.Error)
	}
	return &berth.Error{Kind: f.Kind, Code: f.Code, Err: errors.New(f.Error)}
}

// Stream is the answer to a streaming operation.
type Stream struct {
	op.StreamHead
	from    *wire.Stream
	rest    []byte         // of the last frame
	upload  sync.WaitGroup // of the goroutine that sends the body
	reading lent           // the body, which belongs to the caller again after Close
}

// Stream implements Conn.
func (c *conn) Stream(ctx context.Context, r *op.Forwarded, body io.Reader) (*Stream, error) {
	from, err := c.session.Stream(ctx, c.stream, r)
	if err != nil {
		return nil, lost(ctx, err)
	}
	s := &Stream{from: from, reading: lent{from: body}}
	err = s.head()
	// The far end wants the body. What it answers comes while the body is sent.
	if err == nil && s.Continue {
		s.upload.Go(s.send)
		err = s.head()
	}
	if err == nil {
		if err = errorOf(&s.Failure); err == nil {
			return s, nil
		}
	} else {
		err = lost(ctx, err)
	}
	s.Close()
	return nil, err
}

// head receives the next head.
func (s *Stream) head() error {
	b, err := s.from.Recv()
	if err != nil {
		return err
	}
	s.StreamHead = op.StreamHead{}
	return msgpack.Decode(b, &s.StreamHead)
}

// Frames of a body begin with one of these.
const (
	bodyPiece = 'p'
	bodyEnd   = 'e'
)

// pieceSize is the largest payload of a frame, in bytes.
const pieceSize = 64 << 10

// send sends the body. If reading the body fails, the stream is closed.
func (s *Stream) send() {
	b := make([]byte, 1+pieceSize)
	for {
		n, err := s.reading.Read(b[1:])
		if n > 0 {
			b[0] = bodyPiece
			if s.from.Send(b[:1+n]) != nil {
				return
			}
		}
		if err == io.EOF {
			s.from.Send([]byte{bodyEnd})
			return
		}
		if err != nil {
			s.from.Close()
			return
		}
	}
}

// Read implements io.Reader. At the end it returns io.EOF, or the error that
// ended the stream at the far end.
func (s *Stream) Read(b []byte) (int, error) {
	for len(s.rest) == 0 {
		frame, err := s.from.Recv()
		if err != nil {
			return 0, err
		}
		s.rest = frame
	}
	n := copy(b, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// Close ends the stream, and returns once the body is no longer read.
func (s *Stream) Close() error {
	err := s.from.Close()
	s.reading.close()
	s.upload.Wait()
	return err
}

// lent is a body that cannot be read after it is closed.
type lent struct {
	mu     sync.Mutex
	from   io.Reader
	closed bool
}

// Read implements io.Reader.
func (l *lent) Read(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.from == nil {
		return 0, io.ErrClosedPipe
	}
	return l.from.Read(b)
}

// close returns once no read is in progress. Later reads fail.
func (l *lent) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
}

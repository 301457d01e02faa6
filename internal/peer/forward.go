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

// Why nothing came of an operation that was forwarded, or may have. After any
// other error the far end has answered.
var (
	// ErrNotLeader says that a server was asked as the leader and is not. Nothing
	// was done.
	ErrNotLeader = berth.Errorf(berth.NoLeader, "%w: it was asked of a server that does not lead, and nothing was done", state.ErrLost)
	// ErrUnreached says that a server was not reached. Nothing was done.
	ErrUnreached = errors.New("the server was not reached, and nothing was done")
	// ErrDropped says that a server was lost before it answered.
	ErrDropped = errors.New("the server was lost before it answered")
)

// NothingDone reports whether an error says that nothing came of an operation,
// so that it may be asked of another server.
func NothingDone(err error) bool {
	return errors.Is(err, ErrUnreached) || errors.Is(err, ErrNotLeader)
}

// Conn is a way to a server that answers forwarded operations.
type Conn interface {
	// Forward has an operation answered. The error is one of those above, or that
	// of the operation with the kind that it has there.
	Forward(ctx context.Context, r *op.Forwarded) (*op.Answer, error)
	// Stream has an operation answered that is a stream. The body of its request
	// is read only if the far end wants it, and not any more once the answer is
	// closed, which the caller must do. Errors are those of Forward.
	Stream(ctx context.Context, r *op.Forwarded, body io.Reader) (*Stream, error)
}

// Server returns the way to a server at the end of a session, for a server.
func Server(s *wire.Session) Conn { return &conn{s, op.Forward, op.ForwardStream.RPC} }

// OfAgent returns the way to a server at the end of a session, for an agent.
func OfAgent(s *wire.Session) Conn { return &conn{s, op.AgentForward, op.AgentForwardStream.RPC} }

type conn struct {
	session *wire.Session
	call    op.Op[op.Forwarded, op.Answer]
	stream  string
}

// Forward implements Conn.
func (c *conn) Forward(ctx context.Context, r *op.Forwarded) (*op.Answer, error) {
	a, err := op.Call(ctx, c.session, c.call, r)
	if err != nil {
		return nil, lost(ctx, err)
	}
	if err := errorOf(&a.Failure); err != nil {
		return nil, err
	}
	return a, nil
}

// lost says what an error of the session means for what was asked over it.
func lost(ctx context.Context, err error) error {
	switch kind := berth.KindOf(err); {
	case errors.Is(err, wire.ErrUnsent):
		return fmt.Errorf("%w: %w", ErrUnreached, err)
	case ctx.Err() != nil, kind == berth.Unavailable, kind == "":
		return fmt.Errorf("%w: %w", ErrDropped, err)
	}
	return err // the far end refuses the call itself
}

// FailureOf returns how an error travels; nil is the zero value.
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

// Stream is the answer to an operation that is a stream.
type Stream struct {
	op.StreamHead
	from    *wire.Stream
	rest    []byte // of the last frame
	upload  sync.WaitGroup
	reading lent
}

// Stream implements Conn.
func (c *conn) Stream(ctx context.Context, r *op.Forwarded, body io.Reader) (*Stream, error) {
	from, err := c.session.Stream(ctx, c.stream, r)
	if err != nil {
		return nil, lost(ctx, err)
	}
	s := &Stream{from: from, reading: lent{from: body}}
	err = s.head()
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

// pieceSize is the most bytes of one frame.
const pieceSize = 64 << 10

// send sends the body. If it breaks off the stream does, too.
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

// Read implements io.Reader. At the end it returns io.EOF, or why the far end
// could not go on.
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

// Close ends the stream, and waits until the body is not read any more.
func (s *Stream) Close() error {
	err := s.from.Close()
	s.reading.close()
	s.upload.Wait()
	return err
}

// lent is a body that may be read until it is closed, and no longer.
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

func (l *lent) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
}

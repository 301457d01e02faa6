package peer

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"

	"berth"
	"berth/op"
)

// Duplex implements Conn. The error of a far end that refuses the call keeps its
// kind.
func (c *conn) Duplex(ctx context.Context, r *op.Forwarded) (op.Duplex, error) {
	to, err := c.session.Stream(ctx, c.duplex, r)
	if err != nil {
		return nil, lost(ctx, err)
	}
	return to, nil
}

// Join accepts a call and passes messages both ways between its caller and an
// open call, until either end has ended. It returns how the open call ended; nil
// is a regular end. It closes that call, and reads nothing from the caller
// after it has returned.
func Join(from op.Incoming, to op.Duplex) error {
	if err := from.Accept(); err != nil {
		return errors.Join(err, to.Close())
	}
	var up sync.WaitGroup
	up.Go(func() {
		defer to.Close()
		for {
			b, err := from.Recv()
			if err != nil || to.Send(b) != nil {
				return
			}
		}
	})
	err := pass(to.Recv, from.Send)
	from.Interrupt()
	to.Close()
	up.Wait()
	return err
}

// pass passes messages on until there are no more.
func pass(recv func() ([]byte, error), send func([]byte) error) error {
	for {
		b, err := recv()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := send(b); err != nil {
			return err
		}
	}
}

// Open calls serve in this process, with the other end of the Duplex that it
// returns once serve has accepted the call. An error of serve before that is
// returned. serve's context ends when the call is closed or ctx ends.
func Open(ctx context.Context, serve func(context.Context, op.Incoming) error) (op.Duplex, error) {
	l := newLocal(ctx)
	go func() {
		defer l.cancel()
		defer close(l.ended)
		l.err = serve(l.ctx, served{l})
	}()
	if err := l.opened(ctx); err != nil {
		return nil, err
	}
	return l, nil
}

// local is a Duplex within this process.
type local struct {
	ctx      context.Context // of the handler; ends with the call
	cancel   context.CancelFunc
	up, down chan []byte // messages to the handler and from it

	accept, interrupt     sync.Once
	accepted, interrupted chan struct{} // closed by the handler
	ended                 chan struct{} // closed when the handler has returned
	err                   error         // that it returned; set before ended is closed
}

// newLocal returns a call whose handler has not begun.
func newLocal(ctx context.Context) *local {
	l := &local{
		up: make(chan []byte), down: make(chan []byte),
		accepted: make(chan struct{}), interrupted: make(chan struct{}), ended: make(chan struct{}),
	}
	l.ctx, l.cancel = context.WithCancel(ctx)
	return l
}

// opened waits until the handler has accepted the call, and returns its error if
// it has refused it. It watches the caller's context: the handler's own ends as
// well when the handler returns, and would hide what it returned.
func (l *local) opened(caller context.Context) error {
	select {
	case <-l.accepted:
		return nil
	case <-l.ended:
		return l.err
	case <-caller.Done():
		return context.Cause(caller)
	}
}

// errOver is the error for a call that is over.
var errOver = berth.Errorf(berth.Unavailable, "the call is over")

// Send implements op.Duplex.
func (l *local) Send(b []byte) error {
	select {
	case l.up <- bytes.Clone(b):
		return nil
	case <-l.ctx.Done():
		return errOver
	}
}

// Recv implements op.Duplex. The handler's last message was taken before it
// could return, so nothing is lost at the end.
func (l *local) Recv() ([]byte, error) {
	select {
	case b := <-l.down:
		return b, nil
	case <-l.ended:
		if l.err != nil {
			return nil, l.err
		}
		return nil, io.EOF
	case <-l.ctx.Done():
		// The handler ends its context when it returns.
		select {
		case <-l.ended:
			if l.err == nil {
				return nil, io.EOF
			}
			return nil, l.err
		default:
			return nil, errOver
		}
	}
}

// Close implements op.Duplex.
func (l *local) Close() error {
	l.cancel()
	return nil
}

// served is the end of a local call that its handler has.
type served struct{ *local }

// Accept implements op.Incoming.
func (s served) Accept() error {
	s.accept.Do(func() { close(s.accepted) })
	return s.ctx.Err()
}

// Interrupt implements op.Incoming.
func (s served) Interrupt() { s.interrupt.Do(func() { close(s.interrupted) }) }

// Send implements op.Incoming.
func (s served) Send(b []byte) error {
	if err := s.Accept(); err != nil {
		return errOver
	}
	select {
	case s.down <- bytes.Clone(b):
		return nil
	case <-s.ctx.Done():
		return errOver
	}
}

// Recv implements op.Incoming. The end of the call is io.EOF.
func (s served) Recv() ([]byte, error) {
	if err := s.Accept(); err != nil {
		return nil, io.EOF
	}
	select {
	case b := <-s.up:
		return b, nil
	case <-s.interrupted:
		return nil, errOver
	case <-s.ctx.Done():
		return nil, io.EOF
	}
}

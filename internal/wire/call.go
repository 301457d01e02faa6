package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/hashicorp/yamux"

	"berth"
	"berth/internal/failpoint"
	"berth/internal/msgpack"
)

// rpcStream is a stream that calls are made on, one after the other.
type rpcStream struct {
	conn *yamux.Stream // closed when a call fails in the middle
	r    frameReader
	used bool // its first byte is sent
}

// idleMost is how many idle streams a session keeps for later calls. Opening and
// closing one costs as much as a call.
const idleMost = 16

// Call calls a method at the far end, and reads the reply into out, a pointer,
// which may be nil. Calls may run concurrently. If ctx ends first, the far end is
// told, and the error is the context's. Without a deadline in ctx, the timeout is
// the query's own wait plus a minute.
func (s *Session) Call(ctx context.Context, method string, in, out any) error {
	if !failpoint.On() {
		return s.callOnce(ctx, method, in, out)
	}
	// A network may deliver a request twice, and an answer late. Blocking
	// queries are not doubled: that would lose their first answer, which is
	// another fault.
	if patience(in) == 0 && failpoint.Hit("wire/twice") != nil {
		_ = s.callOnce(ctx, method, in, nil)
	}
	err := s.callOnce(ctx, method, in, out)
	_ = failpoint.Hit("wire/late")
	return err
}

// callOnce makes a call on an idle stream or on a new one, and keeps the stream
// for later if it is still in order.
func (s *Session) callOnce(ctx context.Context, method string, in, out any) error {
	s.begin()
	defer s.end()
	st, err := s.take(ctx, method)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnsent, err)
	}
	stop := s.bound(ctx, st.conn, in)
	s.hold(st.conn)
	again, err := st.call(s, method, in, out)
	s.drop(st.conn)
	if stopped := stop(); again && stopped {
		s.put(st)
	} else {
		s.discard(st)
	}
	return s.explain(ctx, method, err)
}

// explain gives an error that ended a call its kind. Errors that the far end
// answered with are returned unchanged.
func (s *Session) explain(ctx context.Context, what string, err error) error {
	if err == nil {
		return nil
	}
	if a, ok := errors.AsType[answered](err); ok {
		return a.error
	}
	return broken(ctx, what, s.over(err))
}

// answered wraps an error that the far end answered with.
type answered struct{ error }

// bound sets the deadline of a stream for a call with in. stop reports whether
// ctx has not ended.
func (s *Session) bound(ctx context.Context, conn net.Conn, in any) (stop func() bool) {
	if _, ok := ctx.Deadline(); !ok {
		conn.SetReadDeadline(time.Now().Add(patience(in) + time.Minute))
	}
	if ctx.Done() == nil {
		return func() bool { conn.SetReadDeadline(time.Time{}); return true }
	}
	unhook := context.AfterFunc(ctx, func() { conn.SetDeadline(longAgo) })
	return func() bool {
		ok := unhook()
		if ok {
			conn.SetReadDeadline(time.Time{})
		}
		return ok
	}
}

// patience returns how long a call may wait for something new.
func patience(in any) time.Duration {
	if w, ok := in.(Waiter); ok {
		return w.Wait()
	}
	return 0
}

// streamsOpened is how many streams one end opens in a session: fewer than the
// other end takes from a known peer, since that counts a stream until its
// handler has returned.
const streamsOpened = streamsKnown * 3 / 4

// Full reports whether a call would have to wait for another one to end.
func (s *Session) Full() bool { return len(s.slots) == cap(s.slots) && len(s.idle) == 0 }

// take returns an idle stream of the session, or opens one. Give it to put or
// discard. If the session is full, it waits a while for another call to end. An
// error means that nothing was sent.
func (s *Session) take(ctx context.Context, method string) (*rpcStream, error) {
	select {
	case st := <-s.idle:
		return st, nil
	default:
	}
	st, err := s.slot(ctx, method, s.idle)
	if st != nil || err != nil {
		return st, err
	}
	conn, err := s.mux.OpenStream()
	if err != nil {
		<-s.slots
		return nil, broken(ctx, method, err)
	}
	// Replies are not counted in the shared budget: the caller asked for them.
	st = &rpcStream{conn: conn}
	st.r.conn, st.r.patient = conn, s.server.cfg.FrameTime
	return st, nil
}

// slot waits for the right to open a stream, which is given back by a receive
// from s.slots, or for an idle one from another call.
func (s *Session) slot(ctx context.Context, method string, idle <-chan *rpcStream) (*rpcStream, error) {
	select {
	case s.slots <- struct{}{}:
		return nil, nil
	default:
	}
	full := time.NewTimer(s.server.cfg.fullTime)
	defer full.Stop()
	select {
	case s.slots <- struct{}{}:
		return nil, nil
	case st := <-idle:
		return st, nil
	case <-ctx.Done():
		return nil, broken(ctx, method, ctx.Err())
	case <-s.Done():
		return nil, broken(ctx, method, errSessionEnded)
	case <-full.C:
		streamsLimit.Refuse("address", s.peer.Addr)
		return nil, berth.Errorf(berth.Limited, "%s: %d calls to %s are in progress already: nothing was done, try again later", method, streamsOpened, s.peer.Addr)
	}
}

// put keeps a stream for later calls, or closes it if there are enough.
func (s *Session) put(st *rpcStream) {
	select {
	case s.idle <- st:
	default:
		s.discard(st)
	}
}

// discard closes a stream.
func (s *Session) discard(st *rpcStream) {
	st.conn.Close()
	<-s.slots
}

// call makes one call. again reports whether the stream can be used for another.
func (st *rpcStream) call(s *Session, method string, in, out any) (again bool, err error) {
	buf := buffers.Get().(*[]byte)
	defer putBuffer(buf)
	b := (*buf)[:0]
	if !st.used {
		b = append(b, firstRPC)
	}
	// The first byte of a stream chooses its protocol; it is sent once.
	seq := s.seq.Add(1)
	b, err = msgpack.Append(appendRequest(b, method, seq), in)
	if err != nil {
		return st.used, answered{berth.Errorf(berth.Invalid, "%s: encode %T: %w", method, in, err)}
	}
	*buf = b
	st.used = true
	if err := writeAll(st.conn, b, s.server.cfg.FrameTime); err != nil {
		return false, err
	}
	// The answer may take as long as the call may wait; its body must follow
	// promptly.
	frame, err := st.r.next(maxHeader, false)
	if err != nil {
		return false, err
	}
	h, _, err := readHeader(frame, nil)
	if err != nil {
		return false, err
	}
	if h.seq != seq {
		return false, badFrame("the answer is to call %d, not %d", h.seq, seq)
	}
	frame, err = st.r.next(MaxReply, true)
	if err != nil {
		return false, err
	}
	defer st.r.done()
	switch {
	case h.text != "":
		h.text = strings.ToValidUTF8(h.text, "�")
		err := h.error()
		// After a request that was too large a server closes the stream.
		kind := berth.KindOf(err)
		return kind != berth.TooLarge && kind != berth.Limited, answered{err}
	// The caller does not want the reply; it was read off the stream all the
	// same.
	case out == nil:
		return true, nil
	}
	if err := decode(frame, out); err != nil {
		return true, fmt.Errorf("the answer: %w", err)
	}
	return true, nil
}

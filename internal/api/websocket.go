package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"

	"berth"
	"berth/op"

	"github.com/coder/websocket"
)

// Limits of websockets.
const (
	maxMessage  = 256 << 10 // bytes of a message of a caller
	maxCloseMsg = 117       // bytes of the reason in a close frame, which has room for 123
)

// socket is a websocket to a caller. It is not there before the call is
// accepted: until then the request is answered as any other.
type socket struct {
	ctx  context.Context // of the request
	w    http.ResponseWriter
	r    *http.Request
	kind websocket.MessageType // of the messages sent

	once   sync.Once
	conn   *websocket.Conn // nil until accepted
	failed error           // of accepting it

	in      chan []byte     // messages of the caller
	reader  sync.WaitGroup  // the goroutine that receives them
	readErr error           // why it ended; set before in is closed
	open    context.Context // ends with Interrupt
	stop    context.CancelFunc
}

// Ready returns why the request cannot become a websocket.
func (s *socket) Ready() error {
	for _, v := range s.r.Header.Values("Upgrade") {
		if strings.EqualFold(strings.TrimSpace(v), "websocket") {
			return nil
		}
	}
	return berth.Errorf(berth.Invalid, "this path wants a websocket: the request has no header Upgrade: websocket")
}

// Accept implements op.Incoming.
func (s *socket) Accept() error {
	s.once.Do(func() {
		if s.failed = s.Ready(); s.failed != nil {
			return
		}
		// Serve has checked the origin of the request already, by rules that
		// know of proxies and certificates.
		c, err := websocket.Accept(s.w, s.r, &websocket.AcceptOptions{InsecureSkipVerify: true, Subprotocols: []string{socketProtocol}, CompressionMode: websocket.CompressionDisabled})
		if err != nil {
			s.failed = &answeredError{err} // Accept has answered the request
			return
		}
		c.SetReadLimit(maxMessage)
		s.open, s.stop = context.WithCancel(s.ctx)
		s.in, s.conn = make(chan []byte), c
		s.reader.Go(s.receive)
	})
	return s.failed
}

// receive hands the caller's messages to Recv, one by one, until the connection
// ends. After Interrupt it reads on and drops them: the caller's answer to the
// close frame comes last. Empty messages say only that the caller is there.
func (s *socket) receive() {
	defer close(s.in)
	for {
		_, b, err := s.conn.Read(s.ctx)
		switch {
		case websocket.CloseStatus(err) != -1:
			s.readErr = io.EOF
			return
		case err != nil:
			s.readErr = berth.Errorf(berth.Unavailable, "the caller's websocket: %w", err)
			return
		case len(b) == 0:
			continue
		}
		select {
		case s.in <- b:
		case <-s.open.Done():
		}
	}
}

// Send implements op.Incoming.
func (s *socket) Send(b []byte) error {
	if err := s.Accept(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(s.ctx, writeTimeout)
	defer cancel()
	return s.conn.Write(ctx, s.kind, b)
}

// Recv implements op.Incoming. A caller that has closed the websocket is the end.
func (s *socket) Recv() ([]byte, error) {
	if err := s.Accept(); err != nil {
		return nil, err
	}
	select {
	case b, ok := <-s.in:
		if !ok {
			return nil, s.readErr
		}
		return b, nil
	case <-s.open.Done():
		return nil, berth.Errorf(berth.Unavailable, "the call is over")
	}
}

// Interrupt implements op.Incoming.
func (s *socket) Interrupt() {
	if s.Accept() == nil {
		s.stop()
	}
}

// end closes the websocket after its handler has returned, and tells the caller
// why. Before the call was accepted it returns the error, to be the answer.
func (s *socket) end(err error) error {
	s.once.Do(func() {}) // nothing accepts it any more
	if s.conn == nil {
		if _, done := errors.AsType[*answeredError](s.failed); done {
			return nil
		}
		if err == nil {
			err = errors.Join(s.failed, s.Ready())
		}
		return err
	}
	code, why := websocket.StatusNormalClosure, ""
	if err != nil {
		code, why = websocket.StatusInternalError, strings.ToValidUTF8(berth.Clip(err.Error(), maxCloseMsg), "?")
	}
	s.stop()
	_ = s.conn.Close(code, why) // the caller may be gone
	s.reader.Wait()
	return nil
}

// answeredError is the error of a request that was answered by someone else.
type answeredError struct{ error }

var _ op.Incoming = (*socket)(nil)

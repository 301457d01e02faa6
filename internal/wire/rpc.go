package wire

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"berth"
	"berth/internal/limit"
	"berth/internal/msgpack"
)

// header is what precedes an argument or a reply.
type header struct {
	method string // of a request
	seq    uint64 // of the call; its answer has the same
	failure
}

// readHeader reads a header frame. It looks the method up in known, so that a
// known name allocates nothing.
func readHeader(frame []byte, known func(name []byte) *method) (h header, m *method, err error) {
	err = fields(frame, func(key, value []byte) error {
		text, isText := msgpack.Text(value)
		ok := isText
		switch string(key) {
		// Calls name their method one way, streams the other.
		case "ServiceMethod", "Method":
			if known != nil {
				if m = known(text); m != nil {
					h.method = m.name
					break
				}
			}
			h.method = string(text)
		case "Seq":
			h.seq, ok = msgpack.Uint(value)
		case "Error":
			if isText {
				h.text = string(text)
			} else {
				h.text, ok = errorIn(value)
			}
		case "Kind":
			h.kind = berth.Kind(text)
		case "Code":
			h.code = berth.Code(text)
		// Unknown fields are ignored, so that the protocol can grow.
		default:
			ok = true
		}
		if !ok {
			return badFrame("%s in a header has the wrong type", key)
		}
		return nil
	})
	return h, m, err
}

// errorIn reads an error that is a map with a Message.
func errorIn(value []byte) (text string, ok bool) {
	if !msgpack.IsMap(value) {
		return "", false
	}
	text = "unknown error"
	err := fields(value, func(key, value []byte) error {
		if t, isText := msgpack.Text(value); isText && string(key) == "Message" {
			text = string(t)
		}
		return nil
	})
	return text, err == nil
}

// appendRequest appends the header of a call; the argument follows it.
func appendRequest(b []byte, method string, seq uint64) []byte {
	b = msgpack.AppendString(append(b, 0x82), "ServiceMethod")
	b = msgpack.AppendString(msgpack.AppendString(b, method), "Seq")
	return msgpack.AppendUint(b, seq)
}

// appendResponse appends the header of an answer; the reply follows it, even
// after an error.
func appendResponse(b []byte, h *header) []byte {
	b = msgpack.AppendString(append(b, 0x83+h.extra()), "ServiceMethod")
	b = msgpack.AppendString(msgpack.AppendString(b, h.method), "Seq")
	b = msgpack.AppendString(msgpack.AppendUint(b, h.seq), "Error")
	return h.appendExtra(msgpack.AppendString(b, h.text))
}

// serveRPC answers the calls on one stream, one at a time.
func (s *Server) serveRPC(ctx context.Context, r *frameReader, peer *Peer) error {
	for {
		frame, err := r.next(maxHeader, false)
		if err != nil {
			return err
		}
		h, m, err := readHeader(frame, func(name []byte) *method { return s.methods[string(name)] })
		if err != nil {
			return err
		}
		arg, err := r.next(limitFor(m, peer), true)
		if err != nil {
			if berth.KindOf(err) == berth.TooLarge || berth.KindOf(err) == berth.Limited {
				s.reply(r, h, nil, err) // tell the caller why before the connection ends
				linger(r.conn, s.cfg.FrameTime)
			}
			return err
		}
		r.disarm()
		// The argument of an unknown method was read, so the stream stays
		// usable.
		if m == nil {
			err = errNoMethod(h.method)
			if err := s.reply(r, h, nil, err); err != nil {
				return err
			}
			r.done()
			continue
		}
		if err := s.serveCall(ctx, m, h, r, arg, peer); err != nil {
			return err
		}
	}
}

// errNoMethod is the error for an unknown method. Clients know it by its first
// words.
func errNoMethod(name string) error {
	return berth.Errorf(berth.Invalid, "rpc: can't find method %.64s", name)
}

// serveCall answers one call.
func (s *Server) serveCall(ctx context.Context, m *method, h header, r *frameReader, arg []byte, peer *Peer) error {
	defer peer.busy()()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := time.AfterFunc(s.cfg.CallTime, func() { cancel(context.DeadlineExceeded) })
	defer late.Stop()

	// A blocking call is cancelled when the caller is gone, which only a read can
	// detect. The reader belongs to the watcher until it sends to next.
	var next chan error
	c := &Call{Method: m.name, Peer: peer, arg: arg}
	c.waits = func(d time.Duration) {
		late.Reset(d + s.cfg.CallTime)
		next = make(chan error, 1)
		go func() {
			err := r.peek()
			if err != nil {
				cancel(nil)
			}
			next <- err
		}()
	}
	reply, err := s.run(ctx, m, c)
	err = s.reply(r, h, reply, err)
	if next != nil {
		if err != nil {
			r.conn.SetReadDeadline(longAgo) // so that the watcher ends too
		}
		gone := <-next
		if err == nil {
			err = gone
		}
	}
	if err == nil {
		r.done()
	}
	return err
}

// run calls the handler. Its panic fails the call alone.
func (s *Server) run(ctx context.Context, m *method, c *Call) (reply any, err error) {
	defer m.inProcess.Add(-1)
	n := m.inProcess.Add(1)
	callsLimit.Use(n, m.maxCalls, "method", m.name)
	if n > m.maxCalls {
		callsLimit.Refuse("method", m.name)
		return nil, berth.Errorf(berth.Limited, "%s: %d calls are already in progress: try again later", m.name, m.maxCalls)
	}
	if err := m.refuses(c.Peer); err != nil {
		return nil, err
	}
	defer s.rescue(m, &err)
	return m.handle(context.WithValue(ctx, inProgress{}, m), c)
}

// inProgress is the key of a context for the method whose call it is of.
type inProgress struct{}

// Idle reports that the call with this context does nothing from now on but wait
// for something new. Until resume is called, which is always due, it does not
// count as a call in progress: thousands of agents wait for their allocations.
// Of any other context Idle does nothing.
func Idle(ctx context.Context) (resume func()) {
	m, ok := ctx.Value(inProgress{}).(*method)
	if !ok {
		return func() {}
	}
	m.inProcess.Add(-1)
	return func() { m.inProcess.Add(1) }
}

var replyLimit = limit.Declare(limit.Info{
	Name: "rpc_answer", Of: "Bytes of the answer of an RPC call", Unit: limit.Bytes, Default: MaxReply,
	Beyond: "the call fails (413): ask for less at a time",
})

var callsLimit = limit.Declare(limit.Info{
	Name: "rpc_calls_per_method", Of: "Calls of one RPC method that are in progress, without those that wait for something new; 65536 of forwarded operations", Unit: limit.Count, Default: 16384,
	Beyond: "429, and nothing was done",
})

// rescue turns a handler's panic into an error. It must be deferred directly.
func (s *Server) rescue(m *method, err *error) {
	if p := recover(); p != nil {
		s.cfg.Log.LogAttrs(context.Background(), slog.LevelError, "a handler panicked",
			slog.String("method", m.name), slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
		*err = fmt.Errorf("%s: internal error", m.name)
	}
}

// buffers are reused for messages, each of which is written in one piece.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// largeBuffer is the capacity beyond which a buffer is left to the collector.
const largeBuffer = 256 << 10

// putBuffer gives a buffer back, unless it is too large to keep.
func putBuffer(b *[]byte) {
	if cap(*b) <= largeBuffer {
		*b = (*b)[:0]
		buffers.Put(b)
	}
}

// reply writes the answer to a call.
func (s *Server) reply(r *frameReader, h header, reply any, failed error) error {
	buf := buffers.Get().(*[]byte)
	defer putBuffer(buf)
	b := *buf
	if failed == nil {
		b = appendResponse(b[:0], &h)
		at := len(b)
		b, failed = s.codec.Append(b, reply)
		replyLimit.Use(int64(len(b)-at), MaxReply, "method", h.method)
		if failed == nil && len(b)-at > MaxReply {
			replyLimit.Refuse("method", h.method)
			failed = berth.Errorf(berth.TooLarge, "%s: the answer has %d bytes, and the limit is %d: ask for less at a time", h.method, len(b)-at, MaxReply)
		}
		if failed == nil && len(b) > at && b[at] == 0xc0 { // nil is sent as an empty map
			b = append(b[:at], 0x80)
		}
	}
	// The header is written again, with the error instead of the reply.
	if failed != nil {
		h.failure = failureOf(failed)
		b = append(appendResponse((*buf)[:0], &h), 0x80)
	}
	*buf = b
	return writeAll(r.conn, b, s.cfg.FrameTime)
}

package api

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"berth"
	"berth/internal/msgpack"
	"berth/internal/peer"
	"berth/internal/wire"
	"berth/op"
)

// operation is an operation that this server serves: over HTTP, to agents, and to
// other servers that forward it. Its input is decoded once, by the first server
// that gets it; place decides where it is answered.
type operation struct {
	info  *op.Info   // its declaration
	input func() any // a new, empty one
	// run answers on this server, and does not change its input. It is nil if the
	// answer is a stream.
	run func(ctx context.Context, who Caller, in any) (out any, m op.Meta, err error)
	// shared answers with JSON that callers share; nil: run answers each. See readList.
	shared func(ctx context.Context, who Caller, in any) (*answered, error)
	// stream answers on this server with a stream. It returns an error only while
	// nothing has been sent.
	stream func(ctx context.Context, who Caller, in any, x *exchange) error
	// duplex answers on this server with messages both ways; nil: the operation
	// has an answer or a stream.
	duplex func(ctx context.Context, who Caller, in any, from op.Incoming) error
	// regional is true for operations about an agent, which are answered in the
	// agent's region.
	regional bool
	// always is true for a read that only the leader can answer, stale or not.
	always bool
	// own reports whether an agent that is not a server answers itself; nil:
	// never.
	own func(in any) bool
}

// exchange is a request for a stream, and its answer.
type exchange struct {
	w    http.ResponseWriter
	view op.View   // the format that the caller asks for
	body io.Reader // of the request
}

// forLeader reports whether the leader must answer.
func (x *operation) forLeader(in any) bool {
	if !x.info.IsRead() && !x.info.Local || x.always {
		return true
	}
	q := queryOf(in)
	return x.info.Leader && (q == nil || !q.AllowStale)
}

// add registers an operation.
func add[In, Out any](s *Server, o op.Op[In, Out], run func(ctx context.Context, who Caller, in *In) (Out, op.Meta, error)) *operation {
	x := s.serve(o.Info, func() any { return new(In) })
	x.run = func(ctx context.Context, who Caller, in any) (any, op.Meta, error) {
		out, m, err := run(ctx, who, in.(*In))
		return &out, m, err
	}
	return x
}

// addStream registers an operation whose answer, or the body of whose request,
// is a stream.
func addStream[In, Out any](s *Server, o op.Op[In, Out], run func(ctx context.Context, who Caller, in *In, x *exchange) error) *operation {
	x := s.serve(o.Info, func() any { return new(In) })
	x.stream = func(ctx context.Context, who Caller, in any, e *exchange) error { return run(ctx, who, in.(*In), e) }
	return x
}

// serve registers the HTTP route and the RPC method of an operation.
func (s *Server) serve(info *op.Info, input func() any) *operation {
	x := &operation{info: info, input: input}
	s.operations[info.Name] = x
	s.served[info.Name] = true
	if info.Path != "" {
		s.routes.add(info, func(w http.ResponseWriter, r *http.Request, path values) {
			in := x.input()
			share := s.intake.share(r.RemoteAddr)
			defer share.end()
			a := auditOf(r.Context())
			err := decodeRequest(in, w, r, path, info, share)
			if refused := a.receive(r.Context(), info, in, token(r)); refused != nil {
				err = refused
			}
			if a != nil {
				a.stream = x.stream != nil || x.duplex != nil
			}
			if err == nil {
				err = s.serveHTTP(w, r, x, in)
			}
			if err != nil {
				a.failed(err)
				s.fail(w, err)
			}
		})
	}
	if info.RPC != "" {
		s.rpc[info.RPC] = func(ctx context.Context, c RPC) (any, error) { return s.serveRPC(ctx, x, c) }
	}
	return x
}

// serveHTTP answers a request over HTTP. It returns an error while nothing has
// been sent.
func (s *Server) serveHTTP(w http.ResponseWriter, r *http.Request, x *operation, in any) error {
	who := Caller{Token: tokenOf(in), Remote: r.RemoteAddr, Progress: progressOf(r.Context())}
	view := viewOf(r)
	if x.duplex != nil {
		return s.serveDuplex(w, r, x, who, in)
	}
	if x.stream == nil {
		a, err := s.do(r.Context(), x, who, in, false)
		if err != nil {
			return err
		}
		if !a.large {
			s.reply(w, view, a)
			return nil
		}
	}
	began := &watched{ResponseWriter: w}
	err := s.doStream(r.Context(), x, who, in, &exchange{began, view, &upload{from: r.Body, limit: http.NewResponseController(w)}})
	if err != nil && began.yes {
		panic(http.ErrAbortHandler) // the broken connection shows the caller that something is missing
	}
	return err
}

// serveRPC answers a call of an agent.
func (s *Server) serveRPC(ctx context.Context, x *operation, c RPC) (any, error) {
	in := x.input()
	if err := c.Decode(in); err != nil {
		return nil, err
	}
	a, err := s.do(ctx, x, Caller{tokenOf(in), c.Remote(), c, c.Progress()}, in, true)
	switch {
	case err != nil:
		return nil, err
	case a.encoded != nil:
		s.learn(c, in)
		return wire.Raw(a.encoded), nil
	}
	return a.withMeta(), nil
}

// learn remembers which node's agent a connection belongs to, after another
// server accepted the agent's call and thereby its secret.
func (s *Server) learn(c RPC, in any) {
	if region := regionAsked(in); s.Proved == nil || region != "" && region != s.Region {
		return
	}
	switch in := in.(type) {
	case *op.RegisterNode:
		if in.Node != nil {
			s.Proved(in.Node.ID, c)
		}
	case *op.BeatNode:
		s.Proved(in.NodeID, c)
	}
}

// answered is the answer to an operation: a value, or, from another server, the
// value encoded for the caller.
type answered struct {
	op.Meta
	value   any         // nil if encoded is set
	encoded []byte      // JSON, or MessagePack for an agent
	list    *listAnswer // that encoded is of; nil: it is of no shared list
	indexed bool        // the index is sent though it is 0: nothing was ever there
	status  int         // of HTTP; 0 is 200
	large   bool        // it comes as a stream
}

// withMeta returns the value, with its metadata set if it has a field for it.
func (a *answered) withMeta() any {
	if v, ok := a.value.(interface{ Of() *op.Meta }); ok {
		*v.Of() = a.Meta
	}
	return a.value
}

// do answers an operation, here or on the server that place chooses. asRPC is
// true for answers to agents.
func (s *Server) do(ctx context.Context, x *operation, who Caller, in any, asRPC bool) (a *answered, err error) {
	err = s.place(ctx, x, in, func(ctx context.Context, conn peer.Conn, scope op.Scope) error {
		if conn == nil {
			a, err = x.here(ctx, who, in, asRPC)
			if err == nil && asRPC && !x.info.IsRead() {
				a.KnownLeader = true
			}
			return err
		}
		r, err := s.forward(x, who, in, scope)
		if err != nil {
			return err
		}
		// The far end encodes for the caller, so that the answer passes through
		// here as bytes.
		r.RPC = asRPC
		got, err := conn.Forward(ctx, r)
		if got != nil && s.inOwnRegion(in) { // a refusal shows something, too
			who.sees(got.Index)
		}
		if err != nil {
			return err
		}
		a = &answered{Meta: got.Meta, encoded: got.Body, indexed: x.indexed(in), large: got.Large}
		if got.Also {
			a.status = x.info.Also
		}
		return nil
	})
	return a, err
}

// indexed reports whether the answer always has an index: that of a query.
func (x *operation) indexed(in any) bool { return x.info.IsRead() && queryOf(in) != nil }

// here answers an operation on this server. asRPC is true for answers to agents.
func (x *operation) here(ctx context.Context, who Caller, in any, asRPC bool) (*answered, error) {
	if x.shared != nil && !asRPC {
		a, err := x.shared(ctx, who, in)
		if err == nil {
			a.indexed = true
		}
		return a, err
	}
	out, m, err := x.run(ctx, who, in)
	if err != nil {
		return nil, err
	}
	a := &answered{Meta: m, value: out, indexed: x.indexed(in)}
	if other, ok := out.(interface{ Also() bool }); ok && other.Also() {
		a.status = x.info.Also
	}
	return a, nil
}

// doStream answers with a stream, here or on the server that place chooses. The
// stream of an ordinary operation is its JSON.
func (s *Server) doStream(ctx context.Context, x *operation, who Caller, in any, e *exchange) error {
	return s.place(ctx, x, in, func(ctx context.Context, conn peer.Conn, scope op.Scope) error {
		switch {
		case conn == nil && x.stream != nil:
			return x.stream(ctx, who, in, e)
		case conn == nil:
			a, err := x.here(ctx, who, in, false)
			if err == nil {
				s.reply(e.w, e.view, a)
			}
			return err
		}
		return s.passStream(ctx, x, conn, who, in, scope, e)
	})
}

// passStream copies the stream that another server answers with.
func (s *Server) passStream(ctx context.Context, x *operation, conn peer.Conn, who Caller, in any, scope op.Scope, e *exchange) error {
	r, err := s.forward(x, who, in, scope)
	if err != nil {
		return err
	}
	r.View = e.view
	from, err := conn.Stream(ctx, r, e.body)
	if up, ok := e.body.(*upload); ok && up.began && peer.NothingDone(err) {
		return errUploadLost // the rest of the body is of no use to another server
	}
	if err != nil {
		return err
	}
	defer from.Close()
	// Nothing was sent until here, so an error could still become a status.
	if index, err := strconv.ParseUint(http.Header(from.Header).Get(op.HeaderIndex), 10, 64); err == nil && s.inOwnRegion(in) {
		who.sees(index)
	}
	maps.Copy(e.w.Header(), from.Header)
	e.w.WriteHeader(from.Status)
	out := http.NewResponseController(e.w)
	// Each piece is flushed as it comes: the stream may pause for long.
	b := make([]byte, 64<<10)
	for out.Flush() == nil {
		n, err := from.Read(b)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return berth.Errorf(berth.Unavailable, "the stream broke off: %w", err)
		}
		out.SetWriteDeadline(time.Now().Add(writeTimeout))
		if _, err := e.w.Write(b[:n]); err != nil {
			return berth.Errorf(berth.Unavailable, "the caller stopped reading: %w", err)
		}
	}
	return nil
}

// forward returns the request for another server.
func (s *Server) forward(x *operation, who Caller, in any, scope op.Scope) (*op.Forwarded, error) {
	arg, err := msgpack.Append(nil, in)
	if err != nil {
		return nil, berth.Errorf(berth.Invalid, "%s: %w", x.info.Name, err)
	}
	r := &op.Forwarded{Name: x.info.Name, In: arg, Scope: scope, Remote: who.Remote}
	if s.inOwnRegion(in) {
		r.Seen = who.seen()
	}
	return r, nil
}

// Forwarded answers an operation that another server or an agent forwards. Agents
// may only forward operations that have an HTTP path.
func (s *Server) Forwarded(ctx context.Context, r *op.Forwarded, agent bool) *op.Answer {
	a, err := s.forwarded(ctx, r, agent)
	if err != nil {
		return &op.Answer{Meta: op.Meta{Index: s.Store.Snapshot().Index}, Failure: peer.FailureOf(err)}
	}
	return a
}

// maxAnswer is the size above which servers send the answer to a read as a
// stream, because messages have a size limit.
const maxAnswer = 32 << 20

// forwarded answers as Forwarded does, with an error that the other server gets
// as a Failure.
func (s *Server) forwarded(ctx context.Context, r *op.Forwarded, agent bool) (*op.Answer, error) {
	share := s.intake.share(r.Remote)
	defer share.end()
	// What agents call for themselves must not wait behind users.
	if x := s.operations[r.Name]; x != nil && !x.info.IsRead() && !r.RPC {
		if err := share.decoding(ctx, x.info, int64(len(r.In))); err != nil {
			return nil, err
		}
	}
	x, who, in, err := s.received(r, agent)
	if err != nil {
		return nil, err
	}
	if x.run == nil {
		return nil, berth.Errorf(berth.Invalid, "%s is a stream", r.Name)
	}
	done, err := s.auditForwarded(ctx, x, who, in, agent)
	if err != nil {
		return nil, err
	}
	a, err := s.do(context.WithValue(ctx, scopeKey{}, r.Scope), x, who, in, r.RPC)
	done(err)
	if err != nil {
		return nil, err
	}
	out := &op.Answer{Meta: a.Meta, Body: a.encoded, Also: a.status != 0, Large: a.large}
	switch {
	case out.Body != nil || out.Large:
	case r.RPC:
		out.Body, err = msgpack.Append(nil, a.withMeta())
	default:
		out.Body, err = encodeJSON(a.value)
	}
	if len(out.Body) > maxAnswer && x.info.IsRead() && !r.RPC {
		out.Body, out.Large = nil, true
	}
	return out, err
}

// ForwardedStream is Forwarded for streams. It returns an error if nothing has
// been sent, or if the stream broke off.
func (s *Server) ForwardedStream(ctx context.Context, r *op.Forwarded, agent bool, w http.ResponseWriter, body io.Reader) error {
	x, who, in, err := s.received(r, agent)
	if err != nil {
		return err
	}
	done, err := s.auditForwarded(ctx, x, who, in, agent)
	if err != nil {
		return err
	}
	err = s.doStream(context.WithValue(ctx, scopeKey{}, r.Scope), x, who, in, &exchange{w, r.View, body})
	done(err)
	return err
}

// received returns the forwarded operation, its caller and its input. The input
// must pass the same checks as one decoded from an HTTP request.
func (s *Server) received(r *op.Forwarded, agent bool) (*operation, Caller, any, error) {
	x := s.operations[r.Name]
	if x == nil || agent && x.info.Path == "" {
		return nil, Caller{}, nil, berth.Errorf(berth.Invalid, "unknown operation %.64q: the server that forwards it runs another build", r.Name)
	}
	if most := x.info.MaxBody + MaxHeader; agent && int64(len(r.In)) > 2*most {
		return nil, Caller{}, nil, berth.Errorf(berth.TooLarge, "the body is larger than %d bytes", x.info.MaxBody)
	}
	in := x.input()
	if err := msgpack.Decode(r.In, in); err != nil {
		return nil, Caller{}, nil, berth.Errorf(berth.Invalid, "%s: %w", r.Name, err)
	}
	if q := queryOf(in); q != nil {
		q.PerPage, q.MaxQueryTime = max(0, min(q.PerPage, op.MaxPage)), max(0, q.MaxQueryTime)
	}
	for part := range strings.SplitSeq(x.info.Path, "/") {
		if named(part) && reflect.ValueOf(in).Elem().FieldByName(strings.Trim(part, "{}")).IsZero() {
			return nil, Caller{}, nil, berth.Errorf(berth.Invalid, "%s: %s is missing", r.Name, part)
		}
	}
	who := Caller{Token: tokenOf(in), Remote: r.Remote, Progress: new(atomic.Uint64)}
	who.sees(r.Seen)
	return x, who, in, nil
}

// encodeJSON returns the JSON of a value, as the API sends it.
func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return b.Bytes(), err
}

// viewOf returns the format that a request asks for.
func viewOf(r *http.Request) op.View {
	return op.View{
		Pretty: strings.Contains(r.URL.RawQuery, "pretty") && query(r).Has("pretty"),
		Gzip:   strings.Contains(r.Header.Get("Accept-Encoding"), "gzip"),
		Head:   r.Method == http.MethodHead,
	}
}

// watched is a ResponseWriter that records whether anything was written.
type watched struct {
	http.ResponseWriter
	yes bool // something was written
}

// WriteHeader implements http.ResponseWriter.
func (w *watched) WriteHeader(status int) {
	w.yes = true
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *watched) Write(b []byte) (int, error) {
	w.yes = true
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w *watched) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Package wire speaks the protocol between agents and servers on one TCP port:
// RPC, streaming RPC, and yamux sessions over which either end calls the
// other. It is the protocol of Nomad's client agents, so that they can join.
//
// It guarantees: memory grows only with the bytes that have arrived, up to a
// limit; every call has a deadline, blocking queries included; a peer that is
// slow, silent or never reads is dropped; no goroutine outlives the Serve or the
// Session it belongs to. It does not check tokens, which handlers do, nor open a
// broken session again, which agents do.
//
// The first byte of a connection selects the protocol: 0x01 one RPC stream; 0x05
// one streaming RPC; 0x06 a yamux session, each stream of which begins with 0x01
// or 0x05; 0x02 Raft, which is handed over unread; 0x03 TLS, inside which another
// first byte follows. 0x43 is our own: without TLS, a server announces itself
// with it, which lifts the limits for strangers; another first byte follows.
//
// The role of the far end, [Peer.Role], decides which methods it may call. With
// TLS the role comes from its certificate alone. Without TLS nothing is checked:
// everyone who reaches the port may do what servers may, so the network has to
// keep others out.
package wire

import (
	"cmp"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"berth"
	"berth/internal/msgpack"
	"berth/internal/throttle"
	"berth/internal/wire/certs"
)

// The first bytes.
const (
	firstRPC    = 0x01
	firstRaft   = 0x02
	firstTLS    = 0x03
	firstStream = 0x05
	firstMux    = 0x06
	firstServer = 0x43
)

// Role is what a peer is: server, client or both. See [Peer.Role].
type Role = certs.Role

// The roles.
const (
	RoleNone    = certs.None
	RoleClient  = certs.Client
	RoleServer  = certs.Server
	RoleForeign = certs.Foreign
)

// Limits of frames. What a server reads is bounded by S-27; what it sends, and
// an agent reads from the server it chose, may hold many jobs.
const (
	MaxFrame  = 8 << 20
	MaxReply  = 64 << 20
	maxHeader = 4 << 10
)

// Config sets the limits of a Server. The zero value suits a production server.
type Config struct {
	Log        *slog.Logger   // nil: slog.Default
	MaxConns   int            // from one client address at a time (an IPv6 /64 is one); 0: 100
	MaxTotal   int            // from all client addresses together; 0: no limit
	MaxCalls   int            // of one method at a time, without those that wait; 0: 16384. See [Server.Limit] and [Idle].
	Handshake  time.Duration  // from the connection to the first whole request, or the first bytes of yamux; 0: 5 s
	CallTime   time.Duration  // for a call, beyond what its query may wait; 0: 60 s
	FrameTime  time.Duration  // for a frame that has begun to arrive, and for each piece of one to be taken; 0: 30 s
	fullTime   time.Duration  // until a full session must have a stream for a call; 0: 10 s
	retireTime time.Duration  // that a retired session must be idle before it ends; 0: 5 s
	Once       []msgpack.Memo // what answers hold again and again

	Region  string      // whose servers and agents these are; "": global
	TLS     *tls.Config // what follows byte 0x03, which must ask for certificates and check them; nil: refused
	OnlyTLS bool        // refuse connections without TLS
	Unnamed bool        // treat a certificate that names no role as a server's

	// Raft takes over connections of servers of the region that begin with byte
	// 0x02, and must close them. This package does not limit their bytes. Raft
	// must return at once. nil: such connections are refused.
	Raft func(conn net.Conn, p *Peer)
}

// fill sets the defaults of fields that are zero.
func (c *Config) fill() {
	c.Log = cmp.Or(c.Log, slog.Default())
	c.MaxConns = cmp.Or(c.MaxConns, 100)
	c.MaxCalls = cmp.Or(c.MaxCalls, 16384)
	c.Handshake = cmp.Or(c.Handshake, 5*time.Second)
	c.CallTime = cmp.Or(c.CallTime, 60*time.Second)
	c.fullTime = cmp.Or(c.fullTime, 10*time.Second)
	c.retireTime = cmp.Or(c.retireTime, 5*time.Second)
	c.FrameTime = cmp.Or(c.FrameTime, 30*time.Second)
	c.Region = cmp.Or(c.Region, "global")
}

// Until a handler has called Peer.Remember, a peer has lower limits for the
// streams that its session may have open at a time and for the bytes of an
// argument.
const (
	streamsStranger = 32
	streamsKnown    = 512
	argStranger     = 1 << 20
)

// A Handler answers one method. The context ends when the caller is gone or the
// time is up, and the handler must return then. An error is sent with its text
// and kind.
type Handler func(ctx context.Context, c *Call) (reply any, err error)

// A StreamHandler serves one streaming method. Its first Send, or returning nil,
// accepts the stream; an error before that refuses it; a later error ends it. The
// stream is closed when the handler returns.
type StreamHandler func(ctx context.Context, c *Call, s *Stream) error

// Call is one request.
type Call struct {
	Method string // its name, for logs
	Peer   *Peer
	arg    []byte              // encoded; valid until the handler returns
	waits  func(time.Duration) // gives the call more time; nil of a stream, and once it was called
}

// A Waiter is an argument that says how long its call may wait for something
// new; 0 if it does not. The call has that much more time, and ends when its
// caller is gone.
type Waiter interface{ Wait() time.Duration }

// Decode reads the argument into in, a pointer to a struct. Unknown keys are
// ignored. The handler must not call it after it has returned. If in is a
// [Waiter], its wait is added to the time of the handler's context.
func (c *Call) Decode(in any) error {
	if err := decode(c.arg, in); err != nil {
		return err
	}
	if w, ok := in.(Waiter); ok && c.waits != nil {
		if d := w.Wait(); d > 0 {
			c.waits(d)
			c.waits = nil
		}
	}
	return nil
}

// Remote returns the address of the caller.
func (c *Call) Remote() string { return c.Peer.Addr.String() }

// Progress is the newest state index that was answered on the caller's
// connection. The handler that answers keeps it.
func (c *Call) Progress() *atomic.Uint64 { return &c.Peer.progress }

// Peer is the far end of a connection.
type Peer struct {
	Addr    net.Addr            // as the connection shows it
	role    Role                // set before the first call
	trusted bool                // a server, by its certificate, or without TLS by its own claim
	session *Session            // nil: the peer opened none
	value   atomic.Pointer[any] // see Remember

	progress atomic.Uint64 // see Call.Progress
}

// Role returns the peer's role, from its certificate. Without TLS every peer is
// both server and client.
func (p *Peer) Role() Role { return p.role }

// Server reports whether the peer may do what servers of this region may.
func (p *Peer) Server() bool { return p.role.Is(RoleServer) }

// known reports whether the limits for strangers are lifted.
func (p *Peer) known() bool { return p.trusted || p.value.Load() != nil }

// Session returns the peer's session, over which it can be called, or nil if it
// did not open one.
func (p *Peer) Session() *Session { return p.session }

// Remember keeps v, such as a node's proved ID, for the other calls of this
// connection. It also lifts the limits for strangers: 32 streams, and 1 MiB for
// an argument.
func (p *Peer) Remember(v any) { p.value.Store(&v) }

// Value returns what was last remembered, or nil.
func (p *Peer) Value() any {
	if v := p.value.Load(); v != nil {
		return *v
	}
	return nil
}

// Server holds the methods that a far end may call. Add them before serving.
type Server struct {
	cfg     Config
	codec   *msgpack.Codec
	methods map[string]*method // RPC, by name
	streams map[string]*method // streaming, by name
	guests  guests             // who is connected
	warn    *throttle.Log      // logs what peers did wrong
}

// method is one method with its limits: handle is set of an RPC, stream of a
// streaming one.
type method struct {
	name      string
	allowed   Role // one of these is enough
	handle    Handler
	stream    StreamHandler
	maxCalls  int64        // in progress at a time
	maxArg    int          // bytes
	inProcess atomic.Int64 // calls in progress
}

// limitFor returns the largest argument that the peer may send, in bytes. m is
// nil for an unknown method.
func limitFor(m *method, p *Peer) int {
	switch {
	case m == nil:
		return argStranger
	case !p.known():
		return min(m.maxArg, argStranger)
	}
	return m.maxArg
}

// New returns a Server without methods.
func New(cfg Config) *Server {
	cfg.fill()
	return &Server{
		cfg:     cfg,
		codec:   msgpack.NewProtocol(cfg.Once...),
		methods: map[string]*method{},
		streams: map[string]*method{},
		guests:  guests{most: cfg.MaxTotal},
		warn:    throttle.New(cfg.Log, 1),
	}
}

// Handle adds a method that agents and servers of this region may call, such
// as "Node.Register".
func (s *Server) Handle(name string, h Handler) {
	s.methods[name] = s.method(name, RoleClient|RoleServer)
	s.methods[name].handle = h
}

// HandleServers adds a method that only servers of this region may call.
func (s *Server) HandleServers(name string, h Handler) {
	s.methods[name] = s.method(name, RoleServer)
	s.methods[name].handle = h
}

// HandleStream adds a streaming method that agents and servers of this region may
// call. RPC and streaming methods have separate namespaces.
func (s *Server) HandleStream(name string, h StreamHandler) {
	s.streams[name] = s.method(name, RoleClient|RoleServer)
	s.streams[name].stream = h
}

// HandleStreamServers adds a streaming method that only servers of this region
// may call.
func (s *Server) HandleStreamServers(name string, h StreamHandler) {
	s.streams[name] = s.method(name, RoleServer)
	s.streams[name].stream = h
}

// Serves reports whether there is a method of that name.
func (s *Server) Serves(name string) bool { return s.methods[name] != nil || s.streams[name] != nil }

// method returns a method with the default limits, which has no handler yet.
func (s *Server) method(name string, allowed Role) *method {
	return &method{name: name, allowed: allowed, maxCalls: int64(s.cfg.MaxCalls), maxArg: MaxFrame}
}

// Between also lets servers of other regions call methods that were added.
func (s *Server) Between(names ...string) {
	for _, name := range names {
		for _, m := range []*method{s.methods[name], s.streams[name]} {
			if m != nil {
				m.allowed |= RoleForeign
			}
		}
	}
}

// refuses returns an error if the peer may not call the method.
func (m *method) refuses(p *Peer) error {
	if p.role&m.allowed != 0 {
		return nil
	}
	return berth.Errorf(berth.Denied, "Permission denied")
}

// Limit sets how many calls of a method that was added may be in progress at a
// time, and how many bytes its argument may have, up to MaxFrame; 0 leaves a
// limit as it is.
func (s *Server) Limit(name string, calls, argBytes int) {
	for _, m := range []*method{s.methods[name], s.streams[name]} {
		if m != nil {
			m.maxCalls = cmp.Or(int64(calls), m.maxCalls)
			m.maxArg = min(cmp.Or(argBytes, m.maxArg), MaxFrame)
		}
	}
}

// Package api serves the operations: over HTTP to people and their tools, over
// RPC to agents. What every operation has in common is written once, in read
// and write: decoding, limits, who may do it, blocking, consistency, paging,
// errors and headers. The rest of the package is one file a noun, and each
// handler in it is a function of a snapshot.
package api

import (
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"berth"
	"berth/internal/acl"
	"berth/internal/events"
	"berth/internal/keyring"
	"berth/internal/login"
	"berth/internal/peer"
	"berth/internal/state"
	"berth/op"
)

// Cluster is what the API asks of the server it is part of.
type Cluster interface {
	// Leader returns the log that takes commands now, or an error that wraps
	// state.ErrLost.
	Leader() (Leader, error)
	// Sync returns once this server's store has everything that any server
	// answered before the call. Without a leader it waits up to Hold for one;
	// then the error wraps state.ErrLost. If there is one, but this server's
	// store does not have everything within patience, the error is Behind.
	Sync(ctx context.Context, patience time.Duration) error
	// Address is where this server's RPC port is reached.
	Address() string
}

// Behind is the error of a server whose state lags behind what others have
// answered. The leader answers in its place, if there is one.
type Behind struct {
	Without error // the error to show without a leader
}

// Error implements error.
func (b Behind) Error() string { return b.Without.Error() }

// Unwrap returns the error to show without a leader.
func (b Behind) Unwrap() error { return b.Without }

// Leader is the term that the API writes in.
type Leader interface {
	state.Log
	phases
	// Confirm returns nil once a majority has confirmed, after the call, that
	// this server has led without interruption since the term began. The error
	// wraps state.ErrLost or is the context's.
	Confirm(context.Context) error
	// Writable returns why nothing can be written now, though this server leads:
	// its disk hangs, and there is no other server that could lead. nil: it can.
	Writable() error
	// Beat records a heartbeat of a node and returns the time until the next
	// one is due. If the node is being given up it first waits until that is in
	// the state. The error is the context's.
	Beat(context.Context, berth.NodeID) (time.Duration, error)
	// RenewLock gives a lock on a variable its full time again. It returns false
	// if the lock is not held any more.
	RenewLock(berth.VariableKey, berth.LockID) bool
	// Turn takes in how an allocation stands whose templates restart it in turn,
	// one of the Turn constants of op, and answers whether it has its turn.
	Turn(id berth.AllocID, how string) op.TurnAnswer
}

// phases is what the leader knows about evaluations beyond their rows.
type phases interface {
	// Quasi returns where an open evaluation is in the queues; its row does not
	// say.
	Quasi(berth.EvalID) (status string, t berth.Timeline)
	// Acked returns when the worker of an evaluation that ended said that it is
	// done, ns since 1970; 0 if that is not known.
	Acked(berth.EvalID) int64
}

// Config is what a Server serves with.
type Config struct {
	Store   *state.Store // what reads are answered from
	Cluster Cluster      // who leads
	// Peers are the other servers; nil: there are none, ever.
	Peers  Peers
	Region string // of this server; requests for another are passed on
	// Authority is the region that decides about what all regions have in common,
	// such as policies and namespaces; "": each region does for itself.
	Authority string
	Logger    *slog.Logger
	// Rand is where random IDs come from; nil: from the operating system.
	Rand io.Reader
	// Authorize reports whether a caller may do something; nil: everybody may do
	// everything, as in a cluster without access control.
	Authorize func(Caller, acl.Capability, string) error
	// ACL decides by the tokens and policies of Store, instead of Authorize and
	// Rights.
	ACL bool
	// MinTokenTTL and MaxTokenTTL bound how long tokens that expire are valid; 0
	// is a minute and a day.
	MinTokenTTL, MaxTokenTTL time.Duration
	// ResetIndex returns the index in the file that allows another bootstrap of
	// access control, 0 if there is no such file; nil: there never is one.
	ResetIndex func() uint64
	// Rights names what a caller may see: callers with equal names get the same
	// lists, made once. The name is another after the rights of a caller changed.
	// nil: it is the caller's token and address, unless Authorize is nil.
	Rights func(Caller) string
	// Proved is called when a caller has proved that it is a node's agent, so
	// that it can be called back over the same connection.
	Proved func(berth.NodeID, RPC)
	// Agents calls the agents of nodes; nil: there is no way to any.
	Agents Agents
	// Node returns the node of this agent; nil: it is none.
	Node func() berth.NodeID
	// Self describes this agent, for /v1/agent/self.
	Self func() op.AgentSelf
	// Health returns the health of this agent's server and client.
	Health func() op.AgentHealth
	// Events is the source of the event stream; nil: there is none.
	Events *events.Buffer
	// Operator is this server's part in the cluster; nil: it has none.
	Operator Operator
	// Members is the gossip of this server; nil: it does not gossip.
	Members Members
	// Servers is where the node in this agent looks for servers; nil: there is
	// no node in it.
	Servers ServerList
	// Keyring unwraps the root keys; nil: there is none.
	Keyring *keyring.Ring
	// Issuer is who issues identities, an address that tools of OpenID Connect
	// find this API at; "": they cannot.
	Issuer string
	// Audit is the audit log; nil: there is none.
	Audit *Audit
	// TokenWrites and NamespaceWrites are how many writes a second one token may
	// make, and all in one namespace; TokenFailures is how many wrong tokens one
	// address may show at once. 0 is no limit. They count with access control only.
	TokenWrites, NamespaceWrites, TokenFailures int
	// Introductions is whether new nodes must be introduced.
	Introductions Introductions
	// Metrics serves /v1/metrics; nil: there are none.
	Metrics MetricsSource
	// Schedulers are the workers of this server; nil: there are none.
	Schedulers SchedulerSource
	// Diagnostics looks into the process of this agent; nil: nothing does.
	Diagnostics Diagnostics
	// Search bounds fuzzy searches, and Jobs what is taken of jobs.
	Search SearchLimits
	Jobs   JobLimits
}

// Caller is who makes a request.
type Caller struct {
	Token  string // the secret that came with the request; "" if none did
	Remote string // address, for counting
	Conn   RPC    // the call, if an agent makes it
	// Progress is the newest state index of this region that was answered on the
	// caller's connection, which no later answer may be older than; nil: nothing
	// is known of the connection.
	Progress *atomic.Uint64
}

// Server answers requests from a store, and writes through the leader's log.
type Server struct {
	Config
	guard      *guard           // nil without access control
	providers  *login.Providers // of auth methods
	loggingIn  chan struct{}    // holds one for each login in progress
	routes     routes
	operations map[string]*operation // by name
	rpc        map[string]rpcHandler // by the name that agents call
	served     map[string]bool       // names of operations that have a handler

	self *self // in an agent that is not a server; else nil
	// server returns a connection to a server, in an agent that is not a server;
	// else nil.
	server func(context.Context) (peer.Conn, error)

	tokenWrites, namespaceWrites *buckets
	who                          whoKnown // in an agent that is not a server

	admission admission  // writes of users that wait for the log
	intake    *intake    // requests with a body in progress
	lists     lists      // that callers share
	waiting   waiting    // blocking queries and streams in progress
	hashing   sync.Mutex // held while a state is hashed: one at a time is enough work
}

// New returns a server of every operation.
func New(c Config) *Server {
	s := empty(c)
	s.all()
	return s
}

// all registers every operation.
func (s *Server) all() {
	s.jobs()
	s.versions()
	s.scaling()
	s.evals()
	s.explanations()
	s.deployments()
	s.allocs()
	s.nodes()
	s.nodeIdentities()
	s.hosts()
	s.pools()
	s.namespaces()
	s.quotas()
	s.access()
	s.replicas()
	s.logins()
	s.services()
	s.hostVolumes()
	s.csiVolumes()
	s.disks()
	s.variables()
	s.rootKeys()
	s.identities()
	s.templates()
	s.turns()
	s.resources()
	s.streams()
	s.agent()
	s.members()
	s.servers(s.Servers)
	s.system()
	s.operator()
	s.raft()
	s.autopilot()
	s.snapshots()
	s.searches()
	s.diagnostics()
	s.maintenance()
	s.events()
	s.ui()
	s.whatIf()
}

// empty returns a server of no operation yet.
func empty(c Config) *Server {
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Rand == nil {
		c.Rand = rand.Reader
	}
	var g *guard
	if c.ACL {
		g = &guard{store: c.Store, guesses: newGuesses(c.TokenFailures)}
		c.Authorize, c.Rights = g.authorize, g.name
	}
	if c.Authorize == nil {
		c.Authorize = func(Caller, acl.Capability, string) error { return nil }
		c.Rights = func(Caller) string { return "" }
	}
	if c.Rights == nil {
		c.Rights = func(c Caller) string { return c.Token + "\x00" + c.Remote }
	}
	s := &Server{
		Config: c, guard: g, providers: login.New(c.Logger), loggingIn: make(chan struct{}, maxLogins), operations: map[string]*operation{}, rpc: map[string]rpcHandler{}, served: map[string]bool{},
		waiting: waiting{count: map[string]int{}}, intake: newIntake(),
		tokenWrites: perSecond(c.TokenWrites), namespaceWrites: perSecond(c.NamespaceWrites),
	}
	s.lists.init()
	return s
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w, r, a := s.auditing(w, r)
	defer func() { a.finish(w, r) }()
	defer s.rescue(w, r)
	h, values, err := s.routes.match(r)
	if err != nil {
		if refused := a.receive(r.Context(), nil, nil, token(r)); refused != nil {
			err = refused
		} else if refusedByName(w, r) {
			return
		}
		a.failed(err)
		s.fail(w, err)
		return
	}
	h(w, r, values)
}

// rescue answers a request whose handler panicked, and logs the panic: net/http
// would only cut the connection.
func (s *Server) rescue(w http.ResponseWriter, r *http.Request) {
	switch p := recover(); p {
	case nil:
	case http.ErrAbortHandler: // not a bug: this is how a failed stream is ended
		panic(p)
	default:
		s.Logger.Error("a handler panicked", "method", r.Method, "path", r.URL.Path, "panic", p, "stack", string(debug.Stack()))
		s.fail(w, berth.Errorf("", "internal error: see the log of this agent"))
	}
}

// Served returns the names of the operations that have a handler.
func (s *Server) Served() map[string]bool { return s.served }

// read registers an operation that is a function of a snapshot.
func read[In, Out any](s *Server, o op.Op[In, Out], f func(*Read, *In) (Out, error)) *operation {
	return add(s, o, func(ctx context.Context, who Caller, in *In) (Out, op.Meta, error) {
		q := queryOf(in)
		if q == nil {
			q = &op.Query{}
		}
		return answer(ctx, s, o.Info, who, q, func(r *Read) (Out, error) { return f(r, in) })
	})
}

// local does a write on this server. If this server does not lead, or its term
// ended before anything was proposed, the error is a *termOver: nothing
// happened, and another server may be asked. Anything else is the answer. It
// leaves its input as it is, so it may be called again with the same.
type local[In, Out any] func(ctx context.Context, who Caller, opts *op.Write, in *In) (out Out, index uint64, err error)

// write registers an operation that becomes commands.
func write[In, Out any](s *Server, o op.Op[In, Out], f func(*Write, *In) (Change[Out], error)) {
	onLeader(s, o, func(ctx context.Context, who Caller, opts *op.Write, in *In) (Out, uint64, error) {
		return runWrite(ctx, s, o.Info, who, opts, in, f)
	})
}

// onLeader registers an operation that the leader does.
func onLeader[In, Out any](s *Server, o op.Op[In, Out], do local[In, Out]) {
	add(s, o, func(ctx context.Context, who Caller, in *In) (Out, op.Meta, error) {
		opts := writeOf(in)
		if opts == nil {
			opts = &op.Write{}
		}
		out, index, err := do(ctx, who, opts, in)
		return out, op.Meta{Index: index}, err
	})
}

// RPC is one call of an agent.
type RPC interface {
	// Decode reads the argument into in, a pointer.
	Decode(in any) error
	// Remote returns the address of the agent.
	Remote() string
	// Progress is that of the agent's connection; see Caller.
	Progress() *atomic.Uint64
}

// rpcHandler answers one call of an agent. It decodes the input itself.
type rpcHandler func(ctx context.Context, c RPC) (any, error)

// RPC returns the handlers of what agents call, by name.
func (s *Server) RPC() map[string]func(context.Context, RPC) (any, error) {
	out := make(map[string]func(context.Context, RPC) (any, error), len(s.rpc))
	for name, h := range s.rpc {
		out[name] = h
	}
	return out
}

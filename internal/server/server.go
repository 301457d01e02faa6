// Package server puts one server together: the state and the log that changes
// it, the services of the leader, and the HTTP and RPC entry points for people
// and agents. It owns every goroutine of the server, and Run returns when all of
// them have ended.
package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"berth"
	"berth/internal/acl"
	"berth/internal/api"
	"berth/internal/claim"
	"berth/internal/consensus"
	"berth/internal/events"
	"berth/internal/keyring"
	"berth/internal/leader"
	"berth/internal/leader/collector"
	"berth/internal/leader/heartbeat"
	"berth/internal/leader/planner"
	"berth/internal/leader/rotate"
	"berth/internal/msgpack"
	"berth/internal/state"
	"berth/internal/traces"
	"berth/internal/wire"
	"berth/internal/worker"
	"berth/op"

	autopilot "github.com/hashicorp/raft-autopilot"
	"golang.org/x/sync/errgroup"
)

// Config configures a server.
type Config struct {
	Region     string        // whose log this server shares
	Datacenter string        // of this machine
	DataDir    string        // the folder for everything durable
	Folder     *Folder       // DataDir, already locked; New takes it over; nil: New locks it
	RPC        net.Listener  // where agents call
	Advertise  string        // address given to agents; "" is the listener's address
	MaxConns   int           // per client address; 0 is the default
	MaxTotal   int           // connections of all client addresses; 0: no limit
	Handshake  time.Duration // time for a connection to choose its protocol; 0 is the default
	TLS        TLS           // for the RPC port and for calls to other servers
	// Workers is the number of workers while this server leads; 0: a quarter of
	// the processors, at least one; NoWorkers: none.
	Workers int
	// FollowerWorkers is the number of workers while another server leads; 0: one
	// for each processor; NoWorkers: none.
	FollowerWorkers int
	Schedulers      []string            // the job types that workers decide; nil is worker.Types
	Heartbeat       heartbeat.Options   // zero: the default
	Collect         collector.Options   // when rows are collected; zero: the default
	Logger          *slog.Logger        // nil: slog.Default
	Self            func() op.AgentSelf // describes this agent; nil: it has no name
	Health          func() op.AgentHealth
	LocalHost       HostSource                                     // the machine of that node; nil without a node
	LocalAgent      LocalAgent                                     // answers what servers ask of that node's agent; nil without a node
	LocalNode       func() berth.NodeID                            // called only if one of the three above is set
	LocalServers    api.ServerList                                 // the servers that this machine's node knows
	Authorize       func(api.Caller, acl.Capability, string) error // see api.Config
	ACL             bool                                           // decide by tokens and policies instead
	MinTokenTTL     time.Duration                                  // see api.Config
	MaxTokenTTL     time.Duration                                  // see api.Config
	ResetIndex      func() uint64                                  // see api.Config
	Authority       Authority                                      // the authoritative region; zero: each region decides for itself
	Consensus       consensus.Config                               // the operator's settings for it; zero fields are defaults
	Events          events.Limits                                  // limits of the event buffer; zero is the default
	// Cluster connects this server to others; nil: it runs alone, permanently.
	Cluster   *Cluster
	Scheduler *berth.SchedulerConfig // initial configuration of a new cluster's scheduler; nil is the default
	// Autopilot is the initial autopilot configuration of a new cluster; nil is
	// the default.
	Autopilot *berth.AutopilotConfig
	// TrackedVersions is how many versions of each job are kept, besides tagged
	// ones, while this server leads; 0 is the default.
	TrackedVersions int
	// Keyring unwraps the root keys; nil: one with its keys in files in DataDir.
	Keyring *keyring.Ring
	// Wrapping are the wrapping keys that servers get from each other; nil: they
	// get none.
	Wrapping   *keyring.Files
	Issuer     string // who issues identities; "": no name is known
	Search     api.SearchLimits
	Jobs       api.JobLimits
	Rejection  planner.Tracker // of nodes that refuse placements; zero: planner.DefaultTracker
	NoEvents   bool            // serve no stream of events
	KeyAges    rotate.Ages     // when root keys are replaced and removed; zero: never
	KeepTokens time.Duration   // how long tokens are kept after they have expired
	LostClaims time.Duration   // how long a node is down before its claims on CSI volumes are given up; 0 is claims.DefaultLost
	// API sets what only the HTTP API needs; nil: nothing.
	API     func(*api.Config)
	Metrics MetricsFilter // which metrics there are
	// Traces gets spans of what happens while this server leads. The caller runs it.
	// nil: there are none.
	Traces *traces.Exporter
	// Diagnostics looks into this process; nil: nothing does.
	Diagnostics api.Diagnostics
	Faults      Faults // empty except in builds with fault points
}

// TLS configures how servers and agents authenticate each other. The zero value
// is no TLS.
type TLS struct {
	Accept  *tls.Config // for incoming connections
	Dial    *tls.Config // for outgoing connections
	Only    bool        // refuse calls without TLS
	Unnamed bool        // treat a certificate that names no role as a server's
}

// NoWorkers, in Config, turns workers off: other servers decide evaluations.
const NoWorkers = -1

// Server is one server.
type Server struct {
	config    Config // with its defaults filled in
	store     *state.Store
	consensus *consensus.Server // the log
	api       *api.Server
	wire      *wire.Server         // the RPC port
	term      atomic.Pointer[term] // nil: this server does not lead
	sessions  sessions             // of agents
	faults    faults
	metrics   *metrics
	refused   leader.Refusals // counts for metrics
	events    *events.Buffer
	workers   worker.Registry // what each worker does now
	pool      *worker.Pool    // runs the workers, for this server's term or for another leader
	started   time.Time       // for the uptime

	// Only used with Config.Cluster:

	id          string     // in Raft and gossip
	folder      *Folder    // Run closes it
	links       links      // to other servers
	layer       *raftLayer // nil if Raft has a transport of its own
	leading     *leading
	reads       *reads
	outstanding outstanding // evaluations at other servers, in terms of this one
	following   *following
	pilot       atomic.Pointer[autopilot.Autopilot] // nil: this server does not lead
	cluster     state.ClusterID                     // the last one announced to the peers; meet owns it
	tooOld      map[string]bool                     // IDs of servers too old to join, already logged; meet owns it
	joining     joining                             // servers that are being added to the Raft configuration
}

// New opens the data folder and returns a server. Nothing runs yet. The folder
// stays locked until Run returns.
func New(c Config) (*Server, error) {
	c, err := c.complete()
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	s, err := newServer(c)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("server: %w", err), c.Folder.Close())
	}
	return s, nil
}

// complete sets defaults and locks the folder.
func (c Config) complete() (Config, error) {
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	newFaults(&c)
	if c.Heartbeat == (heartbeat.Options{}) {
		c.Heartbeat = heartbeat.DefaultOptions
	}
	if c.Collect == (collector.Options{}) {
		c.Collect = collector.DefaultOptions
	}
	// The leader has other work, so most scheduling is left to the followers.
	if c.Workers == 0 {
		c.Workers = max(1, runtime.NumCPU()/4)
	}
	if c.FollowerWorkers == 0 {
		c.FollowerWorkers = runtime.NumCPU()
	}
	if len(c.Schedulers) == 0 {
		c.Schedulers = worker.Types
	}
	if c.Advertise == "" {
		c.Advertise = c.RPC.Addr().String()
	}
	if c.Keyring == nil {
		c.Wrapping = keyring.NewFiles(filepath.Join(c.DataDir, "keyring"))
		c.Keyring = keyring.New("", c.Wrapping)
	}
	// The lock comes last, so that no error leaves the folder locked.
	var err error
	if c.Folder == nil {
		c.Folder, err = Hold(c.DataDir, claim.ForRestart(c.Logger))
	}
	return c, err
}

// newServer builds the server's parts and opens its log. The order matters:
// what observes the store is there before the log is replayed.
func newServer(c Config) (*Server, error) {
	s := &Server{
		config: c, store: state.New(), started: time.Now(), id: c.Folder.ID, folder: c.Folder,
		leading: newLeading(), reads: newReads(), following: newFollowing(),
		pool: worker.NewPool(worker.Settings{Leading: max(0, c.Workers), Following: max(0, c.FollowerWorkers), Types: c.Schedulers}),
	}
	s.events = events.New(s.store, c.Events) // before anything is applied
	wired := wire.Config{
		Log: c.Logger, MaxConns: c.MaxConns, MaxTotal: c.MaxTotal, Handshake: c.Handshake, Once: []msgpack.Memo{msgpack.Once[berth.Job]()},
		Region: c.Region, TLS: c.TLS.Accept, OnlyTLS: c.TLS.Only, Unnamed: c.TLS.Unnamed,
	}
	var peers api.Peers
	if c.Cluster != nil {
		peers = s
		wired.Raft = s.takeRaft
	}
	// The log may call other servers through the wire, so it is opened after.
	s.wire = wire.New(wired)
	if err := s.openLog(); err != nil {
		return nil, err
	}
	s.metrics = newMetrics(s)
	served := api.Config{
		Store: s.store, Cluster: s, Peers: peers, Region: c.Region, Authority: c.Authority.Region, Logger: c.Logger, Authorize: c.Authorize, ACL: c.ACL, MinTokenTTL: c.MinTokenTTL, MaxTokenTTL: c.MaxTokenTTL, ResetIndex: c.ResetIndex, Proved: s.authenticated,
		Agents: s, Node: c.ownNode(), Self: c.Self, Health: c.Health, Metrics: s.metrics, Schedulers: s, Events: s.shownEvents(), Operator: s, Keyring: c.Keyring, Issuer: c.Issuer, Members: c.members(), Servers: c.LocalServers, Search: c.Search, Jobs: c.Jobs, Diagnostics: c.Diagnostics,
	}
	if c.API != nil {
		c.API(&served)
	}
	s.api = api.New(served)
	// Methods are added before Run, since serving does not lock them.
	for name, h := range s.api.RPC() {
		handle := s.wire.Handle
		if name == op.ListReplica.RPC || name == op.ReadReplica.RPC {
			handle = s.wire.HandleServers
		}
		handle(name, func(ctx context.Context, call *wire.Call) (any, error) { return h(ctx, call) })
	}
	s.handleForwards()
	s.handleServers()
	s.handleKeyring()
	return s, nil
}

// shownEvents are the events that the API shows, nil if it shows none.
func (s *Server) shownEvents() *events.Buffer {
	if s.config.NoEvents {
		return nil
	}
	return s.events
}

// ownNode returns what names the node of this process, nil if it has none.
func (c *Config) ownNode() func() berth.NodeID {
	if c.LocalAgent == nil {
		return nil
	}
	return c.LocalNode
}

// Handler returns the HTTP handler.
func (s *Server) Handler() *api.Server { return s.api }

// Metrics returns the metrics that the handler serves.
func (s *Server) Metrics() api.MetricsSource { return s.metrics }

// Served returns the names of the operations that have a handler, over HTTP or
// RPC.
func (s *Server) Served() []string {
	served := maps.Clone(s.api.Served())
	for _, i := range op.All() {
		if i.RPC != "" && s.wire.Serves(i.RPC) {
			served[i.Name] = true
		}
	}
	return slices.Sorted(maps.Keys(served))
}

// Store returns the server's state, for other parts of the same process.
func (s *Server) Store() *state.Store { return s.store }

// Run serves until ctx ends or the listener or the log fails.
func (s *Server) Run(ctx context.Context) error {
	defer s.folder.Close()
	g, ctx := errgroup.WithContext(ctx)
	defer s.faults.open(ctx)()
	g.Go(func() error { return s.consensus.Run(ctx, s.lead) })
	g.Go(func() error { return s.events.Run(ctx) })
	if s.config.Traces != nil {
		g.Go(func() error { return s.traceAllocs(ctx) })
	}
	g.Go(func() error { return s.watchLeader(ctx) })
	g.Go(func() error {
		err := s.wire.Serve(ctx, s.config.RPC)
		if err == nil {
			err = ctx.Err()
		}
		return err
	})
	if s.config.Cluster != nil {
		defer s.links.close()
		for _, run := range []func(context.Context) error{s.answerReads, s.joinCluster, s.follow, s.fetchWrapping} {
			g.Go(func() error { return run(ctx) })
		}
		defer context.AfterFunc(ctx, s.links.close)() // ends calls that wait for another server
	}
	return g.Wait()
}

// Leader implements api.Cluster.
func (s *Server) Leader() (api.Leader, error) {
	if t := s.term.Load(); t != nil {
		return t, nil
	}
	return nil, s.noLeader()
}

// Address implements api.Cluster.
func (s *Server) Address() string { return s.config.Advertise }

// Leads reports whether this server is the leader.
func (s *Server) Leads() bool { return s.term.Load() != nil }

// sessions holds the connections over which agents can be called back, by node.
type sessions struct {
	mu     sync.Mutex
	byNode map[berth.NodeID]*wire.Session
	node   map[*wire.Session]berth.NodeID // the last that each session proved
}

// authenticated remembers the connection of a node whose agent has authenticated.
func (s *Server) authenticated(id berth.NodeID, c api.RPC) {
	// Calls that another server forwards have no connection of the agent's own.
	call, ok := c.(*wire.Call)
	if !ok {
		return
	}
	call.Peer.Remember(id)
	// An agent that opened a bare stream cannot be called back.
	sess := call.Peer.Session()
	if sess == nil {
		return
	}
	s.sessions.keep(id, sess)
}

// keep remembers the session of a node, until the session ends or the node has
// another. Two agents with one identity, as on a cloned disk, may take turns.
func (s *sessions) keep(id berth.NodeID, sess *wire.Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byNode == nil {
		s.byNode, s.node = map[berth.NodeID]*wire.Session{}, map[*wire.Session]berth.NodeID{}
	}
	before, known := s.node[sess]
	if known && before != id {
		s.forget(sess)
	}
	s.byNode[id], s.node[sess] = sess, id
	if known {
		return
	}
	go func() { // one for each session; ends with it, and that with wire.Serve
		<-sess.Done()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.forget(sess)
	}()
}

// forget removes a session. The caller holds the lock.
func (s *sessions) forget(sess *wire.Session) {
	if id := s.node[sess]; s.byNode[id] == sess {
		delete(s.byNode, id)
	}
	delete(s.node, sess)
}

// of returns the session of a node's agent with this server, nil if it is not
// connected here.
func (s *sessions) of(id berth.NodeID) *wire.Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byNode[id]
}

// ID returns the server's ID in Raft and gossip.
func (s *Server) ID() string { return s.id }

// Stats returns statistics of the log.
func (s *Server) Stats() consensus.Stats { return s.consensus.Stats() }

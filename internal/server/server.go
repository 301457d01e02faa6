// Package server makes one server out of the floors below it: the state and
// the log that changes it, the services of the leader, and the doors through
// which people and agents come in. It owns every goroutine of the server, and
// Run returns when all of them have ended.
package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
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
	"berth/internal/leader"
	"berth/internal/leader/collector"
	"berth/internal/leader/heartbeat"
	"berth/internal/msgpack"
	"berth/internal/state"
	"berth/internal/wire"
	"berth/internal/worker"
	"berth/op"

	autopilot "github.com/hashicorp/raft-autopilot"
	"golang.org/x/sync/errgroup"
)

// Config says how a server is.
type Config struct {
	Region     string
	Datacenter string
	DataDir    string        // the folder for everything durable
	Folder     *Folder       // the same, held, which New takes over; nil: New holds it
	RPC        net.Listener  // where agents call
	Advertise  string        // where agents are told to call; "" is the listener's address
	MaxConns   int           // of one agent's address; 0 is the default
	Handshake  time.Duration // until a connection must have said what it is; 0 is the default
	TLS        TLS           // of the RPC port, and of calls to other servers
	// Workers is how many decide evaluations while this server leads; 0: a
	// quarter of the processors, at least one; NoWorkers: none.
	Workers int
	// FollowerWorkers is how many do while another server leads; 0: one for each
	// processor; NoWorkers: none.
	FollowerWorkers int
	Schedulers      []string // the types that they decide; nil is worker.Types
	Heartbeat       heartbeat.Options
	Collect         collector.Options
	Logger          *slog.Logger
	Self            func() op.AgentSelf
	Health          func() op.AgentHealth
	Local           api.LogStreamer // reads the logs of tasks on this machine's own node, nil if there is none
	LocalTasks      api.TaskControl // restarts and signals those tasks, nil if there are none
	LocalNode       func() berth.NodeID
	LocalServers    api.ServerList // where that node looks for servers
	Authorize       func(api.Caller, acl.Capability, string) error
	Consensus       consensus.Config // what an operator chooses of it; zero fields are defaults
	Events          events.Limits    // of what is kept for the event stream; zero is the default
	// Cluster is how this server is one of several; nil: it is alone for ever.
	Cluster   *Cluster
	Scheduler *berth.SchedulerConfig // how a cluster of which no operator ever said it is scheduled; nil is the default
	// Autopilot is how a cluster looks after its servers of which no operator
	// ever said it; nil is the default.
	Autopilot *berth.AutopilotConfig
	// TrackedVersions is how many versions of each job are kept beside those with
	// a tag, while this server leads; 0 is the default.
	TrackedVersions int
	Faults          Faults // empty, but for builds with fault points
}

// TLS is how servers and agents prove who they are to each other. The zero
// value is none at all.
type TLS struct {
	Accept  *tls.Config // of those who call
	Dial    *tls.Config // of those who are called
	Only    bool        // whether calls without TLS are refused
	Unnamed bool        // whether a certificate that names no role is a server's
}

// NoWorkers is for Config: others decide evaluations.
const NoWorkers = -1

// Server is one server.
type Server struct {
	config    Config
	store     *state.Store
	consensus *consensus.Server
	api       *api.Server
	wire      *wire.Server
	term      atomic.Pointer[term]
	sessions  sessions
	faults    faults
	metrics   *metrics
	refused   leader.Refusals
	events    *events.Buffer
	workers   worker.Registry
	crew      *worker.Pool
	started   time.Time

	// Of a server that is one of several:

	id        string
	folder    *Folder
	links     links
	layer     *raftLayer // nil if Raft does not speak over the one port
	leading   *leading
	reads     *reads
	handed    handed
	following *following
	pilot     atomic.Pointer[autopilot.Autopilot]
	cluster   state.ClusterID // as the others were told; meet owns it
	lagging   map[string]bool // IDs of servers that are not taken in, of which it was told; meet owns it
}

// New opens what is on disk and makes a server of it. Nothing runs yet, and the
// folder is held until Run has returned.
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

// complete fills in what is not said, and holds the folder.
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
	var err error
	if c.Folder == nil {
		c.Folder, err = Hold(c.DataDir, claim.ForRestart(c.Logger))
	}
	return c, err
}

func newServer(c Config) (*Server, error) {
	s := &Server{
		config: c, store: state.New(), started: time.Now(), id: c.Folder.ID, folder: c.Folder,
		leading: newLeading(), reads: newReads(), following: newFollowing(),
		crew: worker.NewPool(worker.Settings{Leading: max(0, c.Workers), Following: max(0, c.FollowerWorkers), Types: c.Schedulers}),
	}
	s.events = events.New(s.store, c.Events) // before anything is applied
	wired := wire.Config{
		Log: c.Logger, MaxConns: c.MaxConns, Handshake: c.Handshake, Once: []msgpack.Memo{msgpack.Once[berth.Job]()},
		Region: c.Region, TLS: c.TLS.Accept, OnlyTLS: c.TLS.Only, Unnamed: c.TLS.Unnamed,
	}
	var peers api.Peers
	if c.Cluster != nil {
		peers = s
		wired.Raft = s.takeRaft
	}
	s.wire = wire.New(wired)
	if err := s.agree(); err != nil {
		return nil, err
	}
	s.metrics = newMetrics(s)
	s.api = api.New(api.Config{
		Store: s.store, Cluster: s, Peers: peers, Region: c.Region, Logger: c.Logger, Authorize: c.Authorize, Proved: s.proved,
		Logs: s, Tasks: s, Self: c.Self, Health: c.Health, Metrics: s.metrics, Schedulers: s, Events: s.events, Operator: s, Members: c.members(), Servers: c.LocalServers,
	})
	for name, h := range s.api.RPC() {
		s.wire.Handle(name, func(ctx context.Context, call *wire.Call) (any, error) { return h(ctx, call) })
	}
	s.handleForwards()
	s.handleServers()
	return s, nil
}

// Handler answers HTTP.
func (s *Server) Handler() http.Handler { return s.api }

// Served returns the names of the operations that have a handler, in HTTP or on
// the wire.
func (s *Server) Served() []string {
	served := maps.Clone(s.api.Served())
	for _, i := range op.All() {
		if i.RPC != "" && s.wire.Serves(i.RPC) {
			served[i.Name] = true
		}
	}
	return slices.Sorted(maps.Keys(served))
}

// Store is the server's state, for those that run beside it in its process.
func (s *Server) Store() *state.Store { return s.store }

// Run serves until ctx ends or something it needs is lost.
func (s *Server) Run(ctx context.Context) error {
	defer s.folder.Close()
	g, ctx := errgroup.WithContext(ctx)
	defer s.faults.open(ctx)()
	g.Go(func() error { return s.consensus.Run(ctx, s.lead) })
	g.Go(func() error { return s.events.Run(ctx) })
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
		for _, run := range []func(context.Context) error{s.answerReads, s.meet, s.follow} {
			g.Go(func() error { return run(ctx) })
		}
		defer context.AfterFunc(ctx, s.links.close)() // who waits for another server ends
	}
	return g.Wait()
}

// Leader implements api.Cluster.
func (s *Server) Leader() (api.Leader, error) {
	if t := s.term.Load(); t != nil {
		return t, nil
	}
	return nil, state.ErrLost
}

// Address implements api.Cluster.
func (s *Server) Address() string { return s.config.Advertise }

// Leads says whether this server leads now.
func (s *Server) Leads() bool { return s.term.Load() != nil }

// sessions are the connections over which agents can be called back, by node.
type sessions struct {
	mu     sync.Mutex
	byNode map[berth.NodeID]*wire.Session
}

// proved remembers over which connection a node is reached.
func (s *Server) proved(id berth.NodeID, c api.RPC) {
	call, ok := c.(*wire.Call)
	if !ok {
		return
	}
	call.Peer.Remember(id)
	sess := call.Peer.Session()
	if sess == nil {
		return
	}
	s.sessions.mu.Lock()
	defer s.sessions.mu.Unlock()
	if s.sessions.byNode == nil {
		s.sessions.byNode = map[berth.NodeID]*wire.Session{}
	}
	if s.sessions.byNode[id] == sess {
		return
	}
	s.sessions.byNode[id] = sess
	go func() { // ends with the session, which ends with wire.Serve
		<-sess.Done()
		s.sessions.mu.Lock()
		defer s.sessions.mu.Unlock()
		if s.sessions.byNode[id] == sess {
			delete(s.sessions.byNode, id)
		}
	}()
}

func (s *sessions) of(id berth.NodeID) *wire.Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byNode[id]
}

// ID is what consensus and gossip know this server by.
func (s *Server) ID() string { return s.id }

// Stats returns figures of the log.
func (s *Server) Stats() consensus.Stats { return s.consensus.Stats() }

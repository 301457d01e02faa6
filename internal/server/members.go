package server

import (
	"cmp"
	"context"
	"net"
	"slices"
	"time"

	"berth"
	"berth/internal/consensus"
	"berth/internal/durable"
	"berth/internal/gossip"
	"berth/internal/peer"
	"berth/internal/rest"
	"berth/internal/wire"
	"berth/op"

	"github.com/hashicorp/raft"
)

// Cluster configures a server that works with others.
type Cluster struct {
	// Members are the servers that gossip knows.
	Members Members
	// NonVoter keeps this server from ever voting.
	NonVoter bool
	// Expect is the number of servers that form a new cluster (bootstrap_expect).
	// 1: this server bootstraps alone; 0: it only joins an existing cluster.
	Expect int
	// Connect replaces the network, for tests; nil is TCP.
	Connect func(ctx context.Context, addr string) (net.Conn, error)
	// Transport replaces the RPC port for Raft, for tests.
	Transport raft.Transport
	Timing    consensus.Timing // zero: the timing of Config.Consensus
}

// openLog opens the log and the state on disk.
func (s *Server) openLog() (err error) {
	c := s.config.Consensus
	c.Dir, c.ID, c.Logger = s.config.DataDir, s.id, s.config.Logger
	cluster := s.config.Cluster
	if cluster != nil {
		c.Allow, c.Mixed, c.Exchange = s.allow, s.mixedVersions, s.exchangeBallots
		s.links.dialer = wire.Dialer{Handlers: s.wire, TLS: s.config.TLS.Dial, Server: true, Connect: cluster.Connect}
		s.links.region = s.regionOf
		c.Transport = cluster.Transport
		if cluster.Timing != (consensus.Timing{}) {
			c.Timing = cluster.Timing
		}
		// Raft shares the RPC port, so that servers need one port only.
		if c.Transport == nil {
			s.layer = newRaftLayer(s.links.dialer, s.config.Advertise)
			c.Transport = consensus.NewTransport(s.layer, s.config.Logger)
		}
	}
	// Opening replays the snapshot and the log into the store.
	if s.consensus, err = consensus.Open(c, s.store); err != nil {
		return err
	}
	if cluster != nil && cluster.Expect == 1 && !cluster.NonVoter && !s.consensus.Bootstrapped() {
		return s.consensus.Bootstrap([]consensus.Peer{{ID: s.id, Address: s.config.Advertise, Voter: true}})
	}
	return nil
}

// takeRaft takes over a Raft connection that another server opened.
func (s *Server) takeRaft(conn net.Conn, p *wire.Peer) {
	if s.layer == nil {
		conn.Close()
		return
	}
	s.layer.enqueue(conn, p)
}

// handleServers registers the methods that only servers may call.
func (s *Server) handleServers() {
	if s.config.Cluster == nil {
		return
	}
	peer.Handle(s.wire, op.ReadIndex, func(ctx context.Context, _ *wire.Call, _ *op.Nothing) (*op.Safe, error) {
		if s.term.Load() == nil {
			return nil, peer.ErrNotLeader
		}
		index, err := s.consensus.ReadIndex(ctx)
		return &op.Safe{Index: index}, err
	})
	peer.Handle(s.wire, op.ReadBootstrap, s.bootstrapStatus)
	peer.Handle(s.wire, op.ReadLogPosition, func(context.Context, *wire.Call, *op.Nothing) (*op.LogPosition, error) {
		return s.logPosition(), nil
	})
	peer.Handle(s.wire, op.ExchangeBallots, func(_ context.Context, _ *wire.Call, theirs *op.Ballot) (*op.Ballot, error) {
		own := s.consensus.Exchange(*theirs)
		return &own, nil
	})
	s.handleWorkers()
	s.handleRelays()
}

// exchangeBallots passes this server's ballot to another one and returns that
// server's.
func (s *Server) exchangeBallots(ctx context.Context, with consensus.Peer, own op.Ballot) (op.Ballot, error) {
	theirs, err := op.Call(ctx, caller{s, with.Address}, op.ExchangeBallots, &own)
	if err != nil {
		return op.Ballot{}, err
	}
	return *theirs, nil
}

// bootstrapEvery is how often a server that waits for a cluster asks its peers,
// even without news from gossip.
const bootstrapEvery = time.Second

// joinCluster forms a cluster with the other servers once all of them see each
// other. While this server leads, it also adds servers that join and removes
// those that leave. It runs until ctx ends.
func (s *Server) joinCluster(ctx context.Context) error {
	tick := time.NewTicker(bootstrapEvery)
	defer tick.Stop()
	for {
		s.announceCluster()
		if !s.consensus.Bootstrapped() {
			s.bootstrap(ctx)
		}
		s.reconcile(ctx)
		select {
		case <-s.config.Cluster.Members.Changed():
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// announceCluster announces this server's cluster ID once its state has one, and
// writes the ID to disk: after a restart, gossip starts long before the state is
// loaded.
func (s *Server) announceCluster() {
	id := s.store.Snapshot().Cluster
	if id.IsZero() || id == s.cluster {
		return
	}
	err := durable.Replace(clusterFile(s.config.DataDir), []byte(id.String()+"\n"))
	if err == nil {
		err = s.config.Cluster.Members.SetCluster(id.String())
	}
	if err != nil {
		s.config.Logger.Error("cannot announce the cluster ID to other servers", "cluster", id, "error", err)
		return
	}
	s.cluster = id
}

// founders returns the servers that would form a new cluster: Expect live voters
// that all have the same Expect. It returns nil if there are too few.
func (s *Server) founders() (out []gossip.Member) {
	// All servers must come to the same list, so it is sorted by ID and cut to
	// Expect.
	n := s.config.Cluster.Expect
	for _, m := range s.alive(s.config.Region) {
		switch {
		case m.Expect == n && m.Voter:
			out = append(out, m)
		case m.Expect != 0 && m.Expect != n:
			s.config.Logger.Error("no cluster is formed: servers disagree on server.bootstrap_expect", "this", n, "other", m.Expect, "name", m.Name)
			return nil
		}
	}
	slices.SortFunc(out, func(a, b gossip.Member) int { return cmp.Compare(a.ID, b.ID) })
	if n < 1 || len(out) < n {
		return nil
	}
	return out[:n]
}

// founderIDs returns the IDs of servers, in their order, which founders fixes.
func founderIDs(list []gossip.Member) (ids []string) {
	for _, m := range list {
		ids = append(ids, m.ID)
	}
	return ids
}

// bootstrap forms a cluster if all founders see the same founders and none of
// them knows of an existing cluster.
func (s *Server) bootstrap(ctx context.Context) {
	list := s.founders()
	ids := founderIDs(list)
	if !slices.Contains(ids, s.id) {
		return
	}
	var peers []consensus.Peer
	for _, m := range list {
		peers = append(peers, consensus.Peer{ID: m.ID, Address: m.RPC, Voter: true})
	}
	for _, m := range s.alive(s.config.Region) { // also servers that are not founders
		if m.ID == s.id {
			continue
		}
		// A server that is no founder may know of a cluster that the founders
		// do not.
		them, err := s.askBootstrap(ctx, m.RPC)
		founder := slices.Contains(ids, m.ID)
		switch {
		// Without its answer two clusters could form.
		case err != nil && founder:
			s.config.Logger.Info("cannot ask a server whether a cluster exists", "name", m.Name, "error", err)
			return
		case err != nil:
		case (founder || them.Bootstrapped) && !slices.Equal(them.Founders, ids):
			return // it does not see all founders yet, or a cluster exists, whose leader adds this server
		}
	}
	if err := s.consensus.Bootstrap(peers); err != nil {
		if berth.KindOf(err) != berth.Conflict {
			s.config.Logger.Error("cannot form a cluster", "error", err)
		}
		return
	}
	s.config.Logger.Info("a cluster was formed", "servers", len(peers))
}

// askBootstrap returns what the server at an address knows about a cluster.
func (s *Server) askBootstrap(ctx context.Context, addr string) (*op.BootstrapStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	return op.Call(ctx, caller{s, addr}, op.ReadBootstrap, &op.Nothing{})
}

// bootstrapStatus answers another server that asks whether a cluster exists,
// and which founders this server sees.
func (s *Server) bootstrapStatus(context.Context, *wire.Call, *op.Nothing) (*op.BootstrapStatus, error) {
	out := &op.BootstrapStatus{ID: s.id, Bootstrapped: s.consensus.Bootstrapped()}
	peers, err := s.consensus.Peers()
	if err != nil {
		return nil, err
	}
	for _, p := range peers {
		out.Peers = append(out.Peers, p.ID)
	}
	if !out.Bootstrapped {
		out.Founders = founderIDs(s.founders())
	} else if s.store.Snapshot().Term == 0 { // the other founders may not have bootstrapped yet
		out.Founders = out.Peers
	}
	return out, nil
}

// changeTimeout bounds one change of the Raft configuration.
const changeTimeout = 10 * time.Second

// reconcile updates the Raft configuration to the gossip members, if this server
// leads. Failed servers are left to autopilot.
func (s *Server) reconcile(ctx context.Context) {
	t := s.term.Load()
	if t == nil {
		return
	}
	peers, err := s.consensus.Peers()
	if err != nil {
		return
	}
	known := map[string]consensus.Peer{}
	for _, p := range peers {
		known[p.ID] = p
	}
	alive := s.alive(s.config.Region)
	s.joining.keep(func(id string) bool {
		_, member := known[id]
		return !member && slices.ContainsFunc(alive, func(m gossip.Member) bool { return m.ID == id })
	})
	for _, m := range s.config.Cluster.Members.Members() {
		if m.Region != s.config.Region || m.ID == "" {
			continue
		}
		p, member := known[m.ID]
		now := consensus.Peer{ID: m.ID, Address: m.RPC}
		switch {
		case m.Status == gossip.Alive && m.RPC != "" && !member && s.previousID(m, peers) != "":
			// It lost its data. Its old ID must stop counting: the new one has
			// neither the votes nor the log entries that the old one
			// acknowledged.
			was := s.previousID(m, peers)
			s.changeRaft(ctx, "a server came back without its data; its old ID is removed", m.Name, func(ctx context.Context) error { return s.consensus.Remove(ctx, was) })
		case m.Status == gossip.Alive && m.RPC != "" && !member && s.tooOldToJoin(t, m):
		case m.Status == gossip.Alive && m.RPC != "" && !member:
			s.changeRaft(ctx, "a server joins", m.Name, func(ctx context.Context) error { return s.consensus.AddNonvoter(ctx, now) })
		case m.Status == gossip.Alive && m.RPC != "" && p.Address != m.RPC:
			change := s.consensus.AddNonvoter
			if p.Voter {
				change = s.consensus.AddVoter
			}
			s.changeRaft(ctx, "a server has another address", m.Name, func(ctx context.Context) error { return change(ctx, now) })
		case m.Status == gossip.Left && member && m.ID != s.id && !s.renamed(m):
			s.changeRaft(ctx, "a server left", m.Name, func(ctx context.Context) error { return s.consensus.Remove(ctx, m.ID) })
		}
	}
}

// previousID returns the old ID of a server that came back with a new one: the ID
// that Raft has for the same address, if it belongs to no live server; else "".
func (s *Server) previousID(m gossip.Member, peers []consensus.Peer) string {
	for _, p := range peers {
		alive := slices.ContainsFunc(s.alive(s.config.Region), func(o gossip.Member) bool { return o.ID == p.ID })
		if p.Address == m.RPC && p.ID != m.ID && p.ID != s.id && !alive {
			return p.ID
		}
	}
	return ""
}

// renamed reports whether a server that left is alive under another name.
func (s *Server) renamed(left gossip.Member) bool {
	return slices.ContainsFunc(s.alive(s.config.Region), func(m gossip.Member) bool { return m.ID == left.ID })
}

// changeRaft makes one change of the Raft configuration and logs it under what.
// A failed change is only logged: reconcile tries again.
func (s *Server) changeRaft(ctx context.Context, what, name string, change func(context.Context) error) {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	if err := change(ctx); err != nil {
		s.config.Logger.Warn(what+", but the Raft configuration could not be changed", "name", name, "error", err)
		return
	}
	s.config.Logger.Info(what, "name", name)
}

// Transfer hands leadership to another up-to-date server. It fails unless this
// server leads.
func (s *Server) Transfer(ctx context.Context) error { return s.consensus.Transfer(ctx, "") }

// leaveTimeout is the timeout of each step of leaving.
const leaveTimeout = 5 * time.Second

// HandOver transfers leadership, if this server leads and has peers, so that the
// cluster need not wait for an election timeout. Call it while Run is running,
// before stopping Run.
func (s *Server) HandOver(ctx context.Context) {
	if s.config.Cluster == nil || !s.consensus.Leader() {
		return
	}
	if peers, err := s.consensus.Peers(); err != nil || len(peers) < 2 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	if err := s.consensus.Transfer(ctx, ""); err != nil {
		s.config.Logger.Warn("cannot hand over leadership", "error", err)
	}
}

// Leave removes this server from the cluster for good: it hands over
// leadership, tells its peers, and waits until the leader has removed it. Call
// it while Run is running, before stopping Run.
func (s *Server) Leave(ctx context.Context) error {
	if s.config.Cluster == nil {
		return nil
	}
	s.HandOver(ctx)
	peers, err := s.consensus.Peers()
	if err != nil {
		s.config.Logger.Warn("cannot list the servers of the cluster", "error", err)
	}
	// The leader removes this server when gossip tells it of the departure.
	if err := s.config.Cluster.Members.Leave(ctx); err != nil {
		return err
	}
	if len(peers) < 2 {
		return nil
	}
	step, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	for {
		leader := s.leading.current().addr
		if them, err := s.askBootstrap(step, leader); err == nil && !slices.Contains(them.Peers, s.id) {
			return nil
		}
		if rest.For(step, retryPause) != nil {
			return nil // the peers know; they remove it when they can
		}
	}
}

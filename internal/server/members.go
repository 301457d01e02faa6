package server

import (
	"cmp"
	"context"
	"net"
	"slices"
	"time"

	"berth"
	"berth/internal/consensus"
	"berth/internal/gossip"
	"berth/internal/peer"
	"berth/internal/rest"
	"berth/internal/wire"
	"berth/op"

	"github.com/hashicorp/raft"
)

// Cluster says how a server is one of several.
type Cluster struct {
	Members Members
	// NonVoter keeps this server from ever voting.
	NonVoter bool
	// Expect is how many servers make up a new cluster (bootstrap_expect): each
	// waits until it sees so many. 1: this server alone; 0: it joins others.
	Expect int
	// Connect replaces the network, for tests; nil is TCP.
	Connect func(ctx context.Context, addr string) (net.Conn, error)
	// Transport is what Raft speaks over instead of the one port, for tests.
	Transport raft.Transport
	Timing    consensus.Timing
}

// agree opens what is on disk, and this server's part in the log.
func (s *Server) agree() (err error) {
	c := s.config.Consensus
	c.Dir, c.ID, c.Logger = s.config.DataDir, s.id, s.config.Logger
	cluster := s.config.Cluster
	if cluster != nil {
		c.Allow, c.Mixed = s.allow, s.mixed
		s.links.dialer = wire.Dialer{Handlers: s.wire, TLS: s.config.TLS.Dial, Server: true, Connect: cluster.Connect}
		s.links.region = s.regionOf
		c.Transport = cluster.Transport
		if cluster.Timing != (consensus.Timing{}) {
			c.Timing = cluster.Timing
		}
		if c.Transport == nil {
			s.layer = newRaftLayer(s.links.dialer, s.config.Advertise)
			c.Transport = consensus.NewTransport(s.layer, s.config.Logger)
		}
	}
	if s.consensus, err = consensus.Open(c, s.store); err != nil {
		return err
	}
	if cluster != nil && cluster.Expect == 1 && !cluster.NonVoter && !s.consensus.Bootstrapped() {
		return s.consensus.Bootstrap([]consensus.Peer{{ID: s.id, Address: s.config.Advertise, Voter: true}})
	}
	return nil
}

// takeRaft takes over a connection on which another server speaks Raft.
func (s *Server) takeRaft(conn net.Conn, p *wire.Peer) {
	if s.layer == nil {
		conn.Close()
		return
	}
	s.layer.take(conn, p)
}

// handleServers adds what only servers may call.
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
	s.handleWorkers()
	s.handleRelays()
}

// bootstrapEvery is how often a server that waits for a cluster asks the
// others, though gossip has no news.
const bootstrapEvery = time.Second

// meet has this server be part of a cluster: it makes one up with the others
// when all of them see each other, and, while it leads, takes in who comes and
// lets go who leaves.
func (s *Server) meet(ctx context.Context) error {
	tick := time.NewTicker(bootstrapEvery)
	defer tick.Stop()
	for {
		s.tellCluster()
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

// tellCluster tells the others of which cluster this server is part, once its
// state says so, and notes it for the time when it is started again: it meets
// others long before it has its state.
func (s *Server) tellCluster() {
	id := s.store.Snapshot().Cluster
	if id.IsZero() || id == s.cluster {
		return
	}
	err := writeSynced(clusterFile(s.config.DataDir), id.String()+"\n")
	if err == nil {
		err = s.config.Cluster.Members.SetCluster(id.String())
	}
	if err != nil {
		s.config.Logger.Error("the others cannot be told of which cluster this server is part", "cluster", id, "error", err)
		return
	}
	s.cluster = id
}

// founders returns whom this server would make up a cluster with: as many live
// servers as are expected, each of which expects as many.
func (s *Server) founders() (out []gossip.Member) {
	n := s.config.Cluster.Expect
	for _, m := range s.alive(s.config.Region) {
		switch {
		case m.Expect == n && m.Voter:
			out = append(out, m)
		case m.Expect != 0 && m.Expect != n:
			s.config.Logger.Error("servers disagree on server.bootstrap_expect, so they make up no cluster", "this", n, "other", m.Expect, "name", m.Name)
			return nil
		}
	}
	slices.SortFunc(out, func(a, b gossip.Member) int { return cmp.Compare(a.ID, b.ID) })
	if n < 1 || len(out) < n {
		return nil
	}
	return out[:n]
}

func founderIDs(list []gossip.Member) (ids []string) {
	for _, m := range list {
		ids = append(ids, m.ID)
	}
	return ids
}

// bootstrap makes up a cluster if none of those who would be part of it knows
// of another, and all see the same.
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
	for _, m := range s.alive(s.config.Region) { // also those who would be no part of it
		if m.ID == s.id {
			continue
		}
		them, err := s.askBootstrap(ctx, m.RPC)
		founder := slices.Contains(ids, m.ID)
		switch {
		case err != nil && founder:
			s.config.Logger.Info("a server cannot be asked whether there is a cluster", "name", m.Name, "error", err)
			return
		case err != nil:
		case (founder || them.Bootstrapped) && !slices.Equal(them.Founders, ids):
			return // it does not see all of us yet, or there is a cluster, whose leader takes this server in
		}
	}
	if err := s.consensus.Bootstrap(peers); err != nil {
		if berth.KindOf(err) != berth.Conflict {
			s.config.Logger.Error("a cluster could not be made up", "error", err)
		}
		return
	}
	s.config.Logger.Info("a cluster was made up", "servers", len(peers))
}

// askBootstrap asks the server at an address what it knows of a cluster.
func (s *Server) askBootstrap(ctx context.Context, addr string) (*op.BootstrapStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	return op.Call(ctx, caller{s, addr}, op.ReadBootstrap, &op.Nothing{})
}

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
	} else if s.store.Snapshot().Term == 0 { // the others may not have made it up yet
		out.Founders = out.Peers
	}
	return out, nil
}

// changeTime bounds one change of the Raft configuration.
const changeTime = 10 * time.Second

// reconcile has the Raft configuration follow who is there, if this server
// leads. Who failed is for autopilot to judge.
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
	for _, m := range s.config.Cluster.Members.Members() {
		if m.Region != s.config.Region || m.ID == "" {
			continue
		}
		p, member := known[m.ID]
		now := consensus.Peer{ID: m.ID, Address: m.RPC}
		switch {
		case m.Status == gossip.Alive && m.RPC != "" && !member && s.before(m, peers) != "":
			// It lost its data: what it was must not count any more, and its vote
			// and what it acknowledged are not to be had from what it is now.
			was := s.before(m, peers)
			s.changed(ctx, "a server came back without its data, and what it was is removed", m.Name, func(ctx context.Context) error { return s.consensus.Remove(ctx, was) })
		case m.Status == gossip.Alive && m.RPC != "" && !member && s.lags(m):
		case m.Status == gossip.Alive && m.RPC != "" && !member:
			s.changed(ctx, "a server joins", m.Name, func(ctx context.Context) error { return s.consensus.AddNonvoter(ctx, now) })
		case m.Status == gossip.Alive && m.RPC != "" && p.Address != m.RPC:
			change := s.consensus.AddNonvoter
			if p.Voter {
				change = s.consensus.AddVoter
			}
			s.changed(ctx, "a server has another address", m.Name, func(ctx context.Context) error { return change(ctx, now) })
		case m.Status == gossip.Left && member && m.ID != s.id && !s.back(m):
			s.changed(ctx, "a server left", m.Name, func(ctx context.Context) error { return s.consensus.Remove(ctx, m.ID) })
		}
	}
}

// before returns the ID by which Raft knows another server at the address of a
// live one, "" if there is none, or if that one is alive too.
func (s *Server) before(m gossip.Member, peers []consensus.Peer) string {
	for _, p := range peers {
		alive := slices.ContainsFunc(s.alive(s.config.Region), func(o gossip.Member) bool { return o.ID == p.ID })
		if p.Address == m.RPC && p.ID != m.ID && p.ID != s.id && !alive {
			return p.ID
		}
	}
	return ""
}

// back says whether a server that left under one name is there under another.
func (s *Server) back(left gossip.Member) bool {
	return slices.ContainsFunc(s.alive(s.config.Region), func(m gossip.Member) bool { return m.ID == left.ID })
}

func (s *Server) changed(ctx context.Context, what, name string, change func(context.Context) error) {
	ctx, cancel := context.WithTimeout(ctx, changeTime)
	defer cancel()
	if err := change(ctx); err != nil {
		s.config.Logger.Warn(what+", and the Raft configuration could not be changed", "name", name, "error", err)
		return
	}
	s.config.Logger.Info(what, "name", name)
}

// Transfer hands leadership over to another server that is up to date. Only the
// leader can.
func (s *Server) Transfer(ctx context.Context) error { return s.consensus.Transfer(ctx, "") }

// leaveTime bounds each step of leaving.
const leaveTime = 5 * time.Second

// HandOver has another server lead, if this one does and there are others, so
// that nobody has to wait until they miss it. Run must be running; it is to be
// ended then.
func (s *Server) HandOver(ctx context.Context) {
	if s.config.Cluster == nil || !s.consensus.Leader() {
		return
	}
	if peers, err := s.consensus.Peers(); err != nil || len(peers) < 2 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, leaveTime)
	defer cancel()
	if err := s.consensus.Transfer(ctx, ""); err != nil {
		s.config.Logger.Warn("leadership could not be handed over", "error", err)
	}
}

// Leave takes this server out of the cluster for good: another leads, all are
// told, and the leader lets it go. Run must be running; it is to be ended then.
func (s *Server) Leave(ctx context.Context) error {
	if s.config.Cluster == nil {
		return nil
	}
	s.HandOver(ctx)
	peers, err := s.consensus.Peers()
	if err != nil {
		s.config.Logger.Warn("the servers of the cluster are not known", "error", err)
	}
	if err := s.config.Cluster.Members.Leave(ctx); err != nil {
		return err
	}
	if len(peers) < 2 {
		return nil
	}
	step, cancel := context.WithTimeout(ctx, leaveTime)
	defer cancel()
	for {
		leader := s.leading.current().addr
		if them, err := s.askBootstrap(step, leader); err == nil && !slices.Contains(them.Peers, s.id) {
			return nil
		}
		if rest.For(step, retryPause) != nil {
			return nil // the others were told; they let it go when they can
		}
	}
}

package server

import (
	"context"
	"strconv"
	"time"

	"berth/internal/consensus"
	"berth/internal/gossip"
	"berth/op"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	autopilot "github.com/hashicorp/raft-autopilot"
)

// logPosition returns the end of this server's log.
func (s *Server) logPosition() *op.LogPosition {
	last, known := s.consensus.Contact()
	if !known {
		last = max(last, time.Hour) // a server that knows no leader is not healthy
	}
	r := s.consensus.Raft()
	term, _ := strconv.ParseUint(r.Stats()["last_log_term"], 10, 64)
	return &op.LogPosition{LastContact: last, LastTerm: term, LastIndex: r.LastIndex()}
}

// autopilot promotes stable servers to voters and removes dead ones, as the
// configuration in the state says. It runs while this server leads.
func (s *Server) autopilot(ctx context.Context) error {
	pilot := autopilot.New(s.consensus.Raft(), &pilot{s}, autopilot.WithLogger(hclog.NewNullLogger()))
	s.pilot.Store(pilot)
	defer s.pilot.Store(nil)
	pilot.Start(ctx)
	<-ctx.Done()
	<-pilot.Stop()
	return ctx.Err()
}

// pilot connects the autopilot library to a server.
type pilot struct{ server *Server }

// AutopilotConfig implements autopilot.ApplicationIntegration.
func (p *pilot) AutopilotConfig() *autopilot.Config {
	c := p.server.store.Snapshot().AutopilotConfig()
	return &autopilot.Config{
		CleanupDeadServers: c.CleanupDeadServers, LastContactThreshold: c.LastContactThreshold, MaxTrailingLogs: c.MaxTrailingLogs,
		MinQuorum: uint(c.MinQuorum), ServerStabilizationTime: c.ServerStabilizationTime,
	}
}

// NotifyState implements autopilot.ApplicationIntegration.
func (p *pilot) NotifyState(*autopilot.State) {}

// KnownServers implements autopilot.ApplicationIntegration. Raft peers missing
// from gossip count as known: a leader that has just started hears of them late
// and must not take them for dead.
func (p *pilot) KnownServers() map[raft.ServerID]*autopilot.Server {
	s := p.server
	out := map[raft.ServerID]*autopilot.Server{}
	peers, err := s.consensus.Peers()
	if err != nil {
		return nil
	}
	for _, x := range peers {
		out[raft.ServerID(x.ID)] = known(x)
	}
	for _, m := range s.config.Cluster.Members.Members() {
		if m.Region != s.config.Region || m.ID == "" {
			continue
		}
		x := &autopilot.Server{
			ID: raft.ServerID(m.ID), Name: m.Name, Address: raft.ServerAddress(m.RPC), NodeStatus: autopilot.NodeUnknown, Version: m.Build,
			Meta: m.Tags, RaftVersion: 3, NodeType: autopilot.NodeVoter, IsLeader: m.ID == s.id,
		}
		// Servers that do not announce a version have the present one.
		if v, err := strconv.Atoi(m.Tags["raft_vsn"]); err == nil {
			x.RaftVersion = v
		}
		switch m.Status {
		case gossip.Alive, gossip.Leaving:
			x.NodeStatus = autopilot.NodeAlive
		case gossip.Failed:
			x.NodeStatus = autopilot.NodeFailed
		case gossip.Left:
			x.NodeStatus = autopilot.NodeLeft
		}
		if old := out[x.ID]; old != nil && old.Name != "" && old.NodeStatus == autopilot.NodeAlive {
			continue // it is alive under another name
		}
		out[x.ID] = x
	}
	return out
}

// known returns a Raft peer as a live voter, until gossip has something better
// to say of it.
func known(x consensus.Peer) *autopilot.Server {
	return &autopilot.Server{
		ID: raft.ServerID(x.ID), Address: raft.ServerAddress(x.Address), NodeStatus: autopilot.NodeAlive, RaftVersion: 3,
		NodeType: autopilot.NodeVoter, IsLeader: x.Leader,
	}
}

// FetchServerStats implements autopilot.ApplicationIntegration.
func (p *pilot) FetchServerStats(ctx context.Context, servers map[raft.ServerID]*autopilot.Server) map[raft.ServerID]*autopilot.ServerStats {
	type got struct {
		id raft.ServerID
		*op.LogPosition
	}
	// The channel holds all answers, so late ones block nobody.
	answers := make(chan got, len(servers))
	for id, x := range servers {
		go func() { answers <- got{id, p.position(ctx, string(x.ID), string(x.Address))} }() // ends with ctx
	}
	out := map[raft.ServerID]*autopilot.ServerStats{}
	for range servers {
		select {
		case a := <-answers:
			if a.LogPosition != nil {
				out[a.id] = &autopilot.ServerStats{LastContact: a.LastContact, LastTerm: a.LastTerm, LastIndex: a.LastIndex}
			}
		case <-ctx.Done():
			return out
		}
	}
	return out
}

// position returns the end of a server's log, nil if the server does not
// answer. Autopilot takes that for unhealthy.
func (p *pilot) position(ctx context.Context, id, addr string) *op.LogPosition {
	if id == p.server.id {
		return p.server.logPosition()
	}
	out, err := op.Call(ctx, caller{p.server, addr}, op.ReadLogPosition, &op.Nothing{})
	if err != nil {
		return nil
	}
	return out
}

// RemoveFailedServer implements autopilot.ApplicationIntegration: it makes gossip
// forget the server.
func (p *pilot) RemoveFailedServer(x *autopilot.Server) {
	p.server.config.Logger.Warn("a dead server is removed from the cluster", "name", x.Name)
	if m, ok := p.server.config.Cluster.Members.(interface {
		ForceLeave(name string, prune bool) error
	}); ok {
		go func() { // it can take seconds; it ends with gossip
			if err := m.ForceLeave(x.Name, false); err != nil {
				p.server.config.Logger.Warn("cannot remove a dead server from gossip", "name", x.Name, "error", err)
			}
		}()
	}
}

// AutopilotHealth returns autopilot's view of the cluster, nil if this server
// does not lead.
func (s *Server) AutopilotHealth() *autopilot.State {
	if p := s.pilot.Load(); p != nil {
		return p.GetState()
	}
	return nil
}

var _ autopilot.ApplicationIntegration = (*pilot)(nil)

package server

import (
	"context"
	"io"
	"net/http"
	"slices"
	"time"

	"berth"
	"berth/internal/gossip"
	"berth/internal/peer"
	"berth/internal/wire"
	"berth/op"
)

// This file implements api.Peers.

// Contact implements api.Peers.
func (s *Server) Contact() (last time.Duration, known bool) { return s.consensus.Contact() }

// Leading implements api.Peers.
func (s *Server) Leading() string {
	if s.config.Cluster == nil {
		return s.config.Advertise
	}
	_, addr := s.consensus.LeaderAddress()
	return addr
}

// Addresses implements api.Peers.
func (s *Server) Addresses() ([]string, error) {
	list, err := s.consensus.Peers()
	if err != nil {
		return nil, err
	}
	out := make([]string, len(list))
	for i, p := range list {
		out[i] = p.Address
	}
	slices.Sort(out)
	return out, nil
}

// KnowsLeader reports whether this server knows a leader, itself included.
func (s *Server) KnowsLeader() bool {
	if s.config.Cluster == nil {
		return s.Leads()
	}
	_, known := s.consensus.Contact()
	return known
}

// Trouble returns why this server can neither write nor serve consistent reads,
// "" if it can.
func (s *Server) Trouble() string {
	if err := s.consensus.Disagreement(); err != nil {
		return "No cluster leader: " + err.Error()
	}
	if err := s.consensus.DiskError(); err != nil {
		return err.Error()
	}
	if !s.KnowsLeader() {
		return "No cluster leader"
	}
	return ""
}

// RaftStats returns the statistics of the Raft library, under its own names.
func (s *Server) RaftStats() map[string]string { return s.consensus.Raft().Stats() }

// alive returns the live members of a region that have an RPC address.
func (s *Server) alive(region string) (out []gossip.Member) {
	for _, m := range s.config.Cluster.Members.Members() {
		if m.Region == region && m.Status == gossip.Alive && m.RPC != "" {
			out = append(out, m)
		}
	}
	return out
}

// Servers implements api.Peers.
func (s *Server) Servers() (out []op.ServerAddr) {
	for _, m := range s.alive(s.config.Region) {
		out = append(out, op.ServerAddr{RPCAdvertiseAddr: m.RPC, Datacenter: m.Datacenter})
	}
	return out
}

// Regions implements api.Peers.
func (s *Server) Regions() []string {
	out := []string{s.config.Region}
	if s.config.Cluster == nil {
		return out
	}
	for _, m := range s.config.Cluster.Members.Members() {
		if m.Status == gossip.Alive {
			out = append(out, m.Region)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Knows implements api.Peers.
func (s *Server) Knows(region string) bool {
	return region == s.config.Region || s.config.Cluster != nil && slices.ContainsFunc(s.config.Cluster.Members.Members(), func(m gossip.Member) bool {
		return m.Region == region && m.Status != gossip.Left
	})
}

// InRegion implements api.Peers.
func (s *Server) InRegion(name string) (out []string) {
	for _, m := range s.alive(name) {
		out = append(out, m.RPC)
	}
	return out
}

// regionOf returns the region of the server at an address, "" for our own region
// or an unknown server.
func (s *Server) regionOf(addr string) string {
	for _, m := range s.config.Cluster.Members.Members() {
		if m.RPC == addr && m.Region != s.config.Region {
			return m.Region
		}
	}
	return ""
}

// Connect implements api.Peers.
func (s *Server) Connect(ctx context.Context, addr string) (peer.Conn, error) {
	sess, err := s.links.to(ctx, addr)
	if err != nil {
		return nil, err
	}
	return peer.Server(sess), nil
}

// caller calls the server at an address.
type caller struct {
	server *Server
	addr   string
}

// Call implements op.Caller.
func (c caller) Call(ctx context.Context, method string, in, out any) error {
	sess, err := c.server.links.to(ctx, c.addr)
	if err != nil {
		return err
	}
	return sess.Call(ctx, method, in, out)
}

// handleForwards registers the handlers for operations that agents and other
// servers forward.
func (s *Server) handleForwards() {
	peer.Handle(s.wire, op.AgentForward, func(ctx context.Context, c *wire.Call, in *op.Forwarded) (*op.Answer, error) {
		if err := ofAgent(c, in); err != nil {
			return nil, err
		}
		return s.api.Forwarded(ctx, in, true), nil
	})
	peer.HandleStream(s.wire, op.AgentForwardStream, func(ctx context.Context, c *wire.Call, in *op.Forwarded, st *wire.Stream) error {
		if err := ofAgent(c, in); err != nil {
			return err
		}
		return peer.ServeStream(st, func(w http.ResponseWriter, body io.Reader) error {
			return s.api.ForwardedStream(ctx, in, true, w, body)
		})
	})
	peer.HandleStream(s.wire, op.AgentForwardDuplex, func(ctx context.Context, c *wire.Call, in *op.Forwarded, st *wire.Stream) error {
		if err := ofAgent(c, in); err != nil {
			return err
		}
		return s.api.ForwardedDuplex(ctx, in, true, st)
	})
	if s.config.Cluster == nil {
		return
	}
	peer.Handle(s.wire, op.Forward, func(ctx context.Context, c *wire.Call, in *op.Forwarded) (*op.Answer, error) {
		ofServer(c, in)
		return s.api.Forwarded(ctx, in, false), nil
	})
	peer.HandleStream(s.wire, op.ForwardStream, func(ctx context.Context, c *wire.Call, in *op.Forwarded, st *wire.Stream) error {
		ofServer(c, in)
		return peer.ServeStream(st, func(w http.ResponseWriter, body io.Reader) error {
			return s.api.ForwardedStream(ctx, in, false, w, body)
		})
	})
	peer.HandleStream(s.wire, op.ForwardDuplex, func(ctx context.Context, c *wire.Call, in *op.Forwarded, st *wire.Stream) error {
		ofServer(c, in)
		return s.api.ForwardedDuplex(ctx, in, false, st)
	})
	// Regions forward requests to each other, and nothing else.
	s.wire.Between(op.Forward.RPC, op.ForwardStream.RPC, op.ForwardDuplex.RPC)
	// A server forwards for all of its callers, so the limit is far above that
	// of one agent.
	for _, name := range []string{op.Forward.RPC, op.ForwardStream.RPC, op.ForwardDuplex.RPC} {
		s.wire.Limit(name, maxForwards, 0)
	}
}

// maxForwards is the limit of forwarded operations in progress.
const maxForwards = 1 << 16

// ofAgent checks and restricts what an agent forwards. The agent must have proved
// its node, so that the RPC port gives no more access than HTTP. The agent's
// address counts as the caller's.
func ofAgent(c *wire.Call, in *op.Forwarded) error {
	if _, ok := c.Peer.Value().(berth.NodeID); !ok {
		return berth.Errorf(berth.Denied, "Permission denied: this connection has not proved that it is a node's agent")
	}
	in.Scope, in.Remote, in.RPC = op.ScopeAny, c.Remote(), false
	return nil
}

// ofServer restricts what a server forwards. A server of another region cannot
// address this one as the leader.
func ofServer(c *wire.Call, in *op.Forwarded) {
	if !c.Peer.Server() || in.Scope != op.ScopeLeader {
		in.Scope = op.ScopeRegion
	}
}

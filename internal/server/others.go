package server

import (
	"context"
	"fmt"
	"net"
	"slices"
	"time"

	"berth/internal/api"
	"berth/internal/gossip"
	"berth/internal/wire"
	"berth/op"
)

// What the API asks of the other servers: see api.Others.

// Contact implements api.Others.
func (s *Server) Contact() (last time.Duration, known bool) { return s.consensus.Contact() }

// Leading implements api.Others.
func (s *Server) Leading() string {
	if s.config.Cluster == nil {
		return s.config.Advertise
	}
	_, addr := s.consensus.LeaderAddress()
	return addr
}

// Peers implements api.Others.
func (s *Server) Peers() ([]string, error) {
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

// KnowsLeader says whether this server knows of a leader, itself or another.
func (s *Server) KnowsLeader() bool {
	if s.config.Cluster == nil {
		return s.Leads()
	}
	_, known := s.consensus.Contact()
	return known
}

// RaftStats are figures of this server's part in the log, in the words of the
// library.
func (s *Server) RaftStats() map[string]string { return s.consensus.Raft().Stats() }

// alive returns the live members of a region that say where they are reached.
func (s *Server) alive(region string) (out []gossip.Member) {
	for _, m := range s.config.Cluster.Members.Members() {
		if m.Region == region && m.Status == gossip.Alive && m.RPC != "" {
			out = append(out, m)
		}
	}
	return out
}

// Servers implements api.Others.
func (s *Server) Servers() (out []op.ServerAddr) {
	for _, m := range s.alive(s.config.Region) {
		out = append(out, op.ServerAddr{RPCAdvertiseAddr: m.RPC, Datacenter: m.Datacenter})
	}
	return out
}

// Regions implements api.Others.
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

// InRegion implements api.Others.
func (s *Server) InRegion(name string) (out []string) {
	for _, m := range s.alive(name) {
		out = append(out, m.RPC)
	}
	return out
}

// regionOf returns the region of the server at an address, "" if that is the
// own or not known.
func (s *Server) regionOf(addr string) string {
	for _, m := range s.config.Cluster.Members.Members() {
		if m.RPC == addr && m.Region != s.config.Region {
			return m.Region
		}
	}
	return ""
}

// passRPC is the streaming method over which a server passes HTTP requests on
// to another. What they say of where they came from is believed.
const passRPC = "Server.HTTP"

// Dial implements api.Others.
func (s *Server) Dial(ctx context.Context, addr string) (net.Conn, error) {
	sess, err := s.links.to(ctx, addr)
	if err != nil {
		return nil, err
	}
	st, err := sess.Stream(context.WithoutCancel(ctx), passRPC, &op.Nothing{})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", api.ErrUnreached, err)
	}
	return st.Conn(), nil
}

// Call implements api.Others.
func (s *Server) Call(ctx context.Context, addr, method string, c api.RPC) (any, error) {
	sess, err := s.links.to(ctx, addr)
	if err != nil {
		return nil, err
	}
	var in, out wire.Raw
	if err := c.Decode(&in); err != nil {
		return nil, err
	}
	err = sess.Call(ctx, method, in, &out)
	switch {
	case err == nil:
		return out, nil
	case ctx.Err() != nil || ended(sess):
		return nil, fmt.Errorf("%w: %w", api.ErrDropped, err)
	}
	return nil, err
}

package api

import (
	"context"
	"maps"
	"slices"
	"strings"

	"berth"
	"berth/internal/gossip"
	"berth/op"
)

// Members is what the API asks of the gossip of this server.
type Members interface {
	// Members returns all that are known, failed and departed ones included.
	Members() []gossip.Member
	// Join contacts servers and returns how many were reached. It may do so and
	// return an error, too.
	Join(ctx context.Context, addrs []string) (int, error)
	// ForceLeave has a failed server counted as one that left.
	ForceLeave(name string, prune bool) error
	// Keys returns the keys that each server has. InstallKey, UseKey and
	// RemoveKey change them on all servers.
	Keys() (gossip.KeyAnswer, error)
	InstallKey(key string) (gossip.KeyAnswer, error)
	UseKey(key string) (gossip.KeyAnswer, error)
	RemoveKey(key string) (gossip.KeyAnswer, error)
}

// ServerList is where the node in this agent looks for servers.
type ServerList interface {
	// Addrs returns the addresses, and SetAddrs replaces them.
	Addrs() []string
	SetAddrs(addrs []string)
}

// members registers the operations on the gossip of this server and on its
// keys.
func (s *Server) members() {
	read(s, op.ListMembers, s.listMembers)
	act(s, op.Join, s.join)
	act(s, op.LeaveByForce, s.forceLeave)
	read(s, op.ListKeys, func(*Read, *op.Query) (op.Keyring, error) {
		return s.keyring(Members.Keys)
	})
	// The three changes differ in one method only.
	for o, do := range map[op.Op[op.GossipKey, op.Keyring]]func(Members, string) (gossip.KeyAnswer, error){
		op.InstallKey: Members.InstallKey, op.UseKey: Members.UseKey, op.RemoveKey: Members.RemoveKey,
	} {
		act(s, o, func(_ context.Context, in *op.GossipKey) (op.Keyring, error) {
			if in.Key == "" {
				return op.Keyring{}, berth.Errorf(berth.Invalid, "Key: is missing: want a key in base64")
			}
			return s.keyring(func(m Members) (gossip.KeyAnswer, error) { return do(m, in.Key) })
		})
	}
}

// act registers an operation that changes something of this agent, and so
// nothing that is replicated.
func act[In, Out any](s *Server, o op.Op[In, Out], f func(context.Context, *In) (Out, error)) *operation {
	return add(s, o, func(ctx context.Context, who Caller, in *In) (out Out, m op.Meta, err error) {
		opts := writeOf(in)
		if err := s.region(opts.Region); err != nil {
			return out, m, err
		}
		if err := s.allow(o.Info, who, opts.Namespace); err != nil {
			return out, m, err
		}
		out, err = f(ctx, in)
		return out, op.Meta{KnownLeader: true}, err
	})
}

// listMembers returns all servers that gossip, of every region; a server that
// does not gossip returns itself alone.
func (s *Server) listMembers(*Read, *op.Query) (op.Members, error) {
	var self op.AgentMember
	if s.Self != nil {
		self = s.Self().Member
	}
	out := op.Members{ServerName: strings.TrimSuffix(self.Name, "."+s.Region), ServerRegion: s.Region, ServerDC: self.Tags["dc"]}
	if s.Members == nil { // it is alone
		out.Members = []op.AgentMember{self}
		return out, nil
	}
	for _, m := range s.Members.Members() {
		out.Members = append(out.Members, memberView(m))
	}
	return out, nil
}

// memberView is a member as the API shows it. To those who look for servers
// the role is what Nomad's servers have; between servers it is another.
func memberView(m gossip.Member) op.AgentMember {
	tags := maps.Clone(m.Tags)
	if tags["role"] != "" {
		tags["role"] = "nomad"
	}
	return op.AgentMember{
		Name: m.Name, Addr: m.Addr, Port: m.Port, Tags: tags, Status: string(m.Status),
		ProtocolMin: m.ProtocolMin, ProtocolMax: m.ProtocolMax, ProtocolCur: m.ProtocolCur,
		DelegateMin: m.DelegateMin, DelegateMax: m.DelegateMax, DelegateCur: m.DelegateCur,
	}
}

// gossips returns the gossip of this server.
func (s *Server) gossips() (Members, error) {
	if s.Members == nil {
		return nil, berth.Errorf(berth.Invalid, "this server does not gossip: it is the only one")
	}
	return s.Members, nil
}

// maxJoin bounds how many addresses one request may have tried.
const maxJoin = 100

// join has this server gossip with others. The answer counts those that were
// reached; what failed is text beside the count, not an error.
func (s *Server) join(ctx context.Context, in *op.JoinServers) (out op.ServersJoined, err error) {
	if err := addresses(in.Addresses); err != nil {
		return out, err
	}
	m, err := s.gossips()
	if err != nil {
		return out, err
	}
	n, err := m.Join(ctx, in.Addresses)
	out.NumJoined = n
	if err != nil {
		out.Error = err.Error()
	}
	return out, nil
}

// addresses refuses a list of server addresses that is empty, too long, or
// holds something that is not an address.
func addresses(list []string) error {
	switch {
	case len(list) == 0:
		return berth.Errorf(berth.Invalid, "address: is missing: want the address of a server")
	case len(list) > maxJoin:
		return berth.Errorf(berth.Invalid, "address: %d addresses is too many: the limit is %d", len(list), maxJoin)
	}
	for _, a := range list {
		if _, err := gossip.HostPort(a, 1); err != nil {
			return berth.Errorf(berth.Invalid, "address: %w", err)
		}
	}
	return nil
}

// forceLeave has a failed server counted as one that left. With prune it is
// forgotten at once. One that nobody knows has left already.
func (s *Server) forceLeave(_ context.Context, in *op.ForceLeave) (op.Nothing, error) {
	if in.Node == "" {
		return op.Nothing{}, berth.Errorf(berth.Invalid, "node: is missing: want the name of a server")
	}
	if s.Members == nil && s.Self != nil && in.Node != s.Self().Member.Name {
		return op.Nothing{}, nil // it is alone, so nobody knows that server
	}
	m, err := s.gossips()
	if err != nil {
		return op.Nothing{}, err
	}
	if err := m.ForceLeave(in.Node, in.Prune); berth.KindOf(err) != berth.NotFound {
		return op.Nothing{}, err
	}
	return op.Nothing{}, nil
}

// keyring does something to the gossip keys of all servers and returns what
// each has. If some fail, the error holds what they said.
func (s *Server) keyring(do func(Members) (gossip.KeyAnswer, error)) (out op.Keyring, err error) {
	m, err := s.gossips()
	if err != nil {
		return out, err
	}
	a, err := do(m)
	if err != nil && len(a.Messages) > 0 { // some could not do it: their words say why
		var said []string
		for name, text := range a.Messages {
			said = append(said, name+": "+text)
		}
		return out, berth.Errorf(berth.KindOf(err), "%w (%s)", err, strings.Join(slices.Sorted(slices.Values(said)), "; "))
	}
	return op.Keyring{Messages: a.Messages, Keys: a.Keys, PrimaryKeys: a.Primary, NumNodes: a.Nodes}, err
}

// servers serves where the node in this agent looks for servers.
func (s *Server) servers(list ServerList) {
	// The operations exist in every agent; whether it has a node is known only
	// when it is asked.
	missing := func() error {
		if list == nil {
			return berth.Errorf(berth.Invalid, "there is no node in this agent")
		}
		return nil
	}
	read(s, op.AgentServers, func(*Read, *op.Query) ([]string, error) {
		if err := missing(); err != nil {
			return nil, err
		}
		return slices.Sorted(slices.Values(list.Addrs())), nil
	})
	act(s, op.ChangeServers, func(_ context.Context, in *op.SetServers) (op.Nothing, error) {
		err := missing()
		if err == nil {
			err = addresses(in.Addresses)
		}
		if err != nil {
			return op.Nothing{}, err
		}
		// An address without a port gets that of the RPC port. addresses has
		// checked them all.
		addrs := make([]string, len(in.Addresses))
		for i, a := range in.Addresses {
			addrs[i], _ = gossip.HostPort(a, 4647)
		}
		list.SetAddrs(addrs)
		return op.Nothing{}, nil
	})
}

package consensus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"berth"
	"berth/internal/state"

	"github.com/hashicorp/raft"
)

// Peer is a server in the cluster's configuration.
type Peer struct {
	ID, Address string
	Voter       bool // counts for majorities and can lead
	Leader      bool
}

// Bootstrapped reports whether this server knows of a cluster: it has a log or
// a snapshot, or its leader has contacted it.
func (s *Server) Bootstrapped() bool {
	r := s.raft()
	return s.refillUntil.Load() != 0 || r.LastIndex() > 0 || len(r.GetConfiguration().Configuration().Servers) > 0
}

// Bootstrap gives the first configuration to a server that knows of no cluster.
// It may be called on several of the servers in it, if all get the same one.
// The error is berth.Conflict if this server is already part of a cluster.
func (s *Server) Bootstrap(peers []Peer) error {
	if s.Bootstrapped() {
		return berth.Errorf(berth.Conflict, "server %s is already part of a cluster", s.config.ID)
	}
	var c raft.Configuration
	for _, p := range slices.SortedFunc(slices.Values(peers), func(a, b Peer) int { return cmp.Compare(a.ID, b.ID) }) {
		suffrage := raft.Voter
		if !p.Voter {
			suffrage = raft.Nonvoter
		}
		c.Servers = append(c.Servers, raft.Server{ID: raft.ServerID(p.ID), Address: raft.ServerAddress(p.Address), Suffrage: suffrage})
	}
	if err := s.raft().BootstrapCluster(c).Error(); err != nil {
		if errors.Is(err, raft.ErrCantBootstrap) {
			return berth.Errorf(berth.Conflict, "server %s is already part of a cluster", s.config.ID)
		}
		return fmt.Errorf("raft: bootstrap: %w", err)
	}
	s.electAlone()
	return nil
}

// Peers returns the servers of the newest configuration that this server knows,
// sorted by ID.
func (s *Server) Peers() ([]Peer, error) {
	f := s.raft().GetConfiguration()
	if err := f.Error(); err != nil {
		return nil, lost(err)
	}
	_, leader := s.raft().LeaderWithID()
	var out []Peer
	for _, p := range f.Configuration().Servers {
		out = append(out, Peer{string(p.ID), string(p.Address), p.Suffrage == raft.Voter, p.ID == leader})
	}
	slices.SortFunc(out, func(a, b Peer) int { return cmp.Compare(a.ID, b.ID) })
	return out, nil
}

// Member reports whether this server is in the newest configuration that it
// knows, and whether it votes. A server that was removed while it was
// unreachable does not know that; the others ignore it.
func (s *Server) Member() (member, voter bool) {
	for _, p := range s.raft().GetConfiguration().Configuration().Servers {
		if string(p.ID) == s.config.ID {
			return true, p.Suffrage == raft.Voter
		}
	}
	return false, false
}

// alone reports whether this server is the only voter.
func (s *Server) alone() bool {
	voters, self := 0, false
	for _, p := range s.raft().GetConfiguration().Configuration().Servers {
		if p.Suffrage == raft.Voter {
			voters++
			self = self || string(p.ID) == s.config.ID
		}
	}
	return voters == 1 && self
}

// electAlone makes a server that is its own majority lead at once: no other
// could, so there is nothing to wait for.
func (s *Server) electAlone() {
	if s.alone() && s.raft().State() == raft.Follower {
		s.link.elect()
	}
}

// AddVoter makes a server a voter, or corrects its address. It returns once the
// change is committed. On a server that does not lead it returns state.ErrLost.
func (s *Server) AddVoter(ctx context.Context, p Peer) error {
	return s.change(ctx, "add voter "+p.ID, func(r *raft.Raft, timeout time.Duration) raft.IndexFuture {
		return r.AddVoter(raft.ServerID(p.ID), raft.ServerAddress(p.Address), 0, timeout)
	})
}

// AddNonvoter adds a server that receives the log but does not count for
// majorities. A voter remains one.
func (s *Server) AddNonvoter(ctx context.Context, p Peer) error {
	return s.change(ctx, "add non-voter "+p.ID, func(r *raft.Raft, timeout time.Duration) raft.IndexFuture {
		return r.AddNonvoter(raft.ServerID(p.ID), raft.ServerAddress(p.Address), 0, timeout)
	})
}

// Demote makes a voter a non-voter.
func (s *Server) Demote(ctx context.Context, id string) error {
	return s.change(ctx, "demote "+id, func(r *raft.Raft, timeout time.Duration) raft.IndexFuture {
		return r.DemoteVoter(raft.ServerID(id), 0, timeout)
	})
}

// Remove removes a server from the cluster. If it is the leader, it then stops
// leading. For an unknown server the error is berth.NotFound.
func (s *Server) Remove(ctx context.Context, id string) error {
	peers, err := s.Peers()
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(peers, func(p Peer) bool { return p.ID == id }) {
		return berth.Errorf(berth.NotFound, "no server %q in the Raft configuration", id)
	}
	return s.change(ctx, "remove "+id, func(r *raft.Raft, timeout time.Duration) raft.IndexFuture {
		return r.RemoveServer(raft.ServerID(id), 0, timeout)
	})
}

// change proposes a change of the configuration and waits until it is committed.
func (s *Server) change(ctx context.Context, what string, propose func(*raft.Raft, time.Duration) raft.IndexFuture) error {
	r := s.raft()
	if r.State() != raft.Leader {
		return state.ErrLost
	}
	timeout := s.config.Patience
	if d, ok := ctx.Deadline(); ok {
		timeout = max(time.Until(d), time.Millisecond)
	}
	err := await(ctx, func() error { return propose(r, timeout).Error() })
	if err != nil {
		return fmt.Errorf("raft: %s: %w", what, lost(err))
	}
	return nil
}

// Transfer hands leadership to the voter id, or to any voter that is up to date
// if id is "". It returns once this server no longer leads; on an error it
// still leads. Entries already proposed are finished first.
func (s *Server) Transfer(ctx context.Context, id string) error {
	r := s.raft()
	if r.State() != raft.Leader {
		return state.ErrLost
	}
	// Raft accepts any ID, so the server is checked here.
	address := ""
	if id != "" {
		peers, err := s.Peers()
		if err != nil {
			return err
		}
		i := slices.IndexFunc(peers, func(p Peer) bool { return p.ID == id })
		switch {
		case i < 0:
			return berth.Errorf(berth.NotFound, "no server %q in the Raft configuration", id)
		case !peers[i].Voter:
			return berth.Errorf(berth.Invalid, "server %q is not a voter and cannot lead", id)
		case id == s.config.ID:
			return berth.Errorf(berth.Invalid, "server %q is already the leader", id)
		}
		address = peers[i].Address
	}
	err := await(ctx, func() error {
		if id == "" {
			return r.LeadershipTransfer().Error()
		}
		return r.LeadershipTransferToServer(raft.ServerID(id), raft.ServerAddress(address)).Error()
	})
	if err != nil {
		return fmt.Errorf("raft: hand leadership over: %w", err)
	}
	return nil
}

// LeaderAddress returns the leader as far as this server knows, "" if it knows
// none.
func (s *Server) LeaderAddress() (id, address string) {
	a, i := s.raft().LeaderWithID()
	return string(i), string(a)
}

// Leadership returns a channel that holds a token after this server gained or
// lost leadership, or heard of another leader or of none. It has one reader.
func (s *Server) Leadership() <-chan struct{} { return s.leadership }

// observe subscribes to raft's leadership changes. Raft calls observers with
// its locks held, so this one only leaves a token.
func (s *Server) observe(r *raft.Raft) {
	r.RegisterObserver(raft.NewObserver(nil, false, func(o *raft.Observation) bool {
		switch o.Data.(type) {
		case raft.LeaderObservation, raft.RaftState:
			s.signalLeadership()
		}
		return false
	}))
	s.signalLeadership() // for changes before the subscription
}

// signalLeadership wakes the one that waits for a change of leadership. It
// never blocks: signals that were not received yet count as one.
func (s *Server) signalLeadership() {
	select {
	case s.leadership <- struct{}{}:
	default:
	}
}

// Contact returns how long ago this server heard from the leader, 0 on the
// leader itself, and whether it knows a leader. Before the first contact the
// time counts from when the server was opened.
func (s *Server) Contact() (last time.Duration, known bool) {
	r := s.raft()
	if r.State() == raft.Leader {
		return 0, true
	}
	at := r.LastContact()
	if at.IsZero() {
		at = s.opened
	}
	_, id := r.LeaderWithID()
	return time.Since(at), id != ""
}

// Raft returns the raft library's server; only autopilot uses it. After a full
// disk there is a new one.
func (s *Server) Raft() *raft.Raft { return s.raft() }

// await calls f and returns early if ctx ends; f goes on.
func await(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// lost wraps raft's errors about lost leadership in state.ErrLost.
func lost(err error) error {
	for _, e := range []error{
		raft.ErrNotLeader, raft.ErrLeadershipLost, raft.ErrRaftShutdown, raft.ErrLeadershipTransferInProgress, raft.ErrAbortedByRestore,
	} {
		if errors.Is(err, e) {
			return fmt.Errorf("%w: %w", state.ErrLost, err)
		}
	}
	return err
}

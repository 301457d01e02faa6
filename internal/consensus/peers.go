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

// Peer is a server of the cluster, as the log says.
type Peer struct {
	ID, Address string
	Voter       bool // it counts for majorities and can lead
	Leader      bool
}

// Bootstrapped says whether this server knows of a cluster: it has a log, a
// snapshot, or was told of one by its leader.
func (s *Server) Bootstrapped() bool {
	r := s.raft()
	return s.until.Load() != 0 || r.LastIndex() > 0 || len(r.GetConfiguration().Configuration().Servers) > 0
}

// Bootstrap gives a server that knows of no cluster the first configuration.
// Each of the servers in it may be told, if all are told the same. It is
// berth.Conflict if this server is part of a cluster already.
func (s *Server) Bootstrap(peers []Peer) error {
	if s.Bootstrapped() {
		return berth.Errorf(berth.Conflict, "server %s is part of a cluster already", s.config.ID)
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
			return berth.Errorf(berth.Conflict, "server %s is part of a cluster already", s.config.ID)
		}
		return fmt.Errorf("raft: bootstrap: %w", err)
	}
	s.electAlone()
	return nil
}

// Peers returns the servers of the cluster in the newest configuration that
// this server knows of, sorted by ID.
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

// Member says whether the newest configuration that this server knows of has
// it, and whether it votes. A server that was removed while it could not be
// reached does not know: the others ignore it.
func (s *Server) Member() (member, voter bool) {
	for _, p := range s.raft().GetConfiguration().Configuration().Servers {
		if string(p.ID) == s.config.ID {
			return true, p.Suffrage == raft.Voter
		}
	}
	return false, false
}

// alone says whether this server is the only one that votes.
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

// electAlone makes a server that is its own majority lead at once: nobody else
// could, so there is nothing to wait for.
func (s *Server) electAlone() {
	if s.alone() && s.raft().State() == raft.Follower {
		s.link.elect()
	}
}

// AddVoter makes a server a voter, or corrects its address. Only the leader
// can; the others answer with ErrLost. It returns once the change is committed.
func (s *Server) AddVoter(ctx context.Context, p Peer) error {
	return s.change(ctx, "add voter "+p.ID, func(r *raft.Raft, timeout time.Duration) raft.IndexFuture {
		return r.AddVoter(raft.ServerID(p.ID), raft.ServerAddress(p.Address), 0, timeout)
	})
}

// AddNonvoter makes a server one that gets the log and does not count for
// majorities. A voter stays one.
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

// Remove takes a server out of the cluster; the leader, too, which then ceases
// to lead. One that is not there is berth.NotFound.
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

// change proposes a change of the configuration and waits for its end.
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

// Transfer hands leadership over to a voter, to any that is up to date if id is
// "". It returns once this server does not lead any more; if that fails this
// server leads on. What is on its way when it is called is finished first.
func (s *Server) Transfer(ctx context.Context, id string) error {
	r := s.raft()
	if r.State() != raft.Leader {
		return state.ErrLost
	}
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
			return berth.Errorf(berth.Invalid, "server %q does not vote, so it cannot lead", id)
		case id == s.config.ID:
			return berth.Errorf(berth.Invalid, "server %q leads already", id)
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

// LeaderAddress returns the leader, as far as this server knows; "" if it knows
// of none.
func (s *Server) LeaderAddress() (id, address string) {
	a, i := s.raft().LeaderWithID()
	return string(i), string(a)
}

// Leadership holds a token after this server has heard of another leader, or of
// none, or has begun or ceased to lead. It is for one reader.
func (s *Server) Leadership() <-chan struct{} { return s.news }

// observe has raft tell of leadership. Observers are called with raft's locks
// held, so this one leaves a token and looks at nothing.
func (s *Server) observe(r *raft.Raft) {
	r.RegisterObserver(raft.NewObserver(nil, false, func(o *raft.Observation) bool {
		switch o.Data.(type) {
		case raft.LeaderObservation, raft.RaftState:
			s.tellLeadership()
		}
		return false
	}))
	s.tellLeadership() // of what was before it observed
}

func (s *Server) tellLeadership() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// Contact returns how long ago this server heard the leader, 0 on the leader
// itself, and whether it knows of one. A server that never heard one counts
// from when it was opened.
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

// Raft is the library's own server, for autopilot alone. It can be another
// after a full disk had room again.
func (s *Server) Raft() *raft.Raft { return s.raft() }

// await calls f, and returns early if ctx ends: f's work goes on.
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

// lost makes what raft says of a lost leadership our word for it.
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

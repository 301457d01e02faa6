package api

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"berth"
	"berth/internal/decode"
	"berth/internal/peer"
	"berth/internal/rest"
	"berth/internal/state"
	"berth/op"
)

// Peers is the API's access to the other servers.
type Peers interface {
	// Contact returns the time since the last contact with the leader, 0 on the
	// leader, and whether a leader is known.
	Contact() (last time.Duration, known bool)
	// Route returns the leader's address, "" if this server leads. over is
	// closed when that may have changed. Without a leader it waits until ctx
	// ends; then the error wraps state.ErrLost. asLeader is for a request that
	// was addressed to this server as the leader: if it does not lead, the
	// error is peer.ErrNotLeader.
	Route(ctx context.Context, asLeader bool) (addr string, over <-chan struct{}, err error)
	// Connect returns a connection to the server at an address. Its error wraps
	// peer.ErrUnreached.
	Connect(ctx context.Context, addr string) (peer.Conn, error)
	// Leading is the address of the leader, "" if none is known; Addresses are
	// the those of the servers that agree on the state.
	Leading() string
	Addresses() ([]string, error)
	// Servers are the live servers of the region, for agents to choose from.
	Servers() []op.ServerAddr
	// Regions are the names of the regions that have a live server, in order;
	// InRegion are the addresses of the live servers of one, in no order. Knows
	// reports whether a region has a server, which may be away.
	Regions() []string
	InRegion(name string) []string
	Knows(region string) bool
}

// Hold is how long a request waits for a leader (rpc_hold_timeout).
const Hold = 5 * time.Second

// Patience is how long a read waits for the state of a server that does not lead,
// before the leader answers it. Usually that takes milliseconds. After a restart
// raft may wait for ten seconds before it sends anything, and a whole snapshot
// takes longer still.
const Patience = time.Second

// patience is how long an operation waits for the state of this server. Streams
// wait for as long as for a leader, who does not answer them instead: they would
// end with its term.
func (x *operation) patience() time.Duration {
	if x.run == nil {
		return Hold
	}
	return Patience
}

// retryPause is how long a request that nobody answered waits before it is tried
// again, unless leadership changes before that.
const retryPause = 50 * time.Millisecond

// lastWord is how long a server that has a write, and no longer leads, may take
// to say what came of it.
const lastWord = time.Second

// scopeKey is the key of a context's op.Scope.
type scopeKey struct{}

// scopeOf returns how far a request may be forwarded.
func scopeOf(ctx context.Context) op.Scope {
	scope, _ := ctx.Value(scopeKey{}).(op.Scope)
	return scope
}

// contact sets how far this server may be behind, for a stale answer.
func (s *Server) contact(m *op.Meta) {
	if s.Peers != nil {
		m.LastContact, m.KnownLeader = s.Peers.Contact()
		return
	}
	_, err := s.Cluster.Leader()
	m.KnownLeader = err == nil
}

// attempt answers a request: over a connection to another server, which may
// forward it as far as scope says, or, if conn is nil, here.
type attempt func(ctx context.Context, conn peer.Conn, scope op.Scope) error

// place has try answer a request where it must be answered.
func (s *Server) place(ctx context.Context, x *operation, in any, try attempt) error {
	s.seekRegion(in)
	region := regionAsked(in)
	if s.server == nil && s.atAuthority(in) {
		region = s.Authority
		writeOf(in).Region = region
	}
	switch {
	case s.server != nil && (x.own == nil || !x.own(in)):
		return s.atServer(ctx, try)
	case s.Peers == nil || x.info.Local && !x.regional:
		return try(ctx, nil, "")
	case region != "" && region != s.Region:
		return s.inRegion(ctx, region, try)
	case !x.forLeader(in):
		return s.hereOrAtLeader(ctx, x, try)
	}
	return s.retryUntilLeader(ctx, x.info, try)
}

// hereOrAtLeader has try answer a read here, or at the leader if this server lags
// behind.
func (s *Server) hereOrAtLeader(ctx context.Context, x *operation, try attempt) error {
	err := try(ctx, nil, "")
	if x.run == nil || !errors.As(err, new(Behind)) {
		return err
	}
	led := s.retryUntilLeader(ctx, x.info, try)
	if scopeOf(ctx) != op.ScopeLeader && (errors.Is(led, state.ErrLost) || peer.NothingDone(led)) {
		return err // the leader does not answer
	}
	return led
}

// seekRegion sets the region of a request that holds a job. The request's own region
// comes first, then the job's. Clients write "global" into jobs that name no region,
// so a job of "global" stays in this region. A request for "global" does so if no
// region has that name. Source: https://github.com/hashicorp/nomad/pull/6064.
func (s *Server) seekRegion(in any) {
	x, ok := in.(interface{ Spec() decode.RawTree })
	if !ok || s.server != nil {
		return
	}
	w := writeOf(in)
	if w.Region == "" {
		if named, _ := decode.Lookup(decode.Tree(x.Spec()), "Region").(string); named != berth.DefaultRegion {
			w.Region = named
		}
	}
	if w.Region == berth.DefaultRegion && w.Region != s.Region && (s.Peers == nil || !s.Peers.Knows(w.Region)) {
		w.Region = ""
	}
}

// atServer sends a request from an agent that is not a server to a server.
func (s *Server) atServer(ctx context.Context, try attempt) error {
	conn, err := s.server(ctx)
	if err == nil {
		err = try(ctx, conn, op.ScopeAny)
		if !peer.NothingDone(err) && !errors.Is(err, peer.ErrDropped) || ctx.Err() != nil {
			return err
		}
	}
	return berth.Errorf(berth.Unavailable, "no server is reachable: %w", err)
}

// inRegion sends a request to a server of another region.
func (s *Server) inRegion(ctx context.Context, region string, try attempt) error {
	// A request that was forwarded once already goes no further than its scope
	// says.
	err := s.region(region)
	if scopeOf(ctx) != op.ScopeAny {
		return err
	}
	for _, addr := range s.Peers.InRegion(region) {
		var conn peer.Conn
		if conn, err = s.Peers.Connect(ctx, addr); err == nil {
			err = try(ctx, conn, op.ScopeRegion)
		}
		if !peer.NothingDone(err) {
			break
		}
	}
	if err != nil && berth.KindOf(err) == "" {
		err = berth.Errorf(berth.Unavailable, "region %q: %w", berth.Clip(region, 64), err)
	}
	return err
}

// retryUntilLeader sends a request to the current leader. It retries as long as
// nothing can have been done. Without a leader it waits, for at most Hold.
func (s *Server) retryUntilLeader(ctx context.Context, info *op.Info, try attempt) error {
	asLeader := scopeOf(ctx) == op.ScopeLeader
	until := time.Now().Add(Hold)
	for {
		// Each round looks for the leader again, since leadership may have
		// moved on.
		wait, cancel := context.WithDeadline(ctx, until)
		addr, over, err := s.Peers.Route(wait, asLeader)
		cancel()
		if err != nil {
			return err
		}
		if addr == "" {
			err = try(ctx, nil, "")
		} else {
			err = s.tryLeader(ctx, info, addr, over, try)
		}
		switch {
		case err == nil || ctx.Err() != nil:
			return err
		case peer.NothingDone(err):
			if asLeader {
				return peer.ErrNotLeader // the server that sent it looks for the next leader
			}
			if time.Now().After(until) {
				return err
			}
		case !errors.Is(err, peer.ErrDropped):
			return err
		// A read can be repeated. A write may have been done, and repeating it
		// could do it twice.
		case !info.IsRead():
			return berth.Errorf(berth.NoLeader, "%w: the leader was lost while it had the request, so it is not known what became of it: %v", state.ErrLost, err)
		default:
			until = time.Now().Add(Hold)
		}
		pause := time.NewTimer(retryPause)
		select {
		case <-over:
		case <-pause.C:
		case <-ctx.Done():
		}
		pause.Stop()
		if ctx.Err() != nil {
			return err
		}
	}
}

// tryLeader calls try with a connection to the server at addr, until another one
// leads. A write that it may have by then is not given up at once: who led says
// what came of it.
func (s *Server) tryLeader(ctx context.Context, info *op.Info, addr string, over <-chan struct{}, try attempt) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	var sent atomic.Bool
	go func() { // ends with ctx
		select {
		case <-over:
		case <-ctx.Done():
			return
		}
		if sent.Load() && info.Deposes {
			return
		}
		if !sent.Load() || info.IsRead() || rest.For(ctx, lastWord) == nil {
			end()
		}
	}()
	conn, err := s.Peers.Connect(ctx, addr)
	if err != nil {
		return err
	}
	sent.Store(true)
	return try(ctx, conn, op.ScopeLeader)
}

// termOver is in the error of a write that found the term over before anything
// of it was proposed.
type termOver struct{ error }

// Unwrap returns why.
func (e *termOver) Unwrap() error { return e.error }

// Is reports that nothing was done, because this server does not lead.
func (e *termOver) Is(target error) bool { return target == peer.ErrNotLeader }

package server

import (
	"context"
	"fmt"
	"sync"
	"time"

	"berth/internal/api"
	"berth/internal/peer"
	"berth/internal/state"
	"berth/op"
)

// leading is the leader that this server knows of. It changes only when another
// leader is known, so that calls to a leader that is silent for a moment go on
// waiting.
type leading struct {
	mu   sync.Mutex
	now  lease         // of the leader known last
	news chan struct{} // closed and replaced when anything that Route looks at changes
}

// lease is the time for which one server leads.
type lease struct {
	addr string             // "": no leader is known yet
	ctx  context.Context    // ends when another one leads
	end  context.CancelFunc // of ctx
}

// retryPause is the wait before a failed call to another server is tried again,
// unless leadership changes first.
const retryPause = 50 * time.Millisecond

// newLeading returns a leading that knows no leader yet.
func newLeading() *leading {
	l := &leading{news: make(chan struct{})}
	l.now.ctx, l.now.end = context.WithCancel(context.Background())
	return l
}

// watchLeader follows leadership changes until ctx ends.
func (s *Server) watchLeader(ctx context.Context) error {
	defer s.leading.set("")
	for {
		if _, addr := s.consensus.LeaderAddress(); addr != "" && addr != s.leading.current().addr {
			s.leading.set(addr)
		}
		s.leading.notify()
		select {
		case <-s.consensus.Leadership():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// current returns the lease of the leader known last, with no address before
// the first.
func (l *leading) current() lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

// changed returns a channel that is closed at the next change. Take it before
// reading the current state, or a change is missed.
func (l *leading) changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.news
}

// notify wakes everyone who waits for a change.
func (l *leading) notify() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.news)
	l.news = make(chan struct{})
}

// await returns after a change, or after d, or with ctx's error when that ends.
func await(ctx context.Context, changed <-chan struct{}, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-changed:
	case <-t.C:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// set ends the lease and begins one for the server at addr. Calls that depend
// on the old lease are cancelled.
func (l *leading) set(addr string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now.end()
	l.now.addr = addr
	l.now.ctx, l.now.end = context.WithCancel(context.Background())
}

// Route implements api.Peers.
func (s *Server) Route(ctx context.Context, asLeader bool) (addr string, over <-chan struct{}, err error) {
	for {
		changed, now := s.leading.changed(), s.leading.current()
		switch {
		case s.term.Load() != nil:
			return "", changed, nil
		case asLeader && !s.consensus.Leader():
			return "", nil, peer.ErrNotLeader
		case s.consensus.Complete() && s.consensus.DiskError() != nil: // nobody can lead before the disk has space
			return "", nil, s.noLeader()
		case !asLeader && now.addr != "" && now.addr != s.config.Advertise:
			if _, known := s.consensus.Contact(); known {
				return now.addr, now.ctx.Done(), nil
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			if err := ctx.Err(); err == context.Canceled {
				return "", nil, err
			}
			return "", nil, s.noLeader()
		}
	}
}

// noLeader returns why there is no leader as far as this server knows: its own
// disk, if that is full or hangs.
func (s *Server) noLeader() error {
	if err := s.consensus.DiskError(); err != nil {
		return err
	}
	return state.ErrLost
}

// reads batches the reads that wait for a safe index from the leader. All reads
// that arrive while one question is under way share the next one.
type reads struct {
	mu   sync.Mutex
	next *question     // the one that calls join now; nil: none yet
	wake chan struct{} // tells answerReads that there is a question
	over chan struct{} // closed when answerReads has ended
}

// question is one request to the leader for a safe index. index and err are
// valid once done is closed.
type question struct {
	done  chan struct{} // closed by answerReads
	index uint64
	err   error
}

// newReads returns reads for one run of answerReads.
func newReads() *reads { return &reads{wake: make(chan struct{}, 1), over: make(chan struct{})} }

// Sync implements api.Cluster.
func (s *Server) Sync(ctx context.Context, patience time.Duration) error {
	if s.config.Cluster == nil {
		if s.term.Load() == nil && !s.consensus.Complete() {
			return s.noLeader()
		}
		return nil
	}
	index, err := s.safeIndex(ctx)
	if err != nil || s.store.Snapshot().Index >= index {
		return err
	}
	if s.term.Load() != nil { // nobody else can answer
		patience = api.Hold
	}
	wait, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if _, err := s.store.Await(wait, index); err != nil {
		return api.Behind{Without: fmt.Errorf("%w: this server lags behind the leader, at state index %d of %d", state.ErrLost, s.store.Snapshot().Index, index)}
	}
	return nil
}

// safeIndex returns the state index that this server must reach before it
// answers a linearizable read.
func (s *Server) safeIndex(ctx context.Context) (uint64, error) {
	if s.term.Load() != nil || s.consensus.Complete() {
		if index, err := s.consensus.ReadIndex(ctx); err == nil {
			return index, nil
		}
		// Not the leader any more, or not sure: ask the leader.
	}
	return s.reads.ask(ctx)
}

// ask joins the next question and waits for its answer: a state index that
// covers everything that was answered before the call.
func (r *reads) ask(ctx context.Context) (uint64, error) {
	r.mu.Lock()
	if r.next == nil {
		r.next = &question{done: make(chan struct{})}
	}
	q := r.next
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
	select {
	case <-q.done:
		return q.index, q.err
	case <-r.over:
		return 0, state.ErrLost
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// answerReads asks the leader on behalf of the calls waiting in Sync, until ctx
// ends.
func (s *Server) answerReads(ctx context.Context) error {
	defer close(s.reads.over)
	for {
		select {
		case <-s.reads.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
		s.reads.mu.Lock()
		q := s.reads.next
		// From here on, calls join another question: the answer to this one may
		// be too old for them.
		s.reads.next = nil
		s.reads.mu.Unlock()
		if q == nil {
			continue
		}
		q.index, q.err = s.readIndex(ctx)
		close(q.done)
	}
}

// readIndex asks the current leader, for at most api.Hold.
func (s *Server) readIndex(ctx context.Context) (index uint64, err error) {
	hold, cancel := context.WithTimeout(ctx, api.Hold)
	defer cancel()
	for {
		addr, over, err := s.Route(hold, false)
		if err != nil {
			return 0, err
		}
		if addr == "" {
			index, err = s.consensus.ReadIndex(hold)
		} else {
			index, err = s.askReadIndex(hold, addr, over)
		}
		if err == nil {
			return index, nil
		}
		if await(hold, over, retryPause) != nil {
			return 0, fmt.Errorf("%w: %v", state.ErrLost, err)
		}
	}
}

// askReadIndex asks the server at addr until it answers or another one leads.
func (s *Server) askReadIndex(ctx context.Context, addr string, over <-chan struct{}) (uint64, error) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	go func() { // ends with ctx
		select {
		case <-over:
			end()
		case <-ctx.Done():
		}
	}()
	out, err := op.Call(ctx, caller{s, addr}, op.ReadIndex, &op.Nothing{})
	if err != nil {
		return 0, err
	}
	return out.Index, nil
}

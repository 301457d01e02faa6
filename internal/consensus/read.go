package consensus

import (
	"context"
	"fmt"
	"sync"

	"berth/internal/failpoint"
	"berth/internal/state"
)

// lease is a term that this server leads.
type lease struct {
	number uint64 // of the term, as the state counts
	raft   uint64 // of raft, which counts its own
}

// Verify returns nil if this server led without interruption, in one term that
// had begun, from the call until a moment after it; a majority confirmed that.
// Concurrent calls share one round trip. The error wraps state.ErrLost or is
// the context's.
func (s *Server) Verify(ctx context.Context) error {
	l := s.leads.Load()
	if l == nil {
		return state.ErrLost
	}
	if failpoint.Hit("consensus/lease-read") != nil { // a defect that the fault runner must find
		return nil
	}
	return s.verifyLease(ctx, l)
}

// confirm returns nil if this server has led without interruption from the
// beginning of a term until a moment after the call. Whatever it decided in
// that time, on a state that was committed, was true when it was decided.
func (s *Server) confirm(ctx context.Context, number uint64) error {
	l := s.leads.Load()
	if l == nil || l.number != number {
		return fmt.Errorf("%w: the term is over", state.ErrLost)
	}
	return s.verifyLease(ctx, l)
}

// verifyLease is Verify for a term that this server leads.
func (s *Server) verifyLease(ctx context.Context, l *lease) error {
	if err := s.askMajority(ctx, l.raft); err != nil {
		return err
	}
	if s.leads.Load() != l {
		return errChanged
	}
	return nil
}

// askMajority returns nil once a majority has confirmed, after the call, that
// this server leads raft's given term. The error wraps state.ErrLost or is the
// context's.
func (s *Server) askMajority(ctx context.Context, term uint64) error {
	// Raft is not asked by a server that is alone: it may be waiting for the
	// disk.
	if !s.shared || s.alone() {
		return nil
	}
	if err := s.rounds.ask(ctx, s.verify); err != nil {
		return err
	}
	// Raft can have lost its leadership and gained it again while what runs
	// during our term has not noticed yet.
	if s.raft().CurrentTerm() != term {
		return errChanged
	}
	return nil
}

// errChanged is returned to callers that asked in one term and would be
// answered in another.
var errChanged = fmt.Errorf("%w: leadership changed in the meantime", state.ErrLost)

// Confirmations returns how often this server has asked a majority whether it
// leads.
func (s *Server) Confirmations() uint64 { return s.asked.Load() }

// ReadIndex returns a state index that includes everything that any server
// answered before the call. A read of a state that has reached this index, on
// any server, is linearizable. Only the leader knows the index; other servers
// return state.ErrLost. The leader itself may have to wait for the index, too.
func (s *Server) ReadIndex(ctx context.Context) (uint64, error) {
	l := s.leads.Load()
	if l == nil && s.Complete() {
		return s.store.Snapshot().Index, nil
	}
	if l == nil {
		return 0, state.ErrLost
	}
	// If the index was read in an earlier term of ours, it may be older than
	// what other servers answered between the two terms.
	index := s.fsm.reach(s.raft().CommitIndex())
	if failpoint.Hit("consensus/lease-read") != nil { // a defect that the fault runner must find
		return index, nil
	}
	if err := s.verifyLease(ctx, l); err != nil {
		return 0, err
	}
	return index, nil
}

// Complete reports whether this server's state has everything that was ever
// answered although it does not lead: it is the only voter, and has led, until
// its disk was full. Nobody else can have answered a write since.
func (s *Server) Complete() bool { return s.complete.Load() && s.alone() }

// verify asks a majority whether this server still leads. It returns
// state.ErrLost if not.
func (s *Server) verify() error {
	s.asked.Add(1)
	return lost(s.raft().VerifyLeader().Error())
}

// rounds lets callers share a round trip to a majority. Callers that arrive
// during a round wait together for the next one.
type rounds struct {
	// mu guards the fields below it.
	mu sync.Mutex
	// next is the round that has not begun yet; callers join it.
	next    *round
	running bool
	closed  bool
	idle    sync.WaitGroup
}

// round is one call of verify, shared by everyone who asked before it began.
type round struct {
	done chan struct{}
	err  error
}

// ask waits for a round of verify that began after the call, and returns its
// error. Callers that arrive during a round share the next one, so a busy
// server needs few rounds.
func (r *rounds) ask(ctx context.Context, verify func() error) error {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return state.ErrLost
	}
	if r.next == nil {
		r.next = &round{done: make(chan struct{})}
	}
	mine := r.next
	if !r.running {
		r.running = true
		r.idle.Go(func() { r.run(verify) })
	}
	r.mu.Unlock()
	select {
	case <-mine.done:
		return mine.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run does rounds until nobody waits for another one.
func (r *rounds) run(verify func() error) {
	for {
		r.mu.Lock()
		now := r.next
		r.next = nil
		if now == nil {
			r.running = false
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
		now.err = verify()
		close(now.done)
	}
}

// close refuses later calls and waits for the current ones.
func (r *rounds) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.idle.Wait()
}
